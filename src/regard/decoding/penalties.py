"""The score of a hypothesis: its log-probability, made fair to long ones, and what its attention adds.

Wu et al. (2016), Eq. 14:

    score = log P(y | x) / lp(y) + sum of what the attention adds,   lp(y) = ((5 + |y|) / 6)^alpha,

|y| counting the end symbol. What the attention adds (a coverage penalty, say) is never above zero, so that
search knows the best a hypothesis can still come to.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.types import Bool, Float, Int, Tensor

__all__ = ["AttentionScore", "Scorer", "length_penalty"]


def length_penalty(length: Any, alpha: float) -> Any:
    """((5 + length) / 6)^alpha, the end symbol counted in `length`, a number or a tensor of them."""
    return ((5 + length) / 6) ** alpha


AttentionScore = Callable[[tuple[Tensor, ...], Tensor], Tensor]
"""What the attention of finished hypotheses adds to their scores: from the weights [N, H, S] of each layer,
summed over all steps, and the mask [N, S] of source tokens, to a number at most zero for each."""


@dataclass(frozen=True)
class Scorer:
    """Scores hypotheses.

    Attributes:
        alpha: Exponent of the length penalty; 0 turns it off.
        additions: What the attention adds.
    """

    alpha: float = 0.0
    additions: tuple[AttentionScore, ...] = ()

    def __call__(
        self,
        log_probability: Float[Tensor, "*N"],
        length: int,
        attention: tuple[Float[Tensor, "N H S"], ...] = (),
        mask: Bool[Tensor, "N S"] | None = None,
    ) -> Float[Tensor, "*N"]:
        """The scores of hypotheses of one length.

        Args:
            log_probability: log P(y | x), in nats.
            length: |y|, the end symbol counted.
            attention: The weights summed over all steps; looked at only where there are additions.
            mask: True at source tokens.
        """
        score = log_probability / length_penalty(length, self.alpha)
        if self.additions:
            assert mask is not None
            for addition in self.additions:
                score = score + addition(attention, mask)
        return score

    def one(self, token_log_probs: Sequence[float]) -> float:
        """The score of one hypothesis, without what the attention adds.

        Args:
            token_log_probs: The log-probability of each token and of the end symbol.
        """
        return math.fsum(token_log_probs) / length_penalty(len(token_log_probs), self.alpha)

    def ceiling(
        self, log_probability: Float[Tensor, "N"], length: int | Int[Tensor, "N"]
    ) -> Float[Tensor, "N"]:
        """The highest score that hypotheses of this log-probability can have at this length."""
        return log_probability / length_penalty(length, self.alpha)
