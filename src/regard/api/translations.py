"""Translations and scores of several texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, overload

from regard.api.evaluation_result import ScoreTotals
from regard.config.results import Result
from regard.generation.translation import Translation

__all__ = ["ScoredText", "Scores", "Translations"]


@dataclass(frozen=True, repr=False)
class ScoredText(Result):
    """The scores of a text by `regard score`.

    Attributes:
        totals: The sums over all pairs.
        sentences: The JSON form of each pair.
    """

    schema = "scores"
    totals: ScoreTotals
    sentences: Sequence[Mapping[str, Any]]

    def to_data(self) -> dict[str, Any]:
        """Return the sums, and the fields of each pair."""
        return self.totals.to_data() | {"sentences": list(self.sentences)}


@dataclass(frozen=True, repr=False)
class Translations(Result, Sequence[Translation]):
    """The translations of several texts, in their order.

    Attributes:
        sentences: The translation of each text.
    """

    schema = "translations"
    sentences: tuple[Translation, ...]

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.sentences)

    @overload
    def __getitem__(self, index: int) -> Translation: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> Translation | Self:
        """Return the translation of a text, or those of several texts."""
        if isinstance(index, slice):
            return type(self)(self.sentences[index])
        return self.sentences[index]

    def __iter__(self) -> Iterator[Translation]:
        """Iterate over the translations."""
        return iter(self.sentences)

    def to_data(self) -> dict[str, Any]:
        """Return the fields of each translation; see `Translation.to_data`."""
        return {"sentences": [translation.to_data() for translation in self.sentences]}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per text: source, translation, score, log-probability and error."""
        return [translation.row() for translation in self.sentences]

    def __repr__(self) -> str:
        """Return the number of texts and the first translation."""
        first = f", first {self.sentences[0].text!r}" if self.sentences else ""
        return f"{type(self).__name__}({len(self)} sentences{first})"


@dataclass(frozen=True, repr=False)
class Scores(Translations):
    """The scores of given translations, in their order. A pair that cannot be scored has an `error`.

    Attributes:
        sentences: The given translations with their scores.
    """

    schema = "scores"

    @cached_property
    def totals(self) -> ScoreTotals:
        """Return the sums over all pairs."""
        sums = ScoreTotals()
        for translation in self.sentences:
            # None marks a pair that was skipped, as an array without tokens could not.
            logs = None if translation.error is not None else translation.token_log_probs.tolist()
            sums = sums.add(logs, translation.retokenized)
        return sums

    @property
    def perplexity(self) -> float:
        """Return the perplexity per token; see `ScoreTotals.perplexity`."""
        return self.totals.perplexity

    def to_data(self) -> dict[str, Any]:
        """Return the totals, and the fields of each translation."""
        return self.totals.to_data() | super().to_data()
