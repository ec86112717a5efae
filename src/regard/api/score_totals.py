"""Sums over the scores of given translations, and the file of token scores of `regard score`."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config.results import json_value, perplexity
from regard.errors import DataError
from regard.text.corpus import read_lines
from regard.text.whitespace import split_whitespace

__all__ = ["ScoreTotals", "read_token_scores"]


@dataclass(frozen=True)
class ScoreTotals:
    """Sums over the scores of given translations.

    Attributes:
        num_sentences: Number of pairs, including those that could not be scored.
        num_skipped: Number of pairs that could not be scored.
        num_retokenized: Number of pairs whose tokens were given and differ from those of the tokenizer.
        num_tokens: Number of scored tokens, including end symbols.
        log_probability: Log-probability of all scored translations, in nats.
    """

    num_sentences: int = 0
    num_skipped: int = 0
    num_retokenized: int = 0
    num_tokens: int = 0
    log_probability: float = 0.0

    def add(self, token_log_probs: Sequence[float] | None, retokenized: bool = False) -> "ScoreTotals":
        """Return the sums with another pair.

        Args:
            token_log_probs: Its log-probabilities, in nats. None if it could not be scored.
            retokenized: Whether its tokens were given and differ from those of the tokenizer.
        """
        logs = token_log_probs or ()
        return ScoreTotals(
            self.num_sentences + 1,
            self.num_skipped + (token_log_probs is None),
            self.num_retokenized + retokenized,
            self.num_tokens + len(logs),
            self.log_probability + math.fsum(logs),
        )

    @property
    def perplexity(self) -> float:
        """Return the perplexity per token, NaN without tokens; see `regard.config.results.perplexity`."""
        return perplexity(-self.log_probability / self.num_tokens) if self.num_tokens else math.nan

    def to_data(self) -> dict[str, Any]:
        """Return the sums and the perplexity as JSON values."""
        data = dataclasses.asdict(self) | {"perplexity": json_value(self.perplexity)}
        return data | {"log_probability": json_value(self.log_probability)}


def read_token_scores(path: Path | str) -> ScoreTotals:
    """Return the sums of the log-probabilities in a file of `regard score --token-scores`.

    An empty line stands for a pair that was not scored.

    Raises:
        DataError: if the file cannot be read, a field does not have the form TOKEN|LOG-PROBABILITY, there is
            no token, or the perplexity exceeds the range of a float.
    """
    totals = ScoreTotals()
    for number, line in enumerate(read_lines(path), 1):
        logs = []
        for item in split_whitespace(line):
            # A token may contain "|", so split at the last one.
            name, separator, value = item.rpartition("|")
            try:
                logs.append(float(value))
                # A log-probability is at most 0. The negated comparison also rejects NaN.
                if not separator or not name or not logs[-1] <= 0:
                    raise ValueError
            except ValueError:
                raise DataError(
                    f"{path}:{number}: {item!r} does not have the form TOKEN|LOG-PROBABILITY written by "
                    "`regard score --token-scores`"
                ) from None
        totals = totals.add(logs or None)
    if not totals.num_tokens:
        raise DataError(f"{path}: the file contains no tokens")
    if not math.isfinite(totals.perplexity):
        raise DataError(
            f"{path}: the perplexity cannot be computed: the mean log-probability is "
            f"{totals.log_probability / totals.num_tokens:g}"
        )
    return totals
