"""The detectors: those of errors in length and of repetitions, the combined one, and notes about sentences.

The scores of the first ones are probabilities by a fixed rule, not calibrated ones; the combined detector
calibrates them. Detectors are made for translations with ordinary words. Sentences that are empty, copied,
or in another language therefore get notes, which hold for every detector that finds the error.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from regard.extensions.check.base import (
    CoverageError,
    Detector,
    PairScores,
    SentenceError,
    WordPair,
    register_detector,
)
from regard.extensions.check.critical import COUNTED, CriticalWords, largest_probabilities
from regard.extensions.check.surface import LengthModel, longest_repetitions, num_characters, repeats_previous
from regard.text.links import MAX_LENGTH
from regard.text.words import is_alphabetic, normalize_word

if TYPE_CHECKING:
    from regard.extensions.check.model import ErrorModel

_SHIFT = 2.0  # standard deviations by which an error is assumed to change the length
_PRIOR = -2.2  # log-odds of an error in one of ten sentences
_MIN_PAIRS = 20
_UNRELATED_PRIOR = -2.9  # log-odds of an unrelated translation, of one in twenty sentences
_QUARTILES = 1.349  # distance of the quartiles of a normal distribution, in standard deviations
_DEVIATION = 0.35  # of the logarithm of the ratio of lengths, for any languages
_SCRIPTS = ((re.compile("[\u3400-\u9fff\uf900-\ufaff]"), 3.0), (re.compile("[\uac00-\ud7af]"), 2.0),
            (re.compile("[\u3040-\u30ff]"), 1.5))  # fmt: skip
"""Letters of an alphabet that a character of some scripts stands for: Han, Hangul, Kana."""


def _usual_length(pairs: Sequence[WordPair]) -> LengthModel | None:
    """Return the usual length of a text, None for fewer than 20 pairs with words on both sides."""
    filled = [pair for pair in pairs if pair.source and pair.target]
    return LengthModel.fit(num_characters(filled)) if len(filled) >= _MIN_PAIRS else None


@register_detector("length")
class LengthDetector(Detector):
    """The length of the translation, compared with the length that is usual for such a source.

    The lengths of the text itself are the usual ones (of the first block, if the text comes in blocks), and
    for fewer than 20 pairs, equal lengths, where a character of Chinese or Japanese counts for several
    letters. The score is the probability of an error by
    Bayes' rule, if lengths are normally distributed, an omission or addition changes the length by two
    standard deviations, and one sentence in ten has one.
    """

    _usual: LengthModel | None = None

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the scores of each pair."""
        if not pairs:
            return []
        self._usual = self._usual or _usual_length(pairs)
        if self._usual is not None:
            excess = self._usual.excess(num_characters(pairs))
        else:
            # The number of letters of an alphabet that the words correspond to, plus 1.
            sizes = np.ones((len(pairs), 2))
            for row, pair in enumerate(pairs):
                for column, side in enumerate((pair.source, pair.target)):
                    text = "".join(side)
                    wide = sum((size - 1) * len(script.findall(text)) for script, size in _SCRIPTS)
                    sizes[row, column] += len(text) + wide
            logarithms = np.log(sizes)
            excess = (logarithms[:, 1] - logarithms[:, 0]) / _DEVIATION
        # The logarithm of the ratio of two normal densities, whose means are _SHIFT apart.
        shorter, longer = (
            1 / (1 + np.exp(-(_PRIOR + _SHIFT * sign * excess - _SHIFT**2 / 2))) for sign in (-1, 1)
        )
        return [
            PairScores({"omission": float(omission), "addition": float(addition)})
            for omission, addition in zip(shorter, longer, strict=True)
        ]


_SIZE_SCORES = (0.0, 0.05, 0.3, 0.6, 0.85)
"""Score of a word by the size of the longest n-gram around it that occurs before."""
_ADJACENT = 0.9
_SOURCE_REPEATS = 0.3


