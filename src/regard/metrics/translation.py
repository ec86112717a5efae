"""BLEU, chrF and TER of a corpus with sacreBLEU (Post, 2018), including signatures.

`count_statistics` returns n-gram matches, lengths and edits per sentence, for resampling
(`regard.metrics.significance`).
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.errors import UsageError
from regard.metrics.counts import CorpusScore, SentenceCounts, check_references
from regard.metrics.registry import MetricInput, register_metric
from regard.metrics.significance import Aggregate

__all__ = [
    "BleuTokenizer",
    "MetricName",
    "bleu",
    "check_tokenizer",
    "chrf",
    "count_statistics",
    "looks_tokenized",
    "make_aggregate",
    "split_words",
    "ter",
]

MetricName = Literal["bleu", "chrf", "ter"]

# Tokenizers of sacreBLEU that do not need a download.
BleuTokenizer = Literal["13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab"]


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


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: BleuTokenizer = "13a",
    lowercase: bool = False,
) -> CorpusScore:
    """Compute corpus BLEU (Papineni et al., 2002) with sacreBLEU's default smoothing.

    Args:
        hypotheses: One output per sentence.
        references: One or more sets of references, each as long as `hypotheses`.
        tokenize: `13a` for detokenized text; `none` for text that is already tokenized, as for the "tokenized
            BLEU" of many papers.
        lowercase: Whether to ignore case.

    Raises:
        DataError: if the lengths differ or there is no sentence.
        UsageError: if the tokenizer needs a package that is not installed.
    """
    return count_statistics("bleu", hypotheses, references, tokenize, lowercase).corpus_score()


def chrf(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = False
) -> CorpusScore:
    """Compute corpus chrF2 (Popović, 2015): F-score of character n-grams up to 6, with beta = 2.

    Args:
        hypotheses: One output per sentence.
        references: One or more sets of references, each as long as `hypotheses`.
        lowercase: Whether to ignore case.

    Raises:
        DataError: if the lengths differ or there is no sentence.
    """
    return count_statistics("chrf", hypotheses, references, lowercase=lowercase).corpus_score()


def ter(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> CorpusScore:
    """Compute the translation edit rate (Snover et al., 2006); lower is better. Case is ignored.

    Args:
        hypotheses: One output per sentence.
        references: One or more sets of references, each as long as `hypotheses`.

    Raises:
        DataError: if the lengths differ or there is no sentence.
    """
    return count_statistics("ter", hypotheses, references).corpus_score()


def count_statistics(
    metric: str,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: str = "13a",
    lowercase: bool = False,
) -> SentenceCounts:
    """Return the counts of a metric for each sentence.

    Args:
        metric: A `MetricName`.
        hypotheses: One output per sentence.
        references: One or more sets of references, each as long as `hypotheses`.
        tokenize: A `BleuTokenizer`, for BLEU only.
        lowercase: Whether BLEU and chrF ignore case. TER always does.

    Raises:
        DataError: if the lengths differ or there is no sentence.
        UsageError: if the metric or the tokenizer is unknown or needs a package that is not installed.
    """
    check_references(hypotheses, references)
    scorer = _scorer(metric, tokenize, lowercase)
    # sacreBLEU has no public API for the counts of a sentence. All of its metrics define these two methods.
    counts = scorer._extract_corpus_statistics(hypotheses, references)
    rows = np.array(counts, dtype=np.float64)  # (n, k)
    name = scorer._compute_score_from_stats(rows.sum(axis=0).tolist()).name
    return SentenceCounts(name, str(scorer.get_signature()), rows, _aggregate(scorer))


@register_metric("bleu", label="BLEU")
def _count_bleu(data: MetricInput) -> SentenceCounts:
    return count_statistics("bleu", data.outputs, data.references, data.tokenize, data.lowercase)


@register_metric("chrf", label="chrF2")
def _count_chrf(data: MetricInput) -> SentenceCounts:
    return count_statistics("chrf", data.outputs, data.references, lowercase=data.lowercase)


@register_metric("ter", label="TER", higher_is_better=False)
def _count_ter(data: MetricInput) -> SentenceCounts:
    return count_statistics("ter", data.outputs, data.references)


def make_aggregate(metric: str, tokenize: str = "13a", lowercase: bool = False) -> Aggregate:
    """Return the function from rows of summed counts to scores.

    The arguments are those of `count_statistics`.
    """
    return _aggregate(_scorer(metric, tokenize, lowercase))


def _aggregate(scorer: Metric) -> Aggregate:
    def scores(summed: Float[np.ndarray, "r k"]) -> Float[np.ndarray, "r"]:
        return np.array(
            [scorer._compute_score_from_stats(row).score for row in summed.tolist()], dtype=np.float64
        )

    return scores


def split_words(lines: Sequence[str], tokenize: str = "13a", lowercase: bool = False) -> list[list[str]]:
    """Return the words of each line, split as for BLEU.

    Args:
        lines: Sentences.
        tokenize: A `BleuTokenizer`.
        lowercase: Whether to convert words to lower case.

    Raises:
        UsageError: if the tokenizer is unknown or needs a package that is not installed.
    """
    bleu_words = _bleu(tokenize, lowercase)
    return [bleu_words._preprocess_segment(line).split() for line in lines]


def looks_tokenized(lines: Sequence[str]) -> bool:
    """Return whether the text seems tokenized: at least 100 lines end in a full stop after a space."""
    return sum(line.rstrip().endswith(" .") for line in lines) >= _TOKENIZED_LINES


def _scorer(metric: str, tokenize: str, lowercase: bool) -> Metric:
    """Return the sacreBLEU object of a metric."""
    if metric == "chrf":
        return CHRF(lowercase=lowercase)
    if metric == "ter":
        return TER()
    if metric != "bleu":
        raise UsageError(f"unknown metric {metric!r}; expected one of {', '.join(get_args(MetricName))}")
    return _bleu(tokenize, lowercase)


def _bleu(tokenize: str, lowercase: bool) -> BLEU:
    """Return sacreBLEU's BLEU, and convert its errors."""
    if tokenize not in get_args(BleuTokenizer):
        raise UsageError(
            f"unknown tokenizer {tokenize!r}; expected one of {', '.join(get_args(BleuTokenizer))}"
        )
    try:
        # force: disable sacreBLEU's warning about tokenized text; callers use `looks_tokenized`.
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    except (RuntimeError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"tokenizer {tokenize!r}: {reason}") from None
