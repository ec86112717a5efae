"""Find the errors of each translation: dropped source words, repeated words, attention against fertility.

The errors are those that REP and DROP count (Malaviya et al. (2018), Section 5; `regard.metrics.coverage`),
so the sums over sentences yield the corpus scores. Sentences are ranked by repetitions and dropped words.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.data.links import Links, format_links
from regard.metrics.coverage import (
    count_drops,
    count_repetitions,
    dropped_words,
    immediate_repetitions,
    repeated_ngrams,
    repetition_sigma,
)

__all__ = [
    "NEGLECT_THRESHOLD",
    "ReceivedAttention",
    "SentenceErrors",
    "corpus_scores",
    "received_attention",
    "sort_by_errors",
]

NEGLECT_THRESHOLD = 0.3
"""A source word with less attention than this over the whole translation counts as neglected."""
# Without fertilities, attention above this multiple of the sentence's mean counts as excessive.
_EXCESS_FACTOR = 2.0
_ROUNDING = 0.01
_DIGITS = 6


@dataclass(frozen=True)
class ReceivedAttention:
    """The attention that the words of a source sentence received over all time steps of a translation.

    Attributes:
        attention: Attention of each word; one time step distributes a total of 1.
        sink: Attention of the sink; None for a model without a sink.
        fertility: Upper bound of the attention of each word; None for models without fertilities.
    """

    attention: tuple[float, ...]
    sink: float | None = None
    fertility: tuple[float, ...] | None = None

    @cached_property
    def neglected(self) -> frozenset[int]:
        """The words with less attention than `NEGLECT_THRESHOLD`, rounded to two decimals as displayed."""
        return frozenset(
            i for i, received in enumerate(self.attention) if round(received, 2) < NEGLECT_THRESHOLD
        )

    @cached_property
    def excessive(self) -> frozenset[int]:
        """The words with more attention than their fertility; without fertilities, than twice the mean."""
        mean = sum(self.attention) / max(len(self.attention), 1)
        shares = self.fertility or (_EXCESS_FACTOR * mean,) * len(self.attention)
        pairs = zip(self.attention, shares, strict=True)
        # The tolerance ignores rounding errors of sums that reach their bound exactly.
        return frozenset(i for i, (received, share) in enumerate(pairs) if received > share + _ROUNDING)


@dataclass(frozen=True)
class SentenceErrors:
    """A source sentence, its reference and its translation, as words.

    Attributes:
        line: Line number, counted from 1.
        source: Words of the source.
        reference: Words of the reference.
        output: Words of the translation.
        received: Attention that the source words received; None for a model without attention.
        links: Word links between source and reference, and between source and translation; None without a
            word aligner.
        lowercase: Whether to ignore case when counting repetitions.
    """

    line: int
    source: tuple[str, ...]
    reference: tuple[str, ...]
    output: tuple[str, ...]
    received: ReceivedAttention | None = None
    links: tuple[Links, Links] | None = None
    lowercase: bool = False

    @property
    def normalized_words(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words of output and reference on which repetitions are counted."""
        if not self.lowercase:
            return self.output, self.reference
        return tuple(map(str.lower, self.output)), tuple(map(str.lower, self.reference))

    @cached_property
    def dropped(self) -> tuple[int, ...]:
        """Indices of the source words that are linked to the reference but not to the output."""
        return () if self.links is None else tuple(dropped_words(*self.links))

    @cached_property
    def ngrams(self) -> dict[str, int]:
        """The repeated bigrams, with the excess of their count over the reference."""
        return {" ".join(ngram): times for ngram, times in repeated_ngrams(*self.normalized_words).items()}

    @cached_property
    def doubled_counts(self) -> dict[str, int]:
        """The immediately repeated words, with the excess of their count over the reference."""
        return dict(immediate_repetitions(*self.normalized_words))

    @cached_property
    def repetition_score(self) -> float:
        """The sentence's contribution to the numerator of REP."""
        return repetition_sigma(*self.normalized_words)

    @property
    def num_errors(self) -> float:
        """The sum of `repetition_score` and the number of dropped words."""
        return self.repetition_score + len(self.dropped)

    @cached_property
    def repeated(self) -> frozenset[int]:
        """Indices of the excess output words: the last occurrences of a repetition, never the first one."""
        output, reference = self.normalized_words
        found: set[int] = set()
        for ngram, excess in repeated_ngrams(output, reference).items():
            starts = [i for i in range(len(output)) if output[i : i + len(ngram)] == ngram]
            for start in starts[1:][-excess:]:
                found.update(range(start, start + len(ngram)))
        for word, excess in immediate_repetitions(output, reference).items():
            seconds = [i for i in range(1, len(output)) if output[i - 1] == output[i] == word]
            found.update(seconds[-excess:])
        return frozenset(found)

    def record(self) -> dict[str, Any]:
        """Return all fields for JSON; an unbounded fertility becomes null."""
        received, links = self.received, self.links
        fertility = None if received is None else received.fertility
        return {
            "line": self.line,
            "badness": self.num_errors,
            "source": list(self.source),
            "reference": list(self.reference),
            "output": list(self.output),
            "sigma": self.repetition_score,
            "repeated": sorted(self.repeated),
            "ngrams": self.ngrams,
            "doubles": self.doubled_counts,
            "dropped": None if links is None else list(self.dropped),
            "attention": None if received is None else [round(x, _DIGITS) for x in received.attention],
            "sink": None if received is None or received.sink is None else round(received.sink, _DIGITS),
            "fertility": fertility
            and [round(most, _DIGITS) if math.isfinite(most) else None for most in fertility],
            "links_reference": None if links is None else format_links(links[0]),
            "links_output": None if links is None else format_links(links[1]),
        }


