"""What every kind of search returns: a translation with its probabilities and all its attention."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

__all__ = ["Hypothesis"]


@dataclass(frozen=True)
class Hypothesis:
    """One finished translation of one sentence.

    Attributes:
        tokens: Its token ids, without start and end symbol; an end symbol follows them always.
        score: What search ranks by: the log-probability over the length penalty, and what else was asked
            for.
        log_probability: log p(tokens, end | source) under the model, in nats.
        token_log_probs: Its parts: one for each token and one for the end symbol.
        attention: For each attending layer the weights [T, H, S] in float32: T steps, the last one that of
            the end symbol; H heads; S source tokens, without padding.
        beliefs: Its posterior, the same once its tokens were known, where that is another (for hard attention
            the probabilities behind the selection); else none. Of what was searched for, the `Translator`
            says it.
        cut: Of one that was drawn: whether its end was no draw, nothing else being allowed there (it is as
            long as may be, or its attention is used up).
    """

    tokens: tuple[int, ...]
    score: float
    log_probability: float
    token_log_probs: tuple[float, ...]
    attention: tuple[Float[np.ndarray, "T _ S"], ...]
    beliefs: tuple[Float[np.ndarray, "T _ S"], ...] = ()
    cut: bool = False

    @property
    def believed(self) -> tuple[Float[np.ndarray, "T _ S"], ...]:
        """Where each token was read from, as far as that is known: `beliefs`, else `attention`."""
        return self.beliefs or self.attention