@register_detector("repetition")
class RepetitionDetector(Detector):
    """N-grams that the translation repeats more often than the source does.

    Adjacent copies and longer n-grams have higher scores.
    """

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the scores of each pair."""
        words = map(_repeated_words, pairs)
        return [
            PairScores({"repetition": float(scores.max(initial=0.0))}, {"repetition": scores})
            for scores in words
        ]


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


@register_detector("rules")
class RuleDetector(Detector):
    """The detectors `length` and `repetition` together, and numbers that differ; it needs no model.

    With an encoder, it finds unrelated translations in a text of at least 20 pairs as well, by Bayes' rule
    with one such translation in twenty sentences. The cosines of both sides are assumed to be normally
    distributed, with the mean of all pairs or, if unrelated, that of sources with the next translation.
    """

    _usual: tuple[Float[np.ndarray, "2 D"], float, float] | None = None

    def __init__(self, model: Any = None, num_threads: int = 0) -> None:
        """Build both detectors."""
        super().__init__(model, num_threads)
        self.parts = LengthDetector(), RepetitionDetector()
        self.critical = CriticalWords.untrained()

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the scores of each pair."""
        lengths, repetitions = (part.detect(pairs) for part in self.parts)
        mismatches = [
            tuple(each for each in self.critical.mismatches(pair) if each.error == "number") for pair in pairs
        ]
        scores = [
            PairScores(
                {**length.sentence, **repetition.sentence, **largest_probabilities(numbers, ["number"])},
                repetition.words,
                numbers,
            )
            for length, repetition, numbers in zip(lengths, repetitions, mismatches, strict=True)
        ]
        # An empty side has no embedding.
        filled = np.flatnonzero([bool(pair.source and pair.target) for pair in pairs])
        if self.encoder is None or (self._usual is None and len(filled) < _MIN_PAIRS):
            return scores
        probabilities = np.zeros(len(pairs))
        if len(filled):
            probabilities[filled] = self._unrelated([pairs[row] for row in filled.tolist()])
        return [
            replace(score, sentence={**score.sentence, "unrelated": probability})
            for score, probability in zip(scores, probabilities.tolist(), strict=True)
        ]

    def _unrelated(self, pairs: Sequence[WordPair]) -> Float[np.ndarray, "P"]:
        """Return the probability that each translation is unrelated to its source."""
        sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
        vectors = np.stack([self.encoder.embed(side)[1] for side in sides])
        means = vectors.mean(axis=1) if self._usual is None else self._usual[0]
        # Without what all sentences of a language have in common.
        vectors -= means[:, None]
        source, target = vectors / np.maximum(np.linalg.norm(vectors, axis=2, keepdims=True), 1e-9)
        cosines = (source * target).sum(axis=1)
        if self._usual is None:
            others = (source * np.roll(target, 1, axis=0)).sum(axis=1)
            # Medians and quartiles hardly depend on the errors among the pairs.
            related, unrelated = float(np.median(cosines)), float(np.median(others))
            quartiles = np.subtract(*np.quantile([cosines, others], (0.75, 0.25), axis=1)) / _QUARTILES
            # In a text that is shifted by a line, the next translation is the right one.
            slope = max(related - unrelated, 0.0) / max(float((quartiles**2).mean()), 1e-6)
            self._usual = means, slope, (related + unrelated) / 2
        _, slope, center = self._usual
        return 1 / (1 + np.exp(-np.clip(slope * (center - cosines) + _UNRELATED_PRIOR, -30, 30)))


