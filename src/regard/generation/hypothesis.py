"""The result of every kind of search: a translation with its probabilities and attention."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

__all__ = ["Hypothesis"]


@dataclass(frozen=True)
class Hypothesis:
    """One finished translation of one sentence.

    Attributes:
        tokens: Token ids, without start and end symbol. An end symbol always follows them.
        score: Score that search ranks by: the log-probability divided by the length penalty, plus the
            coverage penalty.
        log_probability: log p(tokens, end symbol | source) under the model, in nats.
        token_log_probs: Log-probability of each token and, last, of the end symbol, in nats.
        attention: Weights [T, H, S] of each attention layer in float32: T time steps including that of the
            end symbol, H heads, S source tokens without padding.
        posteriors: Posterior attention in the same form, after each token is known. Empty if it equals
            `attention`. With hard attention, it holds the probability of each selection. Search itself leaves
            it empty; `Translator` fills it in.
        truncated: Of a sampled hypothesis: whether the end symbol was forced, because the maximum length was
            reached or no attention was left.
    """

    tokens: tuple[int, ...]
    score: float
    log_probability: float
    token_log_probs: tuple[float, ...]
    attention: tuple[Float[np.ndarray, "T _ S"], ...]
    posteriors: tuple[Float[np.ndarray, "T _ S"], ...] = ()
    truncated: bool = False

    @property
    def posterior_attention(self) -> tuple[Float[np.ndarray, "T _ S"], ...]:
        """Return the posterior attention of each token: `posteriors`, or `attention` if they are equal."""
        return self.posteriors or self.attention
