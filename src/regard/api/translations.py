"""Translations and scores of several texts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from regard.config.results import Result, SequenceResult, json_value, perplexity
from regard.generation.translation import Translation


@dataclass(frozen=True, repr=False)
class Translations(SequenceResult[Translation]):
    """The translations of several texts, in their order.

    Attributes:
        sentences: The translation of each text.
    """

    schema = "translations"
    sentences: tuple[Translation, ...]

    def to_data(self) -> dict[str, Any]:
        """Return the fields of each translation; see `Translation.to_data`."""
        return {"sentences": [translation.to_data() for translation in self.sentences]}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per text: source, translation, score, log-probability and error."""
        return [translation.row() for translation in self.sentences]


@dataclass(frozen=True, repr=False)
class Scores(Translations):
    """The scores of given translations, in their order. A pair that cannot be scored has an `error`.

    Attributes:
        sentences: The given translations with their scores.
    """

    schema = "scores"

    @cached_property
    def totals(self) -> "ScoreTotals":
        """Return the sums over all pairs."""
        sums = ScoreTotals()
        for translation in self.sentences:
            sums = sums.add(translation)
        return sums

    @property
    def perplexity(self) -> float:
        """Return the perplexity per token; see `ScoreTotals.perplexity`."""
        return self.totals.perplexity

    def to_data(self) -> dict[str, Any]:
        """Return the totals, and the fields of each translation."""
        return self.totals.to_data() | super().to_data()


@dataclass(frozen=True)
class ScoreTotals(Result):
    """Sums over the scores of given translations.

    Attributes:
        num_sentences: Number of pairs, including those that could not be scored.
        num_skipped: Number of pairs that could not be scored.
        num_retokenized: Number of pairs whose tokens were given and differ from those of the tokenizer.
        num_tokens: Number of scored tokens, including end symbols.
        log_probability: Log-probability of all scored translations, in nats.
        sentences: The JSON form of each pair, if it is collected.
    """

    schema = "scores"
    num_sentences: int = 0
    num_skipped: int = 0
    num_retokenized: int = 0
    num_tokens: int = 0
    log_probability: float = 0.0
    sentences: tuple[Mapping[str, Any], ...] = ()

    def add(self, translation: Translation) -> "ScoreTotals":
        """Return the sums with the scores of another pair."""
        is_skipped = translation.error is not None
        log_probs = [] if is_skipped else translation.token_log_probs.tolist()
        return ScoreTotals(
            self.num_sentences + 1,
            self.num_skipped + is_skipped,
            self.num_retokenized + translation.retokenized,
            self.num_tokens + len(log_probs),
            self.log_probability + math.fsum(log_probs),
        )

    @property
    def perplexity(self) -> float:
        """Return the perplexity per token, NaN without tokens; see `regard.config.results.perplexity`."""
        return perplexity(-self.log_probability / self.num_tokens) if self.num_tokens else math.nan

    def to_data(self) -> dict[str, Any]:
        """Return the sums and the perplexity, and the fields of each pair."""
        sums = {field.name: getattr(self, field.name) for field in fields(self)}
        return json_value(sums | {"perplexity": self.perplexity})
