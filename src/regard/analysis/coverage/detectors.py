"""Detectors with a single source of evidence: links of a word aligner, length, or repeated words.

Their scores are probabilities by a fixed rule, not calibrated ones; the combined detector calibrates them.
"""

from collections.abc import Sequence

import numpy as np

from regard.analysis.coverage.base import Detector, PairScores, register_detector
from regard.analysis.coverage.evidence import LinkTable, SideEvidence, WordNorms
from regard.analysis.coverage.features import LengthModel, best_run, repeated_ngrams
from regard.analysis.coverage.text import WordPair
from regard.types import Float

__all__ = ["AlignmentDetector", "LengthDetector", "RepetitionDetector"]

_RUN_WEIGHT = 0.5
_MIN_UNLINKED = 0.1
_SHIFT = 2.0  # standard deviations by which an error is assumed to change the length
_PRIOR = -2.2  # log-odds of an error in one of ten sentences
_MIN_PAIRS = 20
_SCRIPTS = LengthModel(slope=1.0, intercept=0.0, deviation=0.3)


@register_detector("alignment")
class AlignmentDetector(Detector):
    """Words without links in both directions of the word aligner.

    The score of a word is its probability of no link above the rate of that word in good translations, and
    half of the best run of neighbors that contains it. The sentence has that of its best word.
    """

    name = "alignment"
    needs = ("model",)

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the scores of each pair."""
        model = self.inputs.model
        assert model is not None
        table = LinkTable.of(model.aligner, pairs, self.inputs.num_threads)
        sides = (
            SideEvidence.collect(table, model.counts),
            SideEvidence.collect(table.swapped(), model.counts, swapped=True),
        )
        found = [_unlinked_words(side, norms) for side, norms in zip(sides, model.norms, strict=True)]
        return [
            PairScores(
                {"omission": _sentence(omitted), "addition": _sentence(added)},
                {"omission": omitted, "addition": added},
            )
            for omitted, added in zip(*found, strict=True)
        ]


def _unlinked_words(evidence: SideEvidence, norms: WordNorms) -> list[Float[np.ndarray, "S"]]:
    """Return for each sentence the scores of its words."""
    mean, _ = norms.of(evidence.numbers)
    # The first statistic is the probability of no link.
    excess = np.clip(evidence.statistics[:, 0] - mean[:, 0], 0, 1) * evidence.word
    return [_with_neighbors(one) for one in np.split(excess, evidence.offsets[1:-1])]


def _with_neighbors(excess: Float[np.ndarray, "S"]) -> Float[np.ndarray, "S"]:
    """Return 1 - (1 - excess) (1 - r / 2)^n, where r is the mean of both neighbors, for runs of words."""
    left, right = np.r_[0.0, excess[:-1]], np.r_[excess[1:], 0.0]
    return 1 - (1 - excess) * (1 - _RUN_WEIGHT * np.minimum(np.maximum(left, right), excess))


def _sentence(words: Float[np.ndarray, "S"]) -> float:
    """Return the score of a sentence: 1 minus the probability that no word is affected, by the best run."""
    if not len(words):
        return 0.0
    return float(1 - np.exp(-best_run(-np.log1p(-np.minimum(words, 0.999)) - _MIN_UNLINKED)))


@register_detector("length")
class LengthDetector(Detector):
    """The length of the translation, compared with the length that is usual for such a source.

    Without a model, the lengths of the text itself are the usual ones, and for fewer than 20 pairs, those of
    the same number of characters. The score is the probability of an error by Bayes' rule, if lengths are
    normally distributed, an omission or addition changes the length by two standard deviations, and one
    sentence in ten has one.
    """

    name = "length"

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the scores of each pair."""
        if not pairs:
            return []
        model = self.inputs.model
        if model is not None:
            length = model.length
        else:
            length = LengthModel.fit(pairs) if len(pairs) >= _MIN_PAIRS else _SCRIPTS
        excess = length.excess(pairs)
        # The logarithm of the ratio of two normal densities, whose means are _SHIFT apart.
        shorter, longer = (
            1 / (1 + np.exp(-(_PRIOR + _SHIFT * sign * excess - _SHIFT**2 / 2))) for sign in (-1, 1)
        )
        return [
            PairScores({"omission": float(omission), "addition": float(addition)})
            for omission, addition in zip(shorter, longer, strict=True)
        ]


@register_detector("repetition")
class RepetitionDetector(Detector):
    """N-grams that the translation repeats more often than the source does. It needs no model.

    Adjacent copies and longer n-grams have higher scores. With a model, a repetition whose copies are linked
    to different source words counts less.
    """

    name = "repetition"

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the scores of each pair."""
        model = self.inputs.model
        table = LinkTable.of(model.aligner, pairs, self.inputs.num_threads) if model and pairs else None
        found = []
        for row, pair in enumerate(pairs):
            words = _repeated_words(pair)
            if table is not None and words.any():
                words = words * _same_source(table, row)
            found.append(PairScores({"repetition": float(words.max(initial=0.0))}, {"repetition": words}))
        return found


_SIZE_SCORES = (0.0, 0.05, 0.3, 0.6, 0.85)
"""Score of a word by the size of the longest n-gram around it that occurs before."""
_ADJACENT = 0.9
_SOURCE_REPEATS = 0.3


def _repeated_words(pair: WordPair) -> Float[np.ndarray, "T"]:
    """Return the scores of the target words of a pair."""
    source, target = pair.folded
    sizes = repeated_ngrams(target)
    found = np.array([_SIZE_SCORES[size] for size in sizes])
    for t, size in enumerate(sizes):
        if any(target[t - n : t] == target[t : t + n] for n in range(1, size + 1) if t >= n):
            found[t : t + size] = _ADJACENT
    largest = max(repeated_ngrams(source), default=0)
    # A source with a repetition of this size may need one in the translation.
    return np.where(np.array(sizes, dtype=np.int64) <= largest, found * _SOURCE_REPEATS, found)


def _same_source(table: LinkTable, row: int) -> Float[np.ndarray, "T"]:
    """Return for each target word the share of its links that an earlier copy of it has, at least 0.2."""
    pair = table.pairs[row]
    words = pair.folded[1]
    cells = table.forward[table.cell_offsets[row] : table.cell_offsets[row + 1]]
    forward = cells.reshape(len(pair.source), len(words))
    found = np.ones(len(words))
    for t, word in enumerate(words):
        earlier = [i for i in range(t) if words[i] == word]
        linked = forward[:, t].sum()
        if earlier and linked > _MIN_UNLINKED:
            shared = np.minimum(forward[:, t][:, None], forward[:, earlier]).sum(axis=0).max()
            found[t] = max(shared / linked, 0.2)
    return found
