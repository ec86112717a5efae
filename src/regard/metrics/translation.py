"""BLEU, chrF and TER of a corpus through sacreBLEU (Post 2018), each with its signature.

`count` keeps n-gram matches, lengths and edits sentence by sentence, for resampling
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
from regard.metrics.counts import Score, SentenceCounts, check_lengths
from regard.metrics.significance import Aggregate

__all__ = [
    "MetricName",
    "Tokenizer",
    "aggregate",
    "as_tokenizer",
    "bleu",
    "chrf",
    "count",
    "looks_tokenized",
    "split_words",
    "ter",
]

MetricName = Literal["bleu", "chrf", "ter"]

# Those of sacreBLEU's that download nothing.
Tokenizer = Literal["13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab"]


def as_tokenizer(name: str) -> Tokenizer:
    """The tokenizer of that name.

    Raises:
        UsageError: if there is none.
    """
    for known in get_args(Tokenizer):
        if name == known:
            return known
    raise UsageError(f"--tokenize {name!r}: expected one of {', '.join(get_args(Tokenizer))}")


# sacreBLEU's own threshold for "you forgot to detokenize".
_TOKENIZED_LINES = 100


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: Tokenizer = "13a",
    lowercase: bool = False,
) -> Score:
    """Corpus BLEU (Papineni et al. 2002) with sacreBLEU's default smoothing.

    Args:
        hypotheses: One output a sentence.
        references: One or more sets of references, each as long as `hypotheses`.
        tokenize: `13a` for detokenised text; `none` takes the words as they stand, the "tokenised BLEU" of
            many papers.
        lowercase: Ignore case.

    Raises:
        DataError: if the lengths differ or there is no sentence.
        UsageError: if the tokenizer needs a package that is not installed.
    """
    return count("bleu", hypotheses, references, tokenize, lowercase).total()


def chrf(hypotheses: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = False) -> Score:
    """Corpus chrF2 (Popović 2015): F-score of character n-grams up to 6, recall counting twice.

    Args:
        hypotheses: One output a sentence.
        references: One or more sets of references, each as long as `hypotheses`.
        lowercase: Ignore case.

    Raises:
        DataError: if the lengths differ or there is no sentence.
    """
    return count("chrf", hypotheses, references, lowercase=lowercase).total()


def ter(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    """Translation edit rate (Snover et al. 2006), lower is better; it ignores case, as the original does.

    Args:
        hypotheses: One output a sentence.
        references: One or more sets of references, each as long as `hypotheses`.

    Raises:
        DataError: if the lengths differ or there is no sentence.
    """
    return count("ter", hypotheses, references).total()


def count(
    metric: str,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: str = "13a",
    lowercase: bool = False,
) -> SentenceCounts:
    """Count what a metric needs, sentence by sentence.

    Args:
        metric: A `MetricName`.
        hypotheses: One output a sentence.
        references: One or more sets of references, each as long as `hypotheses`.
        tokenize: A `Tokenizer`, for BLEU only.
        lowercase: For BLEU and chrF; TER always ignores case.

    Raises:
        DataError: if the lengths differ or there is no sentence.
        UsageError: if the metric or the tokenizer is unknown or needs a package that is not installed.
    """
    check_lengths(hypotheses, references)
    scorer = _scorer(metric, tokenize, lowercase)
    # sacreBLEU has no public door to a sentence's counts; its metrics all define these two methods.
    counts = scorer._extract_corpus_statistics(hypotheses, references)
    rows = np.array(counts, dtype=np.float64)  # (n, k)
    name = scorer._compute_score_from_stats(rows.sum(axis=0).tolist()).name
    return SentenceCounts(name, str(scorer.get_signature()), rows, _aggregate(scorer))


def aggregate(metric: str, tokenize: str = "13a", lowercase: bool = False) -> Aggregate:
    """From rows of summed counts to scores, for counts that were kept; arguments as those of `count`."""
    return _aggregate(_scorer(metric, tokenize, lowercase))


def _aggregate(scorer: Metric) -> Aggregate:
    def scores(summed: Float[np.ndarray, "r k"]) -> Float[np.ndarray, "r"]:
        return np.array(
            [scorer._compute_score_from_stats(row).score for row in summed.tolist()], dtype=np.float64
        )

    return scores


def split_words(lines: Sequence[str], tokenize: str = "13a", lowercase: bool = False) -> list[list[str]]:
    """The words of each line, as BLEU counts them.

    Args:
        lines: Sentences.
        tokenize: A `Tokenizer`.
        lowercase: Ignore case.

    Raises:
        UsageError: if the tokenizer is unknown or needs a package that is not installed.
    """
    bleu_words = _bleu(tokenize, lowercase)
    return [bleu_words._preprocess_segment(line).split() for line in lines]


def looks_tokenized(lines: Sequence[str]) -> bool:
    """Whether so many lines end in a full stop set apart that the text was hardly detokenised."""
    return sum(line.rstrip().endswith(" .") for line in lines) >= _TOKENIZED_LINES


def _scorer(metric: str, tokenize: str, lowercase: bool) -> Metric:
    if metric == "chrf":
        return CHRF(lowercase=lowercase)
    if metric == "ter":
        return TER()
    if metric != "bleu":
        raise UsageError(f"unknown metric {metric!r}; expected one of {', '.join(get_args(MetricName))}")
    return _bleu(tokenize, lowercase)


def _bleu(tokenize: str, lowercase: bool) -> BLEU:
    if tokenize not in get_args(Tokenizer):
        raise UsageError(f"unknown tokenizer {tokenize!r}; expected one of {', '.join(get_args(Tokenizer))}")
    try:
        # force: whether the text looks tokenised is the caller's to ask (`looks_tokenized`) and to say.
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    except (RuntimeError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"tokenizer {tokenize!r}: {reason}") from None
