"""Scores of translations: BLEU, chrF and TER with sacreBLEU (Post, 2018), accuracy and edits.

`count_statistics` returns n-gram matches, lengths and edits per sentence, for resampling
(`regard.metrics.base`).

Outputs that are evaluated as a whole, such as inflected forms, have two metrics of their own:

    accuracy = 100 * the share of outputs that equal the reference
    edits    = the mean number of characters to insert, delete or replace (Levenshtein, 1966)

White space is normalized to single spaces. Of several references, the closest one counts.

`utilities` are scores between all pairs of translations, for minimum Bayes risk decoding. BLEU and chrF are
sacreBLEU's sentence-level scores (`sentence_bleu`, `sentence_chrf`), at most 100.

n texts have n^2 utilities. Their n-grams are counted once, and the matches of all pairs are computed by
matrix multiplication: the minimum of two counts a and b is the number of t = 1, 2... with a >= t and b >= t.

The reward of each token is based on the BLEU of every prefix of a translation:

    R(y'_1..t) = BP exp(1/4 sum_{n <= 4} log((matches_n + 1) / (count_n + 1))) |y|,
    BP = exp(1 - |y| / t) for t < |y|, else 1;   R of an empty prefix = 0

as in Indurthi et al. (2019), Section 4, after Bahdanau et al. (2017): n-gram counts start from 1, and the
score is multiplied by the length of the reference y. Matches are clipped to the reference's counts. An n-gram
with an unknown token never matches. End symbols are removed from both sides.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float, Int
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
    texts = [[normalize_whitespace(line) for line in lines] for lines in (outputs, *references)]
    if lowercase:
        texts = [[line.lower() for line in lines] for lines in texts]
    rows = [
        (choose(distance(output, reference) for reference in sentence_references), 1)
        for output, *sentence_references in zip(*texts, strict=True)
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


Utility = Literal["bleu", "chrf"]

_ORDERS = 4  # maximum n-gram order of words in BLEU
_CHARACTERS = 6  # maximum n-gram order of characters in chrF
_RECALL = 4  # beta^2, the weight of recall in chrF2


def utilities(name: Utility, texts: Sequence[str]) -> Float[np.ndarray, "n n"]:
    """Compute the utility of every text (row) with every text as the reference (column).

    Words are those of sacreBLEU's `13a` tokenizer.
    """
    # Samples from a model contain many duplicates, and the cost is quadratic in the number of texts.
    distinct = list(dict.fromkeys(texts))
    if name == "chrf":
        utility = _chrf(["".join(text.split()) for text in distinct])
    else:
        utility = _bleu(split_words(distinct))
    # Copy the utilities of distinct texts to all of their duplicates.
    known = {text: row for row, text in enumerate(distinct)}
    rows = [known[text] for text in texts]
    return utility[np.ix_(rows, rows)]


def _bleu(sentences: Sequence[Sequence[str]]) -> Float[np.ndarray, "n n"]:
    """Compute BLEU with sacreBLEU's `exp` smoothing: the k-th order without a match has 1 / 2^k matches."""
    lengths = np.array([len(words) for words in sentences], dtype=np.float64)
    logs, smooth = np.zeros((2, len(sentences), len(sentences)))
    orders = np.zeros((len(sentences), 1))  # number of orders for which the text has n-grams
    any_match = np.zeros_like(logs, dtype=bool)
    for n in range(1, _ORDERS + 1):
        counts = _count_ngrams(sentences, n)
        matches, totals = _clipped_matches(counts), counts.sum(axis=1, keepdims=True, dtype=np.float64)
        # As in sacreBLEU, each order without a match halves the smoothed number of matches.
        any_match |= matches > 0
        smooth += matches == 0
        precisions = np.where(matches > 0, matches, 0.5**smooth) / np.maximum(totals, 1)
        logs += np.where(totals > 0, np.log(precisions), 0.0)
        orders += totals > 0
    # Row i is the text and column j its reference: the penalty is 1 - r / c if the text is shorter.
    brevity = np.minimum(0.0, 1 - lengths / np.maximum(lengths, 1)[:, np.newaxis])
    return np.where(any_match, 100 * np.exp(logs / np.maximum(orders, 1) + brevity), 0.0)


def _chrf(sentences: Sequence[str]) -> Float[np.ndarray, "n n"]:
    """Compute chrF from the mean precision and recall of the orders for which both sentences have n-grams."""
    precision, recall, orders = np.zeros((3, len(sentences), len(sentences)))
    for n in range(1, _CHARACTERS + 1):
        counts = _count_ngrams(sentences, n)
        matches, totals = _clipped_matches(counts), counts.sum(axis=1, dtype=np.float64)
        both = (totals[:, np.newaxis] > 0) & (totals > 0)
        precision += np.where(both, matches / np.maximum(totals, 1)[:, np.newaxis], 0.0)
        recall += np.where(both, matches / np.maximum(totals, 1), 0.0)
        # As in sacreBLEU, orders without n-grams in a short sentence do not lower the mean.
        orders += both
    precision, recall = (part / np.maximum(orders, 1) for part in (precision, recall))
    below = _RECALL * precision + recall
    return 100 * (1 + _RECALL) * precision * recall / np.where(below > 0, below, 1.0)


def _count_ngrams(sentences: Sequence[Sequence[str]], n: int) -> Float[np.ndarray, "n g"]:
    """Return the count of each distinct n-gram in each sentence."""
    known: dict[tuple[str, ...], int] = {}
    places = [
        [known.setdefault(ngram, len(known)) for ngram in zip(*(words[i:] for i in range(n)), strict=False)]
        for words in sentences
    ]
    counts = np.zeros((len(sentences), len(known)), dtype=np.float32)
    for row, ngrams in zip(counts, places, strict=True):
        np.add.at(row, ngrams, 1)
    return counts


def _clipped_matches(counts: Float[np.ndarray, "n g"]) -> Float[np.ndarray, "n n"]:
    """Return the sum of the minimum counts for each pair of rows."""
    matches = np.zeros((len(counts), len(counts)))
    maximum = counts.max(axis=0, initial=0)
    for times in range(1, int(maximum.max(initial=0)) + 1):
        # min(a, b) counts the thresholds that both a and b reach, so products of 0/1 matrices suffice.
        # The counts are small integers, which float32 represents exactly.
        ones = (counts[:, maximum >= times] >= times).astype(np.float32)
        matches += ones @ ones.T
    return matches


def prefix_bleu(
    produced: Int[np.ndarray, "B T"],
    produced_lengths: Int[np.ndarray, "B"],
    reference: Int[np.ndarray, "B N"],
    reference_lengths: Int[np.ndarray, "B"],
    eos_id: int,
    unk_id: int,
) -> Float[np.ndarray, "B T"]:
    """Compute R after each of the first t tokens, t = 1, 2..., stored at the position of token t.

    Args:
        produced: Token ids of translations.
        produced_lengths: Number of tokens in each row, without padding.
        reference: Token ids of the references, including end symbols.
        reference_lengths: Number of tokens in each reference, without padding.
        eos_id: Id of the end symbol, which is not counted as a token.
        unk_id: Id of the unknown token.

    Returns:
        [B, T] in float64; 0 at padding.
    """
    # Numba is imported only when rewards are computed, because search needs the utilities alone.
    from regard.kernels.prefix_bleu import fill_prefix_bleu

    rewards = np.zeros(produced.shape)
    fill_prefix_bleu(rewards, produced, produced_lengths, reference, reference_lengths, eos_id, unk_id)
    return rewards
