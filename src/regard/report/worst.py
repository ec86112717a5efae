"""What went wrong in each translation: source words dropped, words said again, attention against fertility.

The faults are those that REP and DROP count (Malaviya et al. 2018, Section 5; `regard.metrics.coverage`), so
that the sentences add up to the corpus' scores. A sentence is as bad as its repetitions and dropped words.
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
    doubled_words,
    dropped_words,
    repeated_ngrams,
    repetition,
)

__all__ = ["NEGLECTED", "Received", "Sentence", "corpus_scores", "received_attention", "worst_first"]

NEGLECTED = 0.3
"""A source word that received less attention than this, over the whole translation, was hardly looked at."""
_SHARE = 2.0  # times the mean attention of a sentence's words, where there are no fertilities
_ROUNDING = 0.01
_DIGITS = 6


@dataclass(frozen=True)
class Received:
    """What the words of a source sentence received over the steps of a translation.

    Attributes:
        attention: Of each word, in units of one step.
        sink: What the sink received; none where the model reads none.
        fertility: The most that each word may receive; none for models without a budget.
    """

    attention: tuple[float, ...]
    sink: float | None = None
    fertility: tuple[float, ...] | None = None

    @cached_property
    def neglected(self) -> frozenset[int]:
        """The words that received hardly any attention, to two decimals as it is shown."""
        return frozenset(i for i, received in enumerate(self.attention) if round(received, 2) < NEGLECTED)

    @cached_property
    def excessive(self) -> frozenset[int]:
        """The words that received more than their fertility; without fertilities, than twice the mean."""
        mean = sum(self.attention) / max(len(self.attention), 1)
        shares = self.fertility or (_SHARE * mean,) * len(self.attention)
        pairs = zip(self.attention, shares, strict=True)
        return frozenset(i for i, (received, share) in enumerate(pairs) if received > share + _ROUNDING)


@dataclass(frozen=True)
class Sentence:
    """A source sentence, its reference and its translation, in words.

    Attributes:
        line: Its number, from 1.
        source: Its words.
        reference: The reference's.
        output: The translation's.
        received: The attention its words got; none where nothing attends.
        links: Word links of the source with the reference, and with the translation; none without an aligner.
        lowercase: Whether repetitions are counted ignoring case.
    """

    line: int
    source: tuple[str, ...]
    reference: tuple[str, ...]
    output: tuple[str, ...]
    received: Received | None = None
    links: tuple[Links, Links] | None = None
    lowercase: bool = False

    @property
    def counted(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words of output and reference as repetitions are counted on."""
        if not self.lowercase:
            return self.output, self.reference
        return tuple(map(str.lower, self.output)), tuple(map(str.lower, self.reference))

    @cached_property
    def dropped(self) -> tuple[int, ...]:
        """The source words that are linked to the reference and not to the output."""
        return () if self.links is None else tuple(dropped_words(*self.links))

    @cached_property
    def ngrams(self) -> dict[str, int]:
        """The pairs of words said again, and how much more often than in the reference."""
        return {" ".join(ngram): times for ngram, times in repeated_ngrams(*self.counted).items()}

    @cached_property
    def doubles(self) -> dict[str, int]:
        """The words doubled on the spot, and how much more often than in the reference."""
        return dict(doubled_words(*self.counted))

    @cached_property
    def sigma(self) -> float:
        """What the repetitions count in REP."""
        return repetition(*self.counted)

    @property
    def badness(self) -> float:
        """Repetitions and dropped words together."""
        return self.sigma + len(self.dropped)

    @cached_property
    def repeated(self) -> frozenset[int]:
        """The output words that are in excess: of what is said too often the last times, never the first."""
        output, reference = self.counted
        found: set[int] = set()
        for ngram, excess in repeated_ngrams(output, reference).items():
            starts = [i for i in range(len(output)) if output[i : i + len(ngram)] == ngram]
            for start in starts[1:][-excess:]:
                found.update(range(start, start + len(ngram)))
        for word, excess in doubled_words(output, reference).items():
            seconds = [i for i in range(1, len(output)) if output[i - 1] == output[i] == word]
            found.update(seconds[-excess:])
        return frozenset(found)

    def record(self) -> dict[str, Any]:
        """Everything, as JSON can hold it; a fertility without limit is null."""
        received, links = self.received, self.links
        fertility = None if received is None else received.fertility
        return {
            "line": self.line,
            "badness": self.badness,
            "source": list(self.source),
            "reference": list(self.reference),
            "output": list(self.output),
            "sigma": self.sigma,
            "repeated": sorted(self.repeated),
            "ngrams": self.ngrams,
            "doubles": self.doubles,
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
) -> Received:
    """What each source word received: the weights of its tokens, summed over the steps.

    Args:
        weights: Attention of each target token to each source token.
        source_words: The word that each source token is part of, counted from 0; -1 for the sink.
        fertilities: The most that each of the N tokens of words may receive; a word's is the sum.
    """
    totals = weights.sum(axis=0, dtype=np.float64)  # (S,)
    own = np.asarray(source_words, dtype=np.int64)
    words = own[own >= 0]
    attention = np.bincount(words, totals[own >= 0])
    fertility = None if fertilities is None else np.bincount(words, fertilities.astype(np.float64))
    return Received(
        attention=tuple(attention.tolist()),
        sink=float(totals[own < 0].sum()) if (own < 0).any() else None,
        fertility=None if fertility is None else tuple(fertility.tolist()),
    )


def worst_first(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences, the worst first; of equally bad ones the one that comes first."""
    return sorted(sentences, key=lambda sentence: (-sentence.badness, sentence.line))


def corpus_scores(sentences: Sequence[Sentence]) -> dict[str, float]:
    """`rep` of a corpus, and `drop` where there are links.

    Raises:
        DataError: if there is no sentence.
    """
    outputs, references = ([sentence.counted[side] for sentence in sentences] for side in (0, 1))
    scores = {"rep": count_repetitions(outputs, references).total().score}
    links = [sentence.links for sentence in sentences if sentence.links is not None]
    if len(links) == len(sentences):
        scores["drop"] = count_drops(*([pair[side] for pair in links] for side in (0, 1))).total().score
    return scores
