"""Notes about sentences that are no ordinary translations: empty, copied, or in another language.

A detector is fitted to translations with ordinary words, so these cases have rules of their own. They hold
for every detector that finds the error.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from regard.alignment.base import MAX_LENGTH
from regard.alignment.corpus import UNKNOWN
from regard.extensions.check.base import CoverageError, PairScores, SentenceError, WordPair
from regard.text.words import is_alphabetic, normalize_word

if TYPE_CHECKING:
    from regard.extensions.check.model import ErrorModel

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
_LANGUAGE_PROBABILITY = 0.9


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
        words = model.words.aligner.words
        sides: tuple[Note, Note] = ("unknown_source", "unknown_translation")
        for note, known, folded_words in zip(sides, words, pair.folded, strict=True):
            numbers = known.numbers([word for word in folded_words if is_alphabetic(word)])
            if len(numbers) >= _MIN_WORDS and numbers.count(UNKNOWN) >= _UNKNOWN * len(numbers):
                return note
    return None


def _is_copy(pair: WordPair) -> bool:
    # Titles and lists of names are translated by copying them, and consist of capitalized words.
    source, target = (Counter(map(normalize_word, side)) for side in (pair.source, pair.target))
    ordinary = [word for word in pair.source if is_alphabetic(word) and word == word.casefold()]
    if len(ordinary) < _MIN_LOWERCASE:
        return False
    return (source & target).total() >= _COPIED * max(len(pair.source), len(pair.target))


def apply_note(note: Note | None, pair: WordPair, scores: PairScores) -> PairScores:
    """Return the scores of a pair with the probabilities that its note implies.

    An empty translation omits everything, a copied source is untranslated, and a sentence in another language
    is unrelated to the other sentence. A pair that is too long has no probable error.
    """
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
    elif note is not None:
        least = dict.fromkeys(("omission", "addition", "unrelated"), _LANGUAGE_PROBABILITY)
    sentence = {error: max(value, least.get(error, 0.0)) for error, value in scores.sentence.items()}
    words: dict[CoverageError, np.ndarray] = dict(scores.words)
    sides: dict[CoverageError, tuple[str, ...]] = {"omission": pair.source, "addition": pair.target}
    for error, side in sides.items():
        if error in least and error in sentence and (error in words or note == "empty_translation"):
            before = words.get(error, np.zeros(len(side)))
            words[error] = np.maximum(before, least[error])
    return replace(scores, sentence=sentence, words=words)
