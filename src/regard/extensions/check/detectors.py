"""Detectors with a single source of evidence: links of a word aligner, length, or repeated words.

Their scores are probabilities by a fixed rule, not calibrated ones; the combined detector calibrates them.
"""

import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from regard.extensions.check.base import Detector, PairScores, register_detector
from regard.extensions.check.evidence import SideEvidence, WordNorms
from regard.extensions.check.features import LengthModel, longest_repetitions, repeats_previous
from regard.extensions.check.posteriors import TextPosteriors
from regard.extensions.check.text import WordPair

__all__ = ["AlignmentDetector", "LengthDetector", "RepetitionDetector"]

_START = 0.02  # probability that a run begins at a word
_CONTINUE = 0.7  # probability that it continues
_MISSED = 0.1  # share of affected words that the aligner links to some word
_MIN_RATE = 0.01
_MIN_UNLINKED = 0.1
_SHIFT = 2.0  # standard deviations by which an error is assumed to change the length
_PRIOR = -2.2  # log-odds of an error in one of ten sentences
_MIN_PAIRS = 20
_DEVIATION = 0.35  # of the logarithm of the ratio of lengths, for any languages
_SCRIPTS = ((re.compile("[\u3400-\u9fff\uf900-\ufaff]"), 3.0), (re.compile("[\uac00-\ud7af]"), 2.0),
            (re.compile("[\u3040-\u30ff]"), 1.5))  # fmt: skip
"""Letters of an alphabet that a character of some scripts stands for: Han, Hangul, Kana."""


@register_detector("alignment")
class AlignmentDetector(Detector):
    """Words without links in both directions of the word aligner.

    A hidden Markov model gives the probability that a word is in a run of words without links, which counts
    more than single words. Words that good translations often leave unlinked are weak evidence.
    """

    name = "alignment"
    needs = ("model",)

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the scores of each pair."""
        model = self.inputs.model
        assert model is not None
        scores = []
        for evidence in self.inputs.evidence(pairs):
            sides = evidence.source, evidence.target
            both = (
                _unlinked_words(side, norms) for side, norms in zip(sides, model.words.norms, strict=True)
            )
            scores += zip(*both, strict=True)
        return [
            PairScores({"omission": omission, "addition": addition}, {"omission": omitted, "addition": added})
            for (omission, omitted), (addition, added) in scores
        ]


def _unlinked_words(evidence: SideEvidence, norms: WordNorms) -> list[tuple[float, Float[np.ndarray, "S"]]]:
    """Return for each sentence the probability of an unlinked run, and that of each word to be in one."""
    mean, _ = norms.of(evidence.numbers)
    # The first statistic is the probability of no link. It is a soft observation of whether there is none.
    unlinked, rate = evidence.statistics[:, 0], np.clip(mean[:, 0], _MIN_RATE, 1 - _MIN_RATE)
    affected = unlinked * (1 - _MISSED) + (1 - unlinked) * _MISSED
    usual = unlinked * rate + (1 - unlinked) * (1 - rate)
    ratio = np.where(evidence.word > 0, affected / usual, 1.0)
    return _run_probabilities(ratio, evidence.offsets)


def _run_probabilities(
    ratio: Float[np.ndarray, "N"], offsets: Int[np.ndarray, "P+1"]
) -> list[tuple[float, Float[np.ndarray, "S"]]]:
    """Return the probabilities of a hidden Markov model, whose words are good or in an affected run.

    Args:
        ratio: For each word, the likelihood of its observation in a run, relative to that outside of one.
        offsets: Start of each sentence, and the end of the last one.

    Returns:
        For each sentence, the probability that it has a run, and for each word the probability to be in one.
    """
    lengths = np.diff(offsets)
    inside = np.arange(max(lengths, default=0)) < lengths[:, None]  # (P, S)
    likelihood = np.ones((*inside.shape, 2))
    likelihood[inside, 1] = ratio
    transition = np.array([[1 - _START, _START], [1 - _CONTINUE, _CONTINUE]])
    forward, log_total = np.empty_like(likelihood), np.zeros(len(lengths))
    state = np.tile(transition[0], (len(lengths), 1))
    for place in range(inside.shape[1]):
        # The states of a sentence after its end are not used.
        state = (state if place == 0 else state @ transition) * likelihood[:, place]
        total = state.sum(axis=1, keepdims=True)
        log_total += np.where(inside[:, place], np.log(total[:, 0]), 0.0)
        state = forward[:, place] = state / total
    backward, state = np.empty_like(likelihood), np.ones((len(lengths), 2))
    for place in reversed(range(inside.shape[1])):
        backward[:, place] = state
        state = np.where(inside[:, place, None], (state * likelihood[:, place]) @ transition.T, 1.0)
        state /= state.max(axis=1, keepdims=True)
    posterior = forward * backward
    words = (posterior[..., 1] / posterior.sum(axis=-1))[inside]
    # Without a run, all words are good, and their likelihood is 1.
    sentences = 1 - np.exp(lengths * np.log(1 - _START) - log_total)
    split = np.split(words, offsets[1:-1])
    return list(zip(np.clip(sentences, 0, 1).tolist(), split, strict=True))


@register_detector("length")
class LengthDetector(Detector):
    """The length of the translation, compared with the length that is usual for such a source.

    Without a model, the lengths of the text itself are the usual ones, and for fewer than 20 pairs, equal
    lengths, where a character of Chinese or Japanese counts for several letters. The score is the probability
    of an error by Bayes' rule, if lengths are normally distributed, an omission or addition changes the
    length by two standard deviations, and one sentence in ten has one.
    """

    name = "length"

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the scores of each pair."""
        if not pairs:
            return []
        model = self.inputs.model
        if model is not None:
            excess = model.length.excess(pairs)
        elif len(pairs) >= _MIN_PAIRS:
            excess = LengthModel.fit(pairs).excess(pairs)
        else:
            sizes = np.log([[_num_letters(side) for side in (pair.source, pair.target)] for pair in pairs])
            excess = (sizes[:, 1] - sizes[:, 0]) / _DEVIATION
        # The logarithm of the ratio of two normal densities, whose means are _SHIFT apart.
        shorter, longer = (
            1 / (1 + np.exp(-(_PRIOR + _SHIFT * sign * excess - _SHIFT**2 / 2))) for sign in (-1, 1)
        )
        return [
            PairScores({"omission": float(omission), "addition": float(addition)})
            for omission, addition in zip(shorter, longer, strict=True)
        ]


