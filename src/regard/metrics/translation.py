"""Scores of translations: BLEU, chrF and TER with sacreBLEU (Post, 2018), accuracy and edits.

`count_statistics` returns n-gram matches, lengths and edits per sentence, for resampling
(`regard.metrics.base`).

Outputs that are evaluated as a whole, such as inflected forms, have two metrics of their own:

    accuracy = 100 * the share of outputs that equal the reference
    edits    = the mean number of characters to insert, delete or replace (Levenshtein, 1966)

White space is normalized to single spaces. Of several references, the closest one counts.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float
from rapidfuzz.distance import Levenshtein
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.errors import UsageError
from regard.metrics.base import (
    Aggregate,
    MetricFunction,
    MetricInput,
    SentenceCounts,
    check_references,
    register_metric,
)
from regard.text.words import normalize_whitespace

__all__ = [
    "TRANSDUCTION_METRICS",
    "BleuTokenizer",
    "MetricName",
    "check_tokenizer",
    "count_statistics",
    "count_transduction",
    "looks_tokenized",
    "make_aggregate",
    "split_words",
]

MetricName = Literal["bleu", "chrf", "ter"]

# Tokenizers of sacreBLEU that do not need a download.
BleuTokenizer = Literal["13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab"]
_ASIAN = ("zh", "ja-mecab", "ko-mecab")


def check_tokenizer(name: str) -> BleuTokenizer:
    """Return the name as a `BleuTokenizer`.

    Raises:
        UsageError: if there is no such tokenizer.
    """
    for known in get_args(BleuTokenizer):
        if name == known:
            return known
    raise UsageError(f"--tokenize {name!r}: expected one of {', '.join(get_args(BleuTokenizer))}")


# The threshold of sacreBLEU's warning that the text was not detokenized.
_TOKENIZED_LINES = 100


def count_statistics(
    metric: str,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: str = "13a",
    lowercase: bool = False,
) -> SentenceCounts:
    """Return the counts of a metric for each sentence.

    `bleu` is corpus BLEU (Papineni et al., 2002) with sacreBLEU's default smoothing. `chrf` is chrF2
    (Popović, 2015), the F-score of character n-grams up to 6 with beta = 2. `ter` is the translation edit
    rate (Snover et al., 2006); lower is better.

    Args:
        metric: A `MetricName`.
        hypotheses: One output per sentence.
        references: One or more sets of references, each as long as `hypotheses`.
        tokenize: A `BleuTokenizer`: `13a` for detokenized text; `none` for text that is already tokenized, as
            for the "tokenized BLEU" of many papers. Words of TER end at white space with `13a`, `none` and
            `intl`. With `zh`, `ja-mecab` and `ko-mecab`, sacreBLEU separates punctuation, and each Chinese
            character is a word (`normalized` and `asian_support`). chrF has no words.
        lowercase: Whether BLEU and chrF ignore case. TER always does.

    Raises:
        DataError: if the lengths differ or there is no sentence.
        UsageError: if the metric or the tokenizer is unknown or needs a package that is not installed, or TER
            has the tokenizer `char`.
    """
    check_references(hypotheses, references)
    scorer = _scorer(metric, tokenize, lowercase)
    # sacreBLEU has no public API for the counts of a sentence. All of its metrics define these two methods.
    counts = scorer._extract_corpus_statistics(hypotheses, references)
    rows = np.array(counts, dtype=np.float64)  # (n, k)
    name = scorer._compute_score_from_stats(rows.sum(axis=0).tolist()).name
    return SentenceCounts(
        name, str(scorer.get_signature()), rows, make_aggregate(metric, tokenize, lowercase)
    )


def _scorer(metric: str, tokenize: str, lowercase: bool) -> Any:
    """Return the sacreBLEU object of a metric, and convert its errors."""
    if metric == "chrf":
        return CHRF(lowercase=lowercase)
    if metric not in get_args(MetricName):
        raise UsageError(f"unknown metric {metric!r}; expected one of {', '.join(get_args(MetricName))}")
    name = check_tokenizer(tokenize)
    if metric == "ter":
        # TER of characters is not TER in sacreBLEU, and its search for shifts takes seconds per sentence.
        if name == "char":
            raise UsageError(
                "--tokenize 'char': TER counts words: leave out ter, or choose another tokenizer"
            )
        return TER(normalized=name in _ASIAN, asian_support=name in _ASIAN)
    try:
        # force: disable sacreBLEU's warning about tokenized text; callers use `looks_tokenized`.
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    except (RuntimeError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"tokenizer {tokenize!r}: {reason}") from None


def make_aggregate(metric: str, tokenize: str = "13a", lowercase: bool = False) -> Aggregate:
    """Return the function from rows of summed counts to scores.

    The arguments are those of `count_statistics`.
    """
    scorer = _scorer(metric, tokenize, lowercase)

    def scores(summed: Float[np.ndarray, "r k"]) -> Float[np.ndarray, "r"]:
        return np.array(
            [scorer._compute_score_from_stats(row).score for row in summed.tolist()], dtype=np.float64
        )

    return scores


def split_words(lines: Sequence[str], tokenize: str = "13a", lowercase: bool = False) -> list[list[str]]:
    """Return the words of each line, split as for BLEU by a `BleuTokenizer`.

    Raises:
        UsageError: if the tokenizer is unknown or needs a package that is not installed.
    """
    bleu_words = _scorer("bleu", tokenize, lowercase)
    return [bleu_words._preprocess_segment(line).split() for line in lines]


def looks_tokenized(lines: Sequence[str]) -> bool:
    """Return whether the text seems tokenized: at least 100 lines end in a full stop after a space."""
    return sum(line.rstrip().endswith(" .") for line in lines) >= _TOKENIZED_LINES


TRANSDUCTION_METRICS = ("accuracy", "edits")


def count_transduction(
    name: str, outputs: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = False
) -> SentenceCounts:
    """Return the counts of each output for `accuracy` or `edits`.

    Raises:
        DataError: if the lengths differ or there is no output.
        UsageError: if the name is unknown.
    """
    if name not in TRANSDUCTION_METRICS:
        raise UsageError(f"unknown metric {name!r}; expected one of {', '.join(TRANSDUCTION_METRICS)}")
    check_references(outputs, references)
    distance: Callable[[str, str], int | bool] = Levenshtein.distance if name == "edits" else str.__eq__
    # The best reference counts: the nearest one for edits, an equal one for accuracy.
    choose = min if name == "edits" else max
    plain_outputs = _plain(outputs, lowercase)
    plain_references = zip(*(_plain(lines, lowercase) for lines in references), strict=True)
    rows = [
        (choose(distance(output, reference) for reference in sentence_references), 1)
        for output, sentence_references in zip(plain_outputs, plain_references, strict=True)
    ]
    signature = f"nrefs:{len(references)}|case:{'lc' if lowercase else 'mixed'}"
    return SentenceCounts.ratio(name, rows, 1.0 if name == "edits" else 100.0, signature)


def _metric(name: str) -> MetricFunction:
    """Return the function of a metric of this module."""

    def count(data: MetricInput) -> SentenceCounts:
        if name in TRANSDUCTION_METRICS:
            return count_transduction(name, data.outputs, data.references, data.lowercase)
        return count_statistics(name, data.outputs, data.references, data.tokenize, data.lowercase)

    return count


for _name, _label in (
    ("bleu", "BLEU"),
    ("chrf", "chrF2"),
    ("ter", "TER"),
    ("accuracy", "accuracy %"),
    ("edits", "edits"),
):
    register_metric(_name, label=_label, higher_is_better=_name not in ("ter", "edits"))(_metric(_name))


def _plain(lines: Sequence[str], lowercase: bool) -> list[str]:
    """Return lines with normalized white space, in lower case if requested."""
    lines = [normalize_whitespace(line) for line in lines]
    return [line.lower() for line in lines] if lowercase else lines