@register_detector("combined")
class CombinedDetector(Detector):
    """Calibrated probabilities of coverage errors, and those of numbers, names and negations."""

    needs_model = True
    _has_usual_length = False

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the probabilities of each pair."""
        assert self.model is not None
        if self.model.is_multilingual and not self._has_usual_length and (length := _usual_length(pairs)):
            # The usual length is that of this language pair, and not of the one of the training text.
            self.model, self._has_usual_length = replace(self.model, length=length), True
        return self.model.scores(pairs, self.num_threads)


Note = Literal[
    "too_long", "empty_source", "empty_translation", "copied", "unknown_source", "unknown_translation"
]
NOTES: Mapping[Note, str] = {
    "too_long": f"a side has more than {MAX_LENGTH:,} words, so the pair is not checked: split it into "
    "sentences",
    "empty_source": "the source is empty",
    "empty_translation": "the translation is empty",
    "copied": "the translation is a copy of the source, probably untranslated",
    "unknown_source": "hardly any source word occurs in the training text: is it in another language, "
    "or are the files swapped?",
    "unknown_translation": "hardly any word of the translation occurs in the training text: is it in another "
    "language, or are the files swapped?",
}
"""The notes in words."""

_COPIED = 0.9  # share of equal words from which a translation is a copy
_MIN_LOWERCASE = 2
_UNKNOWN = 0.75  # share of unknown words from which a sentence is in another language
_MIN_WORDS = 4
_COPY_PROBABILITY = 0.95


def find_note(pair: WordPair, model: "ErrorModel | None" = None) -> Note | None:
    """Return the note about a pair, None for an ordinary translation.

    Args:
        pair: The words.
        model: The model of good translations, whose vocabulary shows words of another language.
    """
    if pair.is_too_long:
        return "too_long"
    if not pair.target:
        return "empty_translation" if pair.source else None
    if not pair.source:
        return "empty_source"
    if _is_copy(pair):
        return "copied"
    if model is not None:
        # A package that imports Numba, which takes a quarter of a second.
        from regard.alignment.corpus import UNKNOWN

        words = model.aligner.vocabularies
        sides: tuple[Note, Note] = ("unknown_source", "unknown_translation")
        for note, known, folded_words in zip(sides, words, pair.folded, strict=True):
            # An encoder has no vocabulary.
            if not len(known) or known.numbers(folded_words).count(UNKNOWN) < _UNKNOWN * _MIN_WORDS:
                continue
            numbers = known.numbers([word for word in folded_words if is_alphabetic(word)])
            if len(numbers) >= _MIN_WORDS and numbers.count(UNKNOWN) >= _UNKNOWN * len(numbers):
                return note
    return None


def _is_copy(pair: WordPair) -> bool:
    words, others = pair.folded
    least, there = _COPIED * max(len(words), len(others)), set(others)
    if sum(map(there.__contains__, words)) < least:
        return False
    # Titles and lists of names are translated by copying them, and consist of capitalized words.
    source, target = (Counter(map(normalize_word, side)) for side in (pair.source, pair.target))
    ordinary = [word for word in pair.source if is_alphabetic(word) and word == word.casefold()]
    if len(ordinary) < _MIN_LOWERCASE:
        return False
    return (source & target).total() >= least


def apply_note(note: Note | None, pair: WordPair, scores: PairScores) -> PairScores:
    """Return the scores of a pair with the probabilities that its note implies.

    An empty translation omits everything, and a copied source is untranslated. A pair that is too long has no
    probable error. Words that the training text does not have make no error probable.
    """
    if note is None:
        return scores
    if note == "too_long":
        zeros: dict[CoverageError, np.ndarray] = {
            error: np.zeros(len(pair.source if error == "omission" else pair.target))
            for error in scores.words
        }
        return PairScores(dict.fromkeys(scores.sentence, 0.0), zeros)
    least: dict[SentenceError, float] = {}
    if note == "empty_translation":
        least = {"omission": 1.0}
    elif note == "empty_source":
        least = {"addition": 1.0}
    elif note == "copied":
        least = {"omission": _COPY_PROBABILITY}
    sentence = {error: max(value, least.get(error, 0.0)) for error, value in scores.sentence.items()}
    if note in ("empty_source", "empty_translation"):
        # All is omitted or added, which is one error.
        sentence |= {error: 0.0 for error in COUNTED if error in sentence}
        scores = replace(scores, mismatches=())
    words: dict[CoverageError, np.ndarray] = dict(scores.words)
    sides: dict[CoverageError, tuple[str, ...]] = {"omission": pair.source, "addition": pair.target}
    for error, side in sides.items():
        if error in least and error in sentence and (error in words or note == "empty_translation"):
            before = words.get(error, np.zeros(len(side)))
            words[error] = np.maximum(before, least[error])
    return replace(scores, sentence=sentence, words=words)