def _num_letters(words: Sequence[str]) -> float:
    """Return the number of letters of an alphabet that words correspond to, plus 1."""
    text = "".join(words)
    return 1 + len(text) + sum((size - 1) * len(script.findall(text)) for script, size in _SCRIPTS)


@register_detector("repetition")
class RepetitionDetector(Detector):
    """N-grams that the translation repeats more often than the source does. It needs no model.

    Adjacent copies and longer n-grams have higher scores. With a model, a repetition whose copies are linked
    to different source words counts less.
    """

    name = "repetition"

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the scores of each pair."""
        if self.inputs.model is None:
            words = [_repeated_words(pair) for pair in pairs]
        else:
            words = []
            for evidence in self.inputs.evidence(pairs):
                for row, pair in enumerate(evidence.table.pairs):
                    scores = _repeated_words(pair)
                    # A repetition counts less if its copies have different sources.
                    words.append(
                        scores * _same_source(evidence.table, row, scores) if scores.any() else scores
                    )
        return [
            PairScores({"repetition": float(scores.max(initial=0.0))}, {"repetition": scores})
            for scores in words
        ]


_SIZE_SCORES = (0.0, 0.05, 0.3, 0.6, 0.85)
"""Score of a word by the size of the longest n-gram around it that occurs before."""
_ADJACENT = 0.9
_SOURCE_REPEATS = 0.3


def _repeated_words(pair: WordPair) -> Float[np.ndarray, "T"]:
    """Return the scores of the target words of a pair."""
    source, target = pair.folded
    if len(set(target)) == len(target):
        return np.zeros(len(target))
    repetitions = longest_repetitions(target)
    sizes = np.array([size for size, _ in repetitions])
    scores = np.array([_SIZE_SCORES[int(size)] for size in sizes])
    for t, (_, longest) in enumerate(repetitions):
        if any(repeats_previous(target, t, n) for n in range(1, longest + 1)):
            scores[t : t + longest] = _ADJACENT
    # A source with a repetition of this size may need one in the translation.
    largest = max((size for size, _ in longest_repetitions(source)), default=0)
    return np.where(sizes <= largest, scores * _SOURCE_REPEATS, scores)


def _same_source(table: TextPosteriors, row: int, scores: Float[np.ndarray, "T"]) -> Float[np.ndarray, "T"]:
    """Return for each target word the share of its links that an earlier copy of it has, at least 0.2."""
    pair = table.pairs[row]
    words = pair.folded[1]
    cells = table.forward[table.cell_offsets[row] : table.cell_offsets[row + 1]]
    forward = cells.reshape(len(pair.source), len(words))
    shares = np.ones(len(words))
    for t in np.flatnonzero(scores).tolist():
        earlier = [i for i in range(t) if words[i] == words[t]]
        linked = forward[:, t].sum()
        if earlier and linked > _MIN_UNLINKED:
            shared = np.minimum(forward[:, t][:, None], forward[:, earlier]).sum(axis=0).max()
            shares[t] = max(shared / linked, 0.2)
    return shares
