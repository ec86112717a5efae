"""REP and DROP: repeated and dropped words of a translation, and the attention that source words received.

REP and DROP are those of Malaviya et al. (2018), Section 5.

Both are computed on words, after subword tokens are joined. With t(s) and r(s) the number of occurrences of
the n-gram s in the output and in the reference, and ww the immediate repetition of the word w:

    sigma(t, r) = lambda1 * sum over n-grams s with t(s) >= 2 of max(0, t(s) - r(s))
                + lambda2 * sum over words w of max(0, t(ww) - r(ww))
    REP  = 100 * sum of sigma / sum of the reference's words
    DROP = 100 * sum of |R - M| / sum of |R|

R are the source words linked to the reference and M those linked to the output, by the same aligner.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from regard.errors import DataError, UsageError
from regard.metrics.base import (
    DEFAULT_REPETITION,
    CorpusScore,
    MetricInput,
    SentenceCounts,
    check_references,
    percentage,
    register_metric,
)
from regard.metrics.translation import split_words
from regard.text.links import Links

__all__ = [
    "DEFAULT_REPETITION",
    "ReceivedAttention",
    "count_drops",
    "count_repetitions",
    "count_text_repetitions",
    "drop",
    "dropped_words",
    "immediate_repetitions",
    "received_attention",
    "rep",
    "repeated_ngrams",
    "repetition_sigma",
]

# Without fertilities, attention above this multiple of the sentence's mean counts as excessive.
_EXCESS_FACTOR = 2.0
_ROUNDING = 0.01


def rep(
    outputs: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    n: int = 2,
    lambda1: float = 1.0,
    lambda2: float = 2.0,
) -> CorpusScore:
    """Compute REP of a corpus: repetitions that are not in the references, per 100 reference words.

    Lower is better.

    Args:
        outputs: Words of each output.
        references: Words of the reference of each output.
        n: Size of the n-grams.
        lambda1: Weight of an excess n-gram.
        lambda2: Weight of an immediately repeated word.

    Raises:
        DataError: if the lengths differ or there is no sentence.
        UsageError: if n is below 1 or a weight below 0.
    """
    return count_repetitions(outputs, references, n, lambda1, lambda2).corpus_score()


def repetition_sigma(
    output: Sequence[str], reference: Sequence[str], n: int = 2, lambda1: float = 1.0, lambda2: float = 2.0
) -> float:
    """Return sigma of one sentence, without normalization. The arguments are those of `rep`."""
    ngrams = sum(repeated_ngrams(output, reference, n).values())
    doubles = sum(immediate_repetitions(output, reference).values())
    return lambda1 * ngrams + lambda2 * doubles


def repeated_ngrams(output: Sequence[str], reference: Sequence[str], n: int = 2) -> Counter[tuple[str, ...]]:
    """Return n-grams that occur at least twice in an output and more often than in the reference.

    The values are the differences of the counts.
    """
    generated = Counter(zip(*(output[start:] for start in range(n)), strict=False))
    expected = Counter(zip(*(reference[start:] for start in range(n)), strict=False))
    # The difference of two Counters keeps only positive counts.
    return Counter({ngram: times for ngram, times in generated.items() if times >= 2}) - expected


def immediate_repetitions(output: Sequence[str], reference: Sequence[str]) -> Counter[str]:
    """Return words that are immediately repeated more often in the output than in the reference.

    The values are the differences of the counts.
    """
    return _doubles(output) - _doubles(reference)


def count_repetitions(
    outputs: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    n: int = 2,
    lambda1: float = 1.0,
    lambda2: float = 2.0,
) -> SentenceCounts:
    """Return sigma and the number of reference words per sentence; see `rep` for arguments and errors."""
    if n < 1:
        raise UsageError(f"n is {n}, but must be at least 1")
    for name, weight in (("lambda1", lambda1), ("lambda2", lambda2)):
        # The negated comparison also rejects NaN.
        if not weight >= 0:
            raise UsageError(f"{name} is {weight}, but must be at least 0")
    check_references(outputs, [references])
    rows = [
        (repetition_sigma(output, reference, n, lambda1, lambda2), len(reference))
        for output, reference in zip(outputs, references, strict=True)
    ]
    signature = f"n:{n}|lambda1:{lambda1:g}|lambda2:{lambda2:g}"
    return SentenceCounts("REP", signature, np.array(rows, dtype=np.float64), percentage)


def count_text_repetitions(
    outputs: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
    repetition: tuple[int, float, float] = DEFAULT_REPETITION,
) -> SentenceCounts:
    """Return the counts of `count_repetitions` for text that is split into words as BLEU does.

    Args:
        outputs: One output per sentence.
        references: One reference per output.
        tokenize: A `regard.metrics.translation.BleuTokenizer`.
        lowercase: Whether to ignore case.
        repetition: n, lambda1 and lambda2.

    Raises:
        DataError: if the lengths differ or there is no sentence.
        UsageError: if the tokenizer is unknown or needs a package that is not installed, n is below 1 or a
            weight below 0.
    """
    generated, expected = (split_words(lines, tokenize, lowercase) for lines in (outputs, references))
    counts = count_repetitions(generated, expected, *repetition)
    case = "lc" if lowercase else "mixed"
    return replace(counts, signature=f"{counts.signature}|case:{case}|tok:{tokenize}")


def drop(reference_links: Sequence[Links], output_links: Sequence[Links]) -> CorpusScore:
    """Compute DROP of a corpus: the percentage of reference-linked source words that the outputs drop.

    Args:
        reference_links: Links of each source sentence with its reference.
        output_links: Links of each source sentence with its output.

    Raises:
        DataError: if the lengths differ or there is no sentence.
    """
    return count_drops(reference_links, output_links).corpus_score()


def dropped_words(reference_links: Links, output_links: Links) -> list[int]:
    """Return the source words (from 0) that are linked to the reference but not to the output."""
    return sorted(_sources(reference_links) - _sources(output_links))


def count_drops(reference_links: Sequence[Links], output_links: Sequence[Links]) -> SentenceCounts:
    """Return |R - M| and |R| of each sentence. The arguments and errors are those of `drop`."""
    if len(reference_links) != len(output_links):
        raise DataError(
            f"links of {len(reference_links)} references and of {len(output_links)} outputs; "
            "expected the same number"
        )
    if not reference_links:
        raise DataError("links: expected at least one sentence")
    rows = [
        (len(dropped_words(expected, generated)), len(_sources(expected)))
        for expected, generated in zip(reference_links, output_links, strict=True)
    ]
    return SentenceCounts("DROP", "", np.array(rows, dtype=np.float64), percentage)


@register_metric("rep", label="REP", higher_is_better=False)
def _rep(data: MetricInput) -> SentenceCounts:
    _check_single_reference(data)
    return count_text_repetitions(
        data.outputs, data.references[0], data.tokenize, data.lowercase, data.repetition
    )


@register_metric("drop", label="DROP", higher_is_better=False, needs_links=True)
def _drop(data: MetricInput) -> SentenceCounts:
    if data.links is None:
        raise UsageError("the metric drop needs word links of the source with each reference and output")
    _check_single_reference(data)
    return count_drops(*data.links)


def _check_single_reference(data: MetricInput) -> None:
    if len(data.references) > 1:
        raise UsageError(
            f"REP and DROP support only one set of references, {len(data.references)} were given"
        )


def _doubles(words: Sequence[str]) -> Counter[str]:
    return Counter(first for first, second in pairwise(words) if first == second)


def _sources(links: Iterable[tuple[int, int]]) -> frozenset[int]:
    return frozenset(source for source, _ in links)


# Attention that source words received


@dataclass(frozen=True)
class ReceivedAttention:
    """The attention that the words of a source sentence received over all time steps of a translation.

    Little attention is no reliable sign of an omission: the target words that follow an omitted word may
    attend to it. `regard.extensions.check` finds omissions.

    Attributes:
        attention: Attention of each word; one time step distributes a total of 1.
        sink: Attention of the sink; None for a model without a sink.
        fertility: Upper bound of the attention of each word; None for models without fertilities.
    """

    attention: tuple[float, ...]
    sink: float | None = None
    fertility: tuple[float, ...] | None = None

    @cached_property
    def excessive(self) -> frozenset[int]:
        """The words with more attention than their fertility; without fertilities, than twice the mean."""
        mean = sum(self.attention) / max(len(self.attention), 1)
        shares = self.fertility or (_EXCESS_FACTOR * mean,) * len(self.attention)
        pairs = zip(self.attention, shares, strict=True)
        # The tolerance ignores rounding errors of sums that reach their bound exactly.
        return frozenset(i for i, (received, share) in enumerate(pairs) if received > share + _ROUNDING)


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
    word_ids = np.asarray(source_words, dtype=np.int64)
    # The sink is no word, and `bincount` refuses negative indices.
    words = word_ids[word_ids >= 0]
    attention = np.bincount(words, totals[word_ids >= 0])
    fertility = None if fertilities is None else np.bincount(words, fertilities.astype(np.float64))
    return ReceivedAttention(
        attention=tuple(attention.tolist()),
        sink=float(totals[word_ids < 0].sum()) if (word_ids < 0).any() else None,
        fertility=None if fertility is None else tuple(fertility.tolist()),
    )