def received_attention(
    weights: Float[np.ndarray, "T S"],
    source_words: Sequence[int],
    fertilities: Float[np.ndarray, "N"] | None = None,
) -> ReceivedAttention:
    """Return the attention that each source word received: the weights of its tokens, summed over time steps.

    Args:
        weights: Attention of each target token to each source token.
        source_words: Index of the word that each source token belongs to, counted from 0; -1 for the sink.
        fertilities: Fertility of each of the N source tokens without the sink; a word has their sum.
    """
    totals = weights.sum(axis=0, dtype=np.float64)  # (S,)
    own = np.asarray(source_words, dtype=np.int64)
    words = own[own >= 0]
    attention = np.bincount(words, totals[own >= 0])
    fertility = None if fertilities is None else np.bincount(words, fertilities.astype(np.float64))
    return ReceivedAttention(
        attention=tuple(attention.tolist()),
        sink=float(totals[own < 0].sum()) if (own < 0).any() else None,
        fertility=None if fertility is None else tuple(fertility.tolist()),
    )


def sort_by_errors(sentences: Sequence[SentenceErrors]) -> list[SentenceErrors]:
    """Return the sentences sorted by decreasing number of errors; ties keep the order of the lines."""
    return sorted(sentences, key=lambda sentence: (-sentence.num_errors, sentence.line))


def corpus_scores(sentences: Sequence[SentenceErrors]) -> dict[str, float]:
    """Return `rep` of a corpus, and `drop` if all sentences have links.

    Args:
        sentences: The sentences of the corpus.

    Raises:
        DataError: if there are no sentences.
    """
    outputs, references = ([sentence.normalized_words[side] for sentence in sentences] for side in (0, 1))
    scores = {"rep": count_repetitions(outputs, references).corpus_score().score}
    links = [sentence.links for sentence in sentences if sentence.links is not None]
    if len(links) == len(sentences):
        scores["drop"] = (
            count_drops(*([pair[side] for pair in links] for side in (0, 1))).corpus_score().score
        )
    return scores
