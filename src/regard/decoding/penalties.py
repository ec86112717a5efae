"""The score of a hypothesis: its log-probability, made fair to long ones, and what its attention adds.

Wu et al. (2016), Eq. 14:

    score = log P(y | x) / lp(y) + cp(x, y),   lp(y) = ((5 + |y|) / 6)^alpha,
    cp(x, y) = beta sum_j log max(eps, min(1, sum_t a_tj)),

|y| counting the end symbol, j going over the real words (neither padding nor a sink), t over all steps, that
of the end symbol too. The floor eps is that of Malaviya et al. (2018), footnote 5: sparse attention leaves
words with nothing, whose logarithm there is not. What attention adds is never above zero, so that search
knows the best a hypothesis can still come to.

Hugging Face's library divides by |y|^alpha instead, and counts tokens that are forced at the start too.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.decoding.config import SearchConfig
from regard.types import Bool, Float, Int, Tensor

__all__ = ["AttentionScore", "CoveragePenalty", "Scorer", "length_penalty"]


def length_penalty(length: Any, alpha: float) -> Any:
    """((5 + length) / 6)^alpha, the end symbol counted in `length`, a number or a tensor of them."""
    return ((5 + length) / 6) ** alpha


AttentionScore = Callable[[tuple[Tensor, ...], Tensor], Tensor]
"""What attention adds to the scores of hypotheses: from the weights [N, H, S] of each layer, summed over all
steps, and the mask [N, S] of real source words, to a number at most zero for each."""


@dataclass(frozen=True)
class CoveragePenalty:
    """What neglected source words cost: an `AttentionScore` of the last layer, the mean of its heads.

    Attributes:
        weight: beta.
        floor: eps, in (0, 1].
    """

    weight: float
    floor: float = 0.1

    def __call__(
        self, attention: tuple[Float[Tensor, "N _ S"], ...], words: Bool[Tensor, "N S"]
    ) -> Float[Tensor, "N"]:
        """The penalty of each hypothesis."""
        received = attention[-1].mean(dim=1).clamp(self.floor, 1.0)
        return self.weight * received.log().masked_fill(~words, 0.0).sum(dim=-1)


@dataclass(frozen=True)
class Scorer:
    """Scores hypotheses.

    Attributes:
        alpha: Exponent of the length penalty; 0 turns it off.
        additions: What the attention adds.
        power: Whether the length penalty is |y|^alpha instead.
        forced: How many tokens forced at the start |y| counts then.
    """

    alpha: float = 0.0
    additions: tuple[AttentionScore, ...] = ()
    power: bool = False
    forced: int = 0

    @classmethod
    def of(cls, config: SearchConfig, before: int = 1) -> "Scorer":
        """The scorer that search settings describe.

        Args:
            config: The settings.
            before: How many tokens stand before every translation of the model, the start symbol included.
        """
        coverage = config.coverage_penalty
        additions = (CoveragePenalty(coverage.weight, coverage.floor),) if coverage.weight else ()
        if not config.scheme.transformers:
            return cls(config.length_penalty, additions)
        return cls(config.length_penalty, additions, power=True, forced=before - 1)

    def penalty(self, length: Any) -> Any:
        """What log-probabilities are divided by, the end symbol counted in `length`."""
        return (length + self.forced) ** self.alpha if self.power else length_penalty(length, self.alpha)

    def __call__(
        self, log_probability: Float[Tensor, "*N"], length: int | Int[Tensor, "*N"]
    ) -> Float[Tensor, "*N"]:
        """The scores of hypotheses, without what the attention adds.

        Args:
            log_probability: log P(y | x), in nats.
            length: |y|, the end symbol counted.
        """
        return log_probability / self.penalty(length)

    def added(
        self, attention: tuple[Float[Tensor, "N _ S"], ...], words: Bool[Tensor, "N S"]
    ) -> Float[Tensor, "N"] | None:
        """What the attention adds to the scores, at most zero; none where it adds nothing.

        Args:
            attention: The weights of each layer, summed over all steps.
            words: True at real source words, see `Sequences.words`.
        """
        found = [addition(attention, words) for addition in self.additions]
        return sum(found[1:], start=found[0]) if found else None

    def one(self, token_log_probs: Sequence[float]) -> float:
        """The score of one hypothesis, without what the attention adds.

        Args:
            token_log_probs: The log-probability of each token and of the end symbol.
        """
        return math.fsum(token_log_probs) / self.penalty(len(token_log_probs))
