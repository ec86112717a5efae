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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from regard.errors import UsageError
from regard.metrics.base import MetricInput, SentenceCounts, check_references, register_metric
from regard.metrics.translation import split_words
from regard.text.links import Links

# The parameters of REP, as in the paper.
_N, _LAMBDA1, _LAMBDA2 = 2, 1.0, 2.0
# Without fertilities, attention above this multiple of the sentence's mean counts as excessive.
_EXCESS_FACTOR = 2.0
_ROUNDING = 0.01


def repetition_sigma(output: Sequence[str], reference: Sequence[str]) -> float:
    """Return sigma of one sentence, without normalization."""
    ngrams = sum(repeated_ngrams(output, reference).values())
    doubles = sum(immediate_repetitions(output, reference).values())
    return _LAMBDA1 * ngrams + _LAMBDA2 * doubles


def repeated_ngrams(output: Sequence[str], reference: Sequence[str]) -> Counter[tuple[str, ...]]:
    """Return n-grams that occur at least twice in an output and more often than in the reference.

    The values are the differences of the counts.
    """
    generated = Counter(zip(*(output[start:] for start in range(_N)), strict=False))
    expected = Counter(zip(*(reference[start:] for start in range(_N)), strict=False))
    # The difference of two Counters keeps only positive counts.
    return Counter({ngram: times for ngram, times in generated.items() if times >= 2}) - expected


def immediate_repetitions(output: Sequence[str], reference: Sequence[str]) -> Counter[str]:
    """Return words that are immediately repeated more often in the output than in the reference.

    The values are the differences of the counts.
    """
    doubles = (
        Counter(first for first, second in pairwise(words) if first == second)
        for words in (output, reference)
    )
    return next(doubles) - next(doubles)


def count_repetitions(
    outputs: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> SentenceCounts:
    """Return sigma and the number of reference words of each sentence, the counts of REP.

    REP is the number of repetitions that are not in the references, per 100 reference words; lower is better.

    Raises:
        DataError: if the lengths differ or there is no sentence.
    """
    check_references(outputs, [references])
    rows = [
        (repetition_sigma(output, reference), len(reference))
        for output, reference in zip(outputs, references, strict=True)
    ]
    signature = f"n:{_N}|lambda1:{_LAMBDA1:g}|lambda2:{_LAMBDA2:g}"
    return SentenceCounts.ratio("REP", rows, 100.0, signature)


def dropped_words(reference_links: Links, output_links: Links) -> list[int]:
    """Return the source words (from 0) that are linked to the reference but not to the output."""
    linked = {source for source, _ in output_links}
    return sorted({source for source, _ in reference_links} - linked)


def count_drops(reference_links: Sequence[Links], output_links: Sequence[Links]) -> SentenceCounts:
    """Return |R - M| and |R| of each sentence, the counts of DROP.

    DROP is the percentage of the source words linked to the references that the outputs drop.

    Raises:
        DataError: if the lengths differ or there is no sentence.
    """
    check_references(output_links, [reference_links])
    rows = [
        (len(dropped_words(expected, generated)), len({source for source, _ in expected}))
        for expected, generated in zip(reference_links, output_links, strict=True)
    ]
    return SentenceCounts.ratio("DROP", rows, 100.0)


@register_metric("rep", label="REP", higher_is_better=False)
def _rep(data: MetricInput) -> SentenceCounts:
    _check_single_reference(data)
    lines = data.outputs, data.references[0]
    counts = count_repetitions(*(split_words(side, data.tokenize, data.lowercase) for side in lines))
    case = "lc" if data.lowercase else "mixed"
    return replace(counts, signature=f"{counts.signature}|case:{case}|tok:{data.tokenize}")


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

    `source_words` has the index of the word of each source token, counted from 0; -1 for the sink. A word has
    the sum of the fertilities of its tokens, which `fertilities` has without the sink.
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
