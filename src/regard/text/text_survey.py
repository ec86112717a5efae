"""A survey of parallel text, from which the settings of a first run are chosen: pairs, lengths and scripts.

The text is read once. Memory holds a few numbers per pair.
"""

import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from regard.text.words import split_whitespace

ALL_CHARACTER_LINES, CHARACTER_STEP = 100_000, 16
"""Characters are counted in the first lines, and then in every 16th line."""
SMALL_TEXT_PAIRS = 5_000
"""Number of training pairs below which a warning predicts poor translations."""
MAX_SENTENCE_WORDS = 200
"""Number of words from which a line is probably not a sentence."""
CJK = frozenset({"CJK", "HIRAGANA", "KATAKANA"})
"""Scripts of Chinese and Japanese, which have no spaces between words."""


@dataclass(frozen=True)
class SideSurvey:
    """One side of a parallel text.

    Attributes:
        characters: The number of characters.
        max_words: The largest number of words of a line.
        long_characters: The number of characters that 99.9 % of the lines do not exceed.
        distinct_characters: The number of distinct characters of the examined lines.
        script: The dominant script of the letters, as `LATIN`; Japanese counts as `CJK`. Empty without
            letters.
    """

    characters: int
    max_words: int
    long_characters: int
    distinct_characters: int
    script: str


@dataclass(frozen=True)
class TextSurvey:
    """A parallel text.

    Attributes:
        pairs: The number of pairs.
        source: The source side.
        target: The target side.
        empty: The number of pairs with an empty side, which training drops.
        duplicates: The number of pairs that also occur earlier in the text.
        hashes: A hash value of each pair; equal pairs have equal values in one process.
    """

    pairs: int
    source: SideSurvey
    target: SideSurvey
    empty: int
    duplicates: int
    hashes: np.ndarray

    def describe(self, num_train: int, num_valid: int) -> tuple[str, ...]:
        """Return sentences about the text, which has these numbers of training and validation pairs."""
        sides = [
            f"{name}: {side.max_words} words in the longest line; letters: "
            f"{(side.script if side.script == 'CJK' else side.script.capitalize()) or 'none'}."
            for name, side in (("Source", self.source), ("Target", self.target))
        ]
        return (
            f"Text: {num_train:,} training pairs and {num_valid:,} validation pairs.",
            *sides,
            f"Pairs: {self.duplicates:,} repeated, {self.empty:,} with an empty side.",
        )

    def warnings(self, num_train: int, num_valid: int) -> tuple[str, ...]:
        """Return a sentence for each property of the text that may harm the translations.

        Args:
            num_train: The number of training pairs. Pairs of this text after them are validation pairs.
            num_valid: The number of validation pairs.
        """
        shared = int(np.isin(self.hashes[num_train:], self.hashes[:num_train]).sum())
        longest = max(self.source.max_words, self.target.max_words)
        repeated = self.duplicates / max(1, self.pairs)
        checks = {
            f"{num_train:,} training pairs are little text: expect poor translations of other sentences": (
                num_train < SMALL_TEXT_PAIRS
            ),
            f"{self.empty:,} pairs have an empty side and are dropped": self.empty > 0,
            f"{repeated:.0%} of the pairs are repetitions: remove them if they are not intended": (
                repeated > 0.1
            ),
            f"the longest line has {longest:,} words: lines should be sentences; training drops long ones": (
                longest > MAX_SENTENCE_WORDS
            ),
            f"{shared:,} of {num_valid:,} validation pairs are also in the training text, so that validation "
            "is too optimistic: give other text with --valid": shared > 0.05 * num_valid,
            "neither side has letters: are these the right files?": (
                not (self.source.script or self.target.script)
            ),
        }
        return tuple(text for text, applies in checks.items() if applies)


def survey_pairs(pairs: Iterable[tuple[str, str]]) -> TextSurvey:
    """Return a survey of sentence pairs, in the order of the lines."""
    words, lengths = (array("I"), array("I")), (array("I"), array("I"))
    characters: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    hashes = array("q")
    for number, pair in enumerate(pairs, 1):
        for side, line in enumerate(pair):
            words[side].append(len(split_whitespace(line)))
            lengths[side].append(len(line.strip()))
            if number <= ALL_CHARACTER_LINES or number % CHARACTER_STEP == 0:
                characters[side].update(line)
        hashes.append(hash((pair[0].strip(), pair[1].strip())))
    num_words, sizes, hashed = np.array(words), np.array(lengths, dtype=float), np.array(hashes)
    source, target = (_survey_side(*side) for side in zip(num_words, sizes, characters, strict=True))
    return TextSurvey(
        len(hashed),
        source,
        target,
        empty=int((num_words == 0).any(axis=0).sum()),
        duplicates=len(hashed) - len(np.unique(hashed)),
        hashes=hashed,
    )


def _survey_side(words: np.ndarray, lengths: np.ndarray, characters: Counter[str]) -> SideSurvey:
    scripts: Counter[str] = Counter()
    for character, count in characters.items():
        if character.isalpha():
            # The name of a letter begins with its script: LATIN SMALL LETTER A.
            scripts[unicodedata.name(character, "UNKNOWN").split()[0].partition("-")[0]] += count
    script = max(scripts, key=scripts.__getitem__, default="")
    return SideSurvey(
        characters=int(lengths.sum()),
        max_words=int(words.max(initial=0)),
        long_characters=int(np.quantile(lengths, 0.999)) if len(lengths) else 0,
        distinct_characters=sum(not character.isspace() for character in characters),
        script="CJK" if script in CJK else script,
    )
