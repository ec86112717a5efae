"""Localness: a learned Gaussian bias on the scores of self-attention (Yang et al. 2018, Section 3).

For the query Q_i of word i, a sentence of I words and each head,

    G_ij = -(j - P_i)^2 / (2 sigma_i^2),   sigma_i = D_i / 2,
    P_i = I sigmoid(u_p . tanh(W Q_i)),    D_i = I sigmoid(u_d . tanh(W Q_i))

is added to the scores: P_i is the centre of what word i looks at and D_i its window, both between 0 and I, in
words; words are counted from 0. W is the same for both and for all heads. In a decoder I is the number of
words so far.
"""

import torch
from torch import nn

from regard.functional.masking import exact_dtype
from regard.layers.linear import Linear
from regard.types import Float, Tensor

__all__ = ["Localness"]

NARROWEST = 1e-3
"""Of windows, in words: narrower ones look at one word just as well."""


class Localness(nn.Module):
    """The bias.

    Args:
        width: Of the queries of all heads together.
        heads: H.
    """

    def __init__(self, width: int, heads: int) -> None:
        """Make W, u_p and u_d."""
        super().__init__()
        self.hidden = Linear(width, width, bias=False)
        self.places = Linear(width, 2 * heads, parts=2, bias=False)

    def forward(
        self, queries: Float[Tensor, "B T D"], lengths: Float[Tensor, "#B #T"], words: int
    ) -> Float[Tensor, "B H T S"]:
        """G, float32 at least.

        Args:
            queries: Q, the heads side by side.
            lengths: I of each query.
            words: S.
        """
        found = self.places(torch.tanh(self.hidden(queries)))
        found = torch.sigmoid(found.to(exact_dtype(found.dtype))) * lengths.unsqueeze(-1)
        centre, window = found.transpose(1, 2).unsqueeze(-1).chunk(2, dim=1)  # (B, H, T, 1) each
        places = torch.arange(words, dtype=found.dtype, device=found.device)
        return -((places - centre) ** 2) / (2 * (window.clamp_min(NARROWEST) / 2) ** 2)
