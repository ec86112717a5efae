"""The likelihood of a token under each source word, where the readout is linear.

With O W [x_j; s_t] + b as logits (no tanh between), a source word's part g_j = O W_x x_j is made once a
sentence, the state's part h_t = O W_s s_t + b once a step, and the sum over the vocabulary is a product of
what both had made before:

    log p(y | s_t, x_j) = g_jy + h_ty - log sum_v exp(g_jv) exp(h_tv).

So no logits of words times steps times vocabulary are ever held. Each factor is taken relative to its
greatest logit; where the two leave less than 1e-38 to their product, 87 nats apart, the sum is that.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.functional.masking import exact_dtype
from regard.kernels.products import linear
from regard.layers.steps import StepProduct
from regard.types import Float, Int, Tensor

__all__ = ["SourceReadout"]


@dataclass(frozen=True)
class SourceReadout:
    """A linear readout opened for a batch: the words' part for all its steps, and the products of a step.

    Attributes:
        combine: W_s, opened.
        output: O, opened as [Q, V].
        bias: b.
        noise: Dropout.
        top: [B, S], the greatest logit of each word.
        powers: exp(g_j - top) for each word, opened as [B, V, S].
        picked: [B, S, T], the logit of each target token.
        mean: [B, S], the mean logit, where it was asked for.
    """

    combine: StepProduct
    output: StepProduct
    bias: Float[Tensor, "V"]
    noise: Callable[[Tensor], Tensor]
    top: Float[Tensor, "B S"]
    powers: StepProduct
    picked: Float[Tensor, "B S T"]
    mean: Float[Tensor, "B S"] | None

    @classmethod
    def open(
        cls,
        states: Float[Tensor, "B S D"],
        combine: Float[Tensor, "N Q"],
        output: Float[Tensor, "V Q"],
        bias: Float[Tensor, "V"],
        targets: Int[Tensor, "B T"],
        noise: Callable[[Tensor], Tensor],
        average: bool,
    ) -> "SourceReadout":
        """Make it.

        Args:
            states: x.
            combine: W, transposed: D rows for x, then those for s.
            output: O.
            bias: b.
            targets: y.
            noise: Dropout.
            average: Whether means are wanted.
        """
        width = states.shape[-1]
        part = noise(linear(states.to(output.dtype), combine[:width].to(output.dtype)))
        logits = linear(part, output.t())
        logits = logits.to(exact_dtype(logits.dtype))
        top = logits.detach().amax(-1, keepdim=True)
        powers = StepProduct.open((logits - top).exp().transpose(1, 2))
        picked = logits.gather(2, targets.unsqueeze(1).expand(-1, logits.shape[1], -1))
        opened = StepProduct.open(combine[width:]), StepProduct.open(output.t())
        mean = logits.mean(-1) if average else None
        return cls(*opened, bias, noise, top.squeeze(-1), powers, picked, mean)

    def score(
        self, state: Float[Tensor, "B Q"], targets: Int[Tensor, "B"], step: int
    ) -> tuple[Float[Tensor, "B S"], Float[Tensor, "B S"]]:
        """Log p(y_t) under each word, and the mean over the vocabulary where it was asked for.

        Args:
            state: s_t.
            targets: y_t.
            step: t, from 0.
        """
        logits = self.output(self.noise(self.combine(state))) + self.bias
        logits = logits.to(exact_dtype(logits.dtype))
        top = logits.detach().amax(-1, keepdim=True)
        sums = self.powers((logits - top).exp().unsqueeze(1))[:, 0].to(logits.dtype)
        normaliser = sums.clamp_min(torch.finfo(sums.dtype).tiny).log() + self.top + top
        found = self.picked[:, :, step] + logits.gather(1, targets.unsqueeze(1)) - normaliser
        if self.mean is None:
            return found, torch.zeros_like(found)
        return found, self.mean + logits.mean(-1, keepdim=True) - normaliser
