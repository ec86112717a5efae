"""REP and DROP: what a translation says twice and what it leaves out, Malaviya et al. (2018), Section 5.

Both look at words, so subwords are joined before. With t(s) and r(s) the occurrences of the n-gram s in the
output and in the reference, and ww the immediate repetition of the word w:

    sigma(t, r) = lambda1 * sum over n-grams s with t(s) >= 2 of max(0, t(s) - r(s))
                + lambda2 * sum over words w of max(0, t(ww) - r(ww))
    REP  = 100 * sum of sigma / sum of the reference's words
    DROP = 100 * sum of |R - M| / sum of |R|

R are the source words linked to the reference and M those linked to the output, by the same aligner.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from regard.data.links import Links
from regard.errors import DataError, UsageError
from regard.metrics.counts import Score, SentenceCounts, check_lengths
from regard.metrics.translation import split_words

__all__ = [
    "REPETITION",
    "count_drops",
    "count_repetitions",
    "count_text_repetitions",
    "doubled_words",
    "drop",
    "dropped_words",
    "percentage",
    "rep",
    "repeated_ngrams",
    "repetition",
]

REPETITION = (2, 1.0, 2.0)
"""n, lambda1 and lambda2 of Malaviya et al. (2018)."""


def rep(
    outputs: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    n: int = 2,
    lambda1: float = 1.0,
    lambda2: float = 2.0,
) -> Score:
    """REP of a corpus: repetitions that the references do not have, per 100 of their words; lower is better.

    Args:
        outputs: The words of each output.
        references: The words of the reference of each.
        n: Words in an n-gram.
        lambda1: Weight of an n-gram said too often.
        lambda2: Weight of a word doubled on the spot.

    Raises:
        DataError: if the lengths differ or there is no sentence.
        UsageError: if n is below 1 or a weight below 0.
    """
    return count_repetitions(outputs, references, n, lambda1, lambda2).total()


def repetition(
    output: Sequence[str], reference: Sequence[str], n: int = 2, lambda1: float = 1.0, lambda2: float = 2.0
) -> float:
    """Sigma of one sentence, not divided by anything; arguments as those of `rep`."""
    ngrams = sum(repeated_ngrams(output, reference, n).values())
    doubles = sum(doubled_words(output, reference).values())
    return lambda1 * ngrams + lambda2 * doubles


def repeated_ngrams(output: Sequence[str], reference: Sequence[str], n: int = 2) -> Counter[tuple[str, ...]]:
    """The n-grams an output says at least twice and more often than the reference, with the excess."""
    said = Counter(zip(*(output[start:] for start in range(n)), strict=False))
    wanted = Counter(zip(*(reference[start:] for start in range(n)), strict=False))
    # Of two Counters the difference keeps what is positive.
    return Counter({ngram: times for ngram, times in said.items() if times >= 2}) - wanted


def doubled_words(output: Sequence[str], reference: Sequence[str]) -> Counter[str]:
    """The words that follow themselves more often in the output than in the reference, with the excess."""
    return _doubles(output) - _doubles(reference)


def count_repetitions(
    outputs: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    n: int = 2,
    lambda1: float = 1.0,
    lambda2: float = 2.0,
) -> SentenceCounts:
    """Sigma and the reference's words, sentence by sentence; arguments and errors as those of `rep`."""
    if n < 1:
        raise UsageError(f"n is {n}; expected at least 1")
    for name, weight in (("lambda1", lambda1), ("lambda2", lambda2)):
        if not weight >= 0:
            raise UsageError(f"{name} is {weight}; expected at least 0")
    check_lengths(outputs, [references])
    rows = [
        (repetition(output, reference, n, lambda1, lambda2), len(reference))
        for output, reference in zip(outputs, references, strict=True)
    ]
    signature = f"n:{n}|lambda1:{lambda1:g}|lambda2:{lambda2:g}"
    return SentenceCounts("REP", signature, np.array(rows, dtype=np.float64), percentage)


def count_text_repetitions(
    outputs: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
    repetition: tuple[int, float, float] = REPETITION,
) -> SentenceCounts:
    """As `count_repetitions`, of text whose words are those of BLEU.

    Args:
        outputs: One output a sentence.
        references: The reference of each.
        tokenize: A `regard.metrics.translation.Tokenizer`.
        lowercase: Ignore case.
        repetition: n, lambda1 and lambda2.

    Raises:
        DataError: if the lengths differ or there is no sentence.
        UsageError: if the tokenizer is unknown or needs a package that is not installed, n is below 1 or a
            weight below 0.
    """
    said, wanted = (split_words(lines, tokenize, lowercase) for lines in (outputs, references))
    counts = count_repetitions(said, wanted, *repetition)
    case = "lc" if lowercase else "mixed"
    return replace(counts, signature=f"{counts.signature}|case:{case}|tok:{tokenize}")


def drop(reference_links: Sequence[Links], output_links: Sequence[Links]) -> Score:
    """DROP of a corpus: the share in % of the source words linked to the references that no output covers.

    Args:
        reference_links: The links of each source sentence with its reference.
        output_links: The links of each source sentence with its output.

    Raises:
        DataError: if the lengths differ or there is no sentence.
    """
    return count_drops(reference_links, output_links).total()


def dropped_words(reference_links: Links, output_links: Links) -> list[int]:
    """The source words of one sentence, from 0, that are linked to the reference and not to the output."""
    return sorted(_sources(reference_links) - _sources(output_links))


def count_drops(reference_links: Sequence[Links], output_links: Sequence[Links]) -> SentenceCounts:
    """|R - M| and |R|, sentence by sentence; arguments and errors as those of `drop`."""
    if len(reference_links) != len(output_links):
        raise DataError(
            f"links of {len(reference_links)} references and of {len(output_links)} outputs; "
            "expected the same number"
        )
    if not reference_links:
        raise DataError("links: no sentence to score")
    rows = [
        (len(dropped_words(wanted, said)), len(_sources(wanted)))
        for wanted, said in zip(reference_links, output_links, strict=True)
    ]
    return SentenceCounts("DROP", "", np.array(rows, dtype=np.float64), percentage)


def _doubles(words: Sequence[str]) -> Counter[str]:
    return Counter(first for first, second in pairwise(words) if first == second)


def _sources(links: Iterable[tuple[int, int]]) -> frozenset[int]:
    return frozenset(source for source, _ in links)


def percentage(summed: Float[np.ndarray, "r 2"]) -> Float[np.ndarray, "r"]:
    """REP or DROP of rows of summed counts: 100 times the first by the second."""
    part, whole = summed.T
    # No word in any reference, or none linked: every repetition counts in full, and nothing is dropped.
    return 100 * part / np.maximum(whole, 1)
