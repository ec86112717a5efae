"""The layers behind `regard.models.conv` (Gehring et al. 2017, Sections 3.2 to 3.5).

A block of the encoder, X its input, W X_k the convolution and s = sqrt(0.5),

    [A; B] = W X_k + b,   H = A * sigmoid(B),   H' = s (H + X)                       (Section 3.2, 3.4)

A block of the decoder asks attention between the two, g the embedding of the word before,

    D = s (W_d H + b_d + g),   H' = s (s (H + W_c c(D) + b_c) + X)                  (Eq. 1, Section 3.3, 3.4)

and sees only words before its own. Section 3.4 has sqrt(0.5) at every sum of two. Weights are normalised and
drawn so that variance is kept: four times as large in front of a gate, smaller after dropout (Section 3.5).
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention.base import Attention
from regard.kernels.autograd import apply, first_order
from regard.layers.convolution import NormalisedLinear, OpenLinear, windows
from regard.layers.dropout import dropout
from regard.layers.rows import Rows
from regard.models.stack import Asking
from regard.types import Bool, Float, Tensor

__all__ = ["HALF", "ConvDecoderLayer", "ConvEncoderLayer", "Past", "scale_gradient"]

HALF = math.sqrt(0.5)
"""Keeps the variance of a sum of two."""
GATED = 4.0
"""What a gate takes of the variance of what it is given."""


class _ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0] * ctx.scale, None


def scale_gradient(x: Float[Tensor, "*B"], scale: float) -> Float[Tensor, "*B"]:
    """`x`, whose gradient is multiplied by `scale` on its way back."""
    return apply(_ScaleGradient, x, scale)


@dataclass(frozen=True)
class Past(Rows):
    """What a layer of the decoder saw of the words before.

    Attributes:
        inputs: [B, kernel - 1, D], zeros before the first word.
    """

    inputs: Float[Tensor, "B _ D"]


def _convolution(width: int, kernel: int, dropout: float) -> NormalisedLinear:
    return NormalisedLinear(kernel * width, 2 * width, GATED * (1 - dropout))


class ConvEncoderLayer(nn.Module):
    """A gated convolution over the words around each.

    Args:
        width: D.
        kernel: How many words it sees; odd.
        dropout: Probability of dropping a number that it sees.
    """

    def __init__(self, width: int, kernel: int, dropout: float) -> None:
        """Make the convolution."""
        super().__init__()
        self.kernel, self.dropout = kernel, dropout
        self.convolution = _convolution(width, kernel, dropout)

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """The layer's states.

        Args:
            x: The words.
            mask: True at real words: beyond them the convolution sees zeros.
        """
        real = dropout(x, self.dropout, self.training).masked_fill(~mask.unsqueeze(-1), 0.0)
        convolve, each_side = self.convolution.open(), self.kernel // 2
        found = convolve(windows(real.to(convolve.weight.dtype), each_side, each_side))
        return (F.glu(found, dim=-1) + x) * HALF


@dataclass(frozen=True)
class OpenDecoderLayer:
    """A layer of the decoder with its weights made: for one forward pass, or for one search.

    Attributes:
        convolve: From windows to gates and what passes them.
        ask: W_d.
        answer: W_c.
        kernel: How many words a window has.
    """

    convolve: OpenLinear
    ask: OpenLinear
    answer: OpenLinear
    kernel: int

    def over(
        self, x: Float[Tensor, "B T D"], seen: Float[Tensor, "B T D"], embedded: Float[Tensor, "B T E"]
    ) -> Asking:
        """The first half over a whole text.

        Args:
            x: The layer's input.
            seen: The same with dropout, as the convolution sees it.
            embedded: The embeddings of the words before.
        """
        return self._asking(x, windows(seen.to(self.convolve.weight.dtype), self.kernel - 1, 0), embedded)

    def step(
        self, x: Float[Tensor, "B D"], past: Past, embedded: Float[Tensor, "B E"]
    ) -> tuple[Asking, Past]:
        """The first half on one more word, and what is past then."""
        inputs = torch.cat([past.inputs, x.to(past.inputs.dtype).unsqueeze(1)], dim=1)  # (B, kernel, D)
        return self._asking(x, inputs.flatten(1), embedded), Past(inputs[:, 1:])

    def begin(self, batch: int, like: Tensor) -> Past:
        """Nothing past.

        Args:
            batch: B.
            like: Whose device it has.
        """
        weight = self.convolve.weight
        width = weight.shape[0] // self.kernel
        return Past(torch.zeros(batch, self.kernel - 1, width, dtype=weight.dtype, device=like.device))

    def _asking(
        self, x: Float[Tensor, "*B D"], seen: Float[Tensor, "*B W"], embedded: Float[Tensor, "*B E"]
    ) -> Asking:
        found = F.glu(self.convolve(seen), dim=-1)
        queries = (self.ask(found) + embedded) * HALF
        return Asking((found * HALF + x) * HALF, queries, self._finish)

    def _finish(self, kept: Float[Tensor, "*#B D"], contexts: Float[Tensor, "*B E"]) -> Float[Tensor, "*B D"]:
        """H', `kept` being s (s H + X)."""
        return kept + self.answer(contexts) * 0.5


class ConvDecoderLayer(nn.Module):
    """A gated convolution over the words before each, and attention to the source.

    Args:
        width: D.
        kernel: How many words it sees.
        embedding: E, width of the embeddings, the queries and the contexts.
        dropout: Probability of dropping a number that it sees.
        source: Attention to the source.
    """

    def __init__(self, width: int, kernel: int, embedding: int, dropout: float, source: Attention) -> None:
        """Make the maps."""
        super().__init__()
        self.kernel, self.dropout = kernel, dropout
        self.convolution = _convolution(width, kernel, dropout)
        self.source = source
        self.query = NormalisedLinear(width, embedding)
        self.context = NormalisedLinear(embedding, width)

    def open(self) -> OpenDecoderLayer:
        """Make the weights."""
        return OpenDecoderLayer(self.convolution.open(), self.query.open(), self.context.open(), self.kernel)

    def multiply_adds(self) -> int:
        """Of one word, less what attention does."""
        parts = (self.convolution, self.query, self.context)
        return sum(part.direction.numel() for part in parts)
