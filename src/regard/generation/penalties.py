"""Scores of hypotheses: log-probability, length penalty and coverage penalty.

Wu et al. (2016), Eq. 14:

    score = log P(y | x) / lp(y) + cp(x, y),   lp(y) = ((5 + |y|) / 6)^alpha,
    cp(x, y) = beta sum_j log max(eps, min(1, sum_t a_tj)),

where |y| includes the end symbol, j runs over the source tokens (without padding and sink) and t over all
time steps including that of the end symbol. The floor eps is that of Malaviya et al. (2018), footnote 5: with
sparse attention the total attention of a word may be 0, whose logarithm is not finite. The coverage penalty
is at most 0, so search can bound the score that a hypothesis may still reach.

Hugging Face's transformers divides by |y|^alpha instead, and |y| includes tokens that are forced at the
start.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.generation.config import GenerationConfig
from regard.types import Bool, Float, Int, Tensor

__all__ = ["HypothesisScorer", "length_penalty"]


def length_penalty(length: Any, alpha: float) -> Any:
    """Return ((5 + length) / 6)^alpha for a number or a tensor. `length` includes the end symbol."""
    return ((5 + length) / 6) ** alpha


@dataclass(frozen=True)
class HypothesisScorer:
    """Scoring function of hypotheses.

    Attributes:
        alpha: Exponent of the length penalty. 0 disables it.
        coverage_weight: beta of the coverage penalty. 0 disables it.
        coverage_epsilon: eps of the coverage penalty, in (0, 1].
        transformers_length_penalty: Whether the length penalty is |y|^alpha, as in transformers.
        num_forced_tokens: Number of tokens forced at the start that |y| then includes.
    """

    alpha: float = 0.0
    coverage_weight: float = 0.0
    coverage_epsilon: float = 0.1
    transformers_length_penalty: bool = False
    num_forced_tokens: int = 0

    @classmethod
    def from_config(cls, config: GenerationConfig, num_prefix_tokens: int = 1) -> "HypothesisScorer":
        """Return the scorer that search settings describe.

        Args:
            config: Search settings.
            num_prefix_tokens: Number of tokens before every translation of the model, including the start
                symbol.
        """
        coverage, compatible = config.coverage_penalty, config.scheme.hf_compatible
        # The start symbol is not a forced token.
        num_forced = num_prefix_tokens - 1 if compatible else 0
        return cls(config.length_penalty, coverage.weight, coverage.epsilon, compatible, num_forced)

    def penalty(self, length: Any) -> Any:
        """Return the divisor of log-probabilities. `length` includes the end symbol."""
        return (
            (length + self.num_forced_tokens) ** self.alpha
            if self.transformers_length_penalty
            else length_penalty(length, self.alpha)
        )

    def __call__(
        self, log_probability: Float[Tensor, "*N"], length: int | Int[Tensor, "*N"]
    ) -> Float[Tensor, "*N"]:
        """Return log P(y | x), in nats, divided by the penalty of |y|, which includes the end symbol."""
        return log_probability / self.penalty(length)

    def coverage_penalty(
        self, attention: tuple[Float[Tensor, "N _ S"], ...], words: Bool[Tensor, "N S"]
    ) -> Float[Tensor, "N"] | None:
        """Return the coverage penalty, from the mean of the heads of the last layer; None without one.

        Args:
            attention: Weights of each layer, summed over all time steps.
            words: True at source tokens other than padding and sink; see `PaddedSequences.word_mask`.
        """
        if not self.coverage_weight:
            return None
        # The floor keeps the logarithm finite; the ceiling is the min(1, .) of Eq. 14.
        received = attention[-1].mean(dim=1).clamp(self.coverage_epsilon, 1.0)
        return self.coverage_weight * received.log().masked_fill(~words, 0.0).sum(dim=-1)

    def score_tokens(self, token_log_probs: Sequence[float]) -> float:
        """Return the score of one hypothesis without the coverage penalty.

        Args:
            token_log_probs: Log-probability of each token and of the end symbol, in nats.
        """
        # `fsum` rounds only once, so the score of a long translation loses no precision.
        return math.fsum(token_log_probs) / self.penalty(len(token_log_probs))
