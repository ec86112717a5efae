"""Translations and scores of several texts, and their conversion from the results of search and scoring."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, overload

import numpy as np

from regard.api.score_totals import ScoreTotals
from regard.api.translation import Translation
from regard.config.results import Result
from regard.data.fertility import Fertilities
from regard.data.text import TextProcessor
from regard.generation.analysis import tokens_to_words
from regard.generation.blocks import PretokenizedPair
from regard.generation.config import AlignmentConfig
from regard.generation.forced import LineScore
from regard.generation.hypothesis import Hypothesis
from regard.generation.lines import LineResult, TextHypothesis
from regard.text.vocabulary import UNK

__all__ = [
    "Scores",
    "Translation",
    "Translations",
    "scored_translation",
    "searched_translation",
]

_SelfAttention = Callable[[LineResult, TextHypothesis], tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]]
"""Function from a line and its translation to the self-attention of each encoder and each decoder layer."""


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


def searched_translation(
    text: TextProcessor, found: LineResult, self_attention: _SelfAttention | None = None
) -> Translation:
    """Return the best translation of a line, with the others of its n-best list as alternatives.

    Args:
        text: Text processing of both sides.
        found: Result of search. A line that is empty or rejected gets an empty translation.
        self_attention: Returns the self-attention of a hypothesis. Default: it is left out.
    """
    # A line without translations has no sink.
    num_sinks = len(text.sink_tokens) if found.translations else 0
    tokens = found.source_tokens[: len(found.source_tokens) - num_sinks]
    facts = _source_facts(text, found.line.text, tokens, found.fertilities)
    facts |= {"missing_terms": found.missing_terms, "error": found.error, "repair": found.repair}
    if not found.translations:
        return Translation(**facts)
    # From here on the source includes the sink, which has a column in the attention of each hypothesis.
    facts["source_tokens"] = found.source_tokens
    facts["source_word_ids"] = found.translations[0].source_words
    translations: list[Translation] = []
    for candidate in found.translations:
        encoder, decoder = ((), ()) if self_attention is None else self_attention(found, candidate)
        translations.append(
            Translation(
                **facts,
                **_target_facts(text, candidate.text, candidate.tokens, candidate.hypothesis),
                alignment_config=candidate.alignment,
                encoder_attention=encoder,
                decoder_attention=decoder,
            )
        )
    return replace(translations[0], alternatives=tuple(translations[1:]))


def scored_translation(
    text: TextProcessor,
    pair: tuple[str, str] | PretokenizedPair,
    found: LineScore,
    alignment: AlignmentConfig,
) -> Translation:
    """Return a given translation with its scores.

    Args:
        text: Text processing of both sides.
        pair: The sentence and its translation, possibly with their tokens.
        found: Result of forced decoding.
        alignment: The attention for links.
    """
    source, target = (pair.text, pair.translation) if isinstance(pair, PretokenizedPair) else pair
    if found.hypothesis is None:
        return Translation(**_source_facts(text, source, ()), error=found.error)
    facts = _source_facts(text, source, found.source_tokens)
    # The attention has a column for the sink, which the tokens of the pair do not include.
    facts["source_tokens"] = (*found.source_tokens, *text.sink_tokens)
    facts["source_word_ids"] = (*facts["source_word_ids"], *text.sink_word_ids)
    return Translation(
        **facts,
        **_target_facts(text, target, found.tokens, found.hypothesis),
        alignment_config=alignment,
        retokenized=found.retokenized,
    )


def _source_facts(
    text: TextProcessor, source: str, tokens: tuple[str, ...], fertilities: Fertilities | None = None
) -> dict[str, Any]:
    """Return the fields of a source text. Its tokens have no sink."""
    words = text.source.word_ids(tokens)
    numbers = text.source.vocabulary.to_ids(tokens)
    return {
        "fertility_bounds": _fertility_bounds(text, numbers, words, fertilities),
        "source": source,
        "source_tokens": tokens,
        "source_words": tokens_to_words(text.source, tokens),
        "text_checksum": text.checksum,
        "source_word_ids": tuple(words),
        "unknown_words": tuple(sorted({words[i] for i, number in enumerate(numbers) if number == UNK})),
    }


def _fertility_bounds(
    text: TextProcessor, ids: Sequence[int], words: Sequence[int], fertilities: Fertilities | None
) -> tuple[tuple[float, float], ...] | None:
    """Return the bounds of each source word; None for a model without fertilities."""
    if text.budget is None or not ids:
        return None if text.budget is None else ()
    # The sink is not a word of the text, so it has no bounds here.
    upper, lower = text.budget.bounds([ids], [fertilities], num_sinks=0)
    sums = (_sum_by_word(bounds, words) for bounds in (lower[0] if lower else np.zeros(len(ids)), upper[0]))
    return tuple(zip(*sums, strict=True))


def _target_facts(
    text: TextProcessor, translation: str, tokens: tuple[str, ...], hypothesis: Hypothesis
) -> dict[str, Any]:
    """Return the fields of a translation."""
    return {
        "text": translation,
        "tokens": tokens,
        "target_words": tokens_to_words(text.target, tokens),
        "target_word_ids": tuple(text.target.word_ids(tokens)),
        "score": hypothesis.score,
        "log_probability": hypothesis.log_probability,
        "token_log_probs": np.array(hypothesis.token_log_probs),
        "attention": hypothesis.attention,
        "posteriors": hypothesis.posteriors,
    }


def _sum_by_word(values: np.ndarray, words: Sequence[int]) -> list[float]:
    """Return the sums over the subword tokens of each word."""
    return np.bincount(np.asarray(words, dtype=np.int64), values.astype(np.float64)).tolist()
