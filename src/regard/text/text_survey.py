"""A survey of parallel text: lines, lengths, scripts, and pairs that are probably not translations.

The text is read once. Memory holds a few numbers per pair.
"""

import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from regard.text.whitespace import split_whitespace

__all__ = ["SideSurvey", "TextSurvey", "survey_pairs"]

MAX_EXAMPLES = 3
"""Number of lines that are listed for each finding."""
_MAX_LENGTH_RATIO = 3.0
"""Factor by which the ratio of the lengths of a suspicious pair differs from that of the whole text."""
MIN_RATIO_CHARACTERS = 20
"""Number of characters of the longer side from which the ratio of a pair is examined."""
ALL_CHARACTER_LINES, CHARACTER_STEP = 100_000, 16
"""Characters are counted in the first lines, and then in every 16th line."""
_FEW_PAIRS = 5_000
"""Number of training pairs below which a warning predicts poor translations."""
_MAX_WORDS = 200
"""Number of words from which a line is probably not a sentence."""
CJK = frozenset({"CJK", "HIRAGANA", "KATAKANA"})
"""Scripts of Chinese and Japanese, which have no spaces between words."""


@dataclass(frozen=True)
class SideSurvey:
    """One side of a parallel text.

    Attributes:
        words: The number of words, separated by white space.
        characters: The number of characters.
        median_words: The median number of words of a nonempty line.
        max_words: The largest number of words of a line.
        long_characters: The number of characters that 99.9 % of the lines do not exceed.
        distinct_characters: The number of distinct characters of the examined lines.
        scripts: The share of the letters of each script, by its name in Unicode, in decreasing order.
    """

    words: int
    characters: int
    median_words: int
    max_words: int
    long_characters: int
    distinct_characters: int
    scripts: Mapping[str, float]

    @property
    def script(self) -> str:
        """The script with the highest share, as `LATIN`; Japanese counts as `CJK`; empty without letters."""
        top_script = next(iter(self.scripts), "")
        return "CJK" if top_script in CJK else top_script

    def describe(self) -> str:
        """Return a description of the lengths and the scripts."""
        scripts = ", ".join(
            f"{name.capitalize() if name != 'CJK' else name} {share:.0%}"
            for name, share in self.scripts.items()
            if share >= 0.01
        )
        return (
            f"{self.words:,} words, {self.median_words} in a typical line and {self.max_words} in the "
            f"longest; letters: {scripts or 'none'}"
        )


@dataclass(frozen=True)
class TextSurvey:
    """A parallel text. Line numbers count from 1; at most three are listed per finding.

    Attributes:
        pairs: The number of pairs.
        source: The source side.
        target: The target side.
        empty: The number of pairs with an empty side, which training drops.
        duplicates: The number of pairs that also occur earlier in the text.
        untranslated: The number of nonempty pairs whose sides are equal.
        suspicious: The number of pairs in which one side is three times longer than usual.
        examples: Line numbers of `empty`, `untranslated` and `suspicious`.
        hashes: A hash value of each pair; equal pairs have equal values in one process.
    """

    pairs: int
    source: SideSurvey
    target: SideSurvey
    empty: int
    duplicates: int
    untranslated: int
    suspicious: int
    examples: Mapping[str, tuple[int, ...]]
    hashes: np.ndarray

    def count_shared(self, start: int) -> int:
        """Return the number of pairs from index `start` on that also occur before it."""
        return int(np.isin(self.hashes[start:], self.hashes[:start]).sum())

    def describe(self, num_train: int, num_valid: int) -> tuple[str, ...]:
        """Return sentences about the text, which has these numbers of training and validation pairs."""
        return (
            f"Text: {num_train:,} training pairs and {num_valid:,} validation pairs.",
            f"Source: {self.source.describe()}.",
            f"Target: {self.target.describe()}.",
            f"Pairs: {self.duplicates:,} repeated, {self.empty:,} with an empty side, "
            f"{self.untranslated:,} equal on both sides, {self.suspicious:,} of suspicious lengths.",
        )

    def warnings(self, num_train: int, num_valid: int, shared: int, name: str) -> tuple[str, ...]:
        """Return a sentence for each property of the text that may harm the translations.

        Args:
            num_train: The number of training pairs.
            num_valid: The number of validation pairs.
            shared: The number of validation pairs that are also training pairs.
            name: The name of the source text.
        """
        where = {
            name: f" (lines {', '.join(map(str, lines))}{'...' if len(lines) == 3 else ''} of {name})"
            for name, lines in self.examples.items()
        }
        longest = max(self.source.max_words, self.target.max_words)
        checks = [
            (
                num_train < _FEW_PAIRS,
                f"{num_train:,} training pairs are little text: expect poor translations of other sentences",
            ),
            (self.empty > 0, f"{self.empty:,} pairs have an empty side and are dropped{where['empty']}"),
            (
                self.duplicates > 0.1 * self.pairs,
                f"{self.duplicates / self.pairs:.0%} of the pairs are repetitions: remove them if they "
                "are not intended",
            ),
            (
                self.untranslated > 0.01 * self.pairs,
                f"{self.untranslated:,} pairs are equal on both sides and may be untranslated; the model "
                f"learns to copy{where['untranslated']}",
            ),
            (
                self.suspicious > 0.005 * self.pairs,
                f"{self.suspicious:,} pairs have suspicious lengths and may not be translations of each other"
                f"{where['suspicious']}",
            ),
            (
                longest > _MAX_WORDS,
                f"the longest line has {longest:,} words: lines should be sentences; training drops long "
                "ones",
            ),
            (
                shared > 0.05 * num_valid,
                f"{shared:,} of {num_valid:,} validation pairs are also in the training text, so that "
                "validation is too optimistic: give other text with --valid",
            ),
            (
                not (self.source.scripts or self.target.scripts),
                "neither side has letters: are these the right files?",
            ),
        ]
        return tuple(text for applies, text in checks if applies)


class _Side:
    """The numbers of one side during reading."""

    def __init__(self) -> None:
        self.words, self.lengths = array("I"), array("I")
        self.characters: Counter[str] = Counter()

    def add(self, line: str, examine: bool) -> None:
        self.words.append(len(split_whitespace(line)))
        self.lengths.append(len(line.strip()))
        if examine:
            self.characters.update(line)

    def survey(self) -> SideSurvey:
        words, lengths = np.array(self.words), np.array(self.lengths)
        nonempty = words > 0
        return SideSurvey(
            int(words.sum()),
            int(lengths.sum()),
            int(np.median(words[nonempty])) if nonempty.any() else 0,
            int(words.max(initial=0)),
            int(np.quantile(lengths, 0.999)) if len(lengths) else 0,
            sum(not character.isspace() for character in self.characters),
            _scripts(self.characters),
        )


def _scripts(characters: Mapping[str, int]) -> dict[str, float]:
    """Return the share of the letters of each script, in decreasing order."""
    counts: Counter[str] = Counter()
    for character, count in characters.items():
        if character.isalpha():
            # The name of a letter begins with its script: LATIN SMALL LETTER A.
            counts[unicodedata.name(character, "UNKNOWN").split()[0].partition("-")[0]] += count
    total = max(1, counts.total())
    return {name: count / total for name, count in counts.most_common()}


def survey_pairs(pairs: Iterable[tuple[str, str]]) -> TextSurvey:
    """Return a survey of sentence pairs.

    Args:
        pairs: The pairs in the order of the lines.
    """
    sides, hashes = (_Side(), _Side()), array("q")
    equal = array("I")
    for number, (source, target) in enumerate(pairs, 1):
        examine = number <= ALL_CHARACTER_LINES or number % CHARACTER_STEP == 0
        for side, line in zip(sides, (source, target), strict=True):
            side.add(line, examine)
        source, target = source.strip(), target.strip()
        hashes.append(hash((source, target)))
        if source == target and any(character.isalpha() for character in source):
            equal.append(number)
    words = [np.array(side.words) for side in sides]
    lengths = [np.array(side.lengths, dtype=float) for side in sides]
    empty = np.flatnonzero((words[0] == 0) | (words[1] == 0)) + 1
    suspicious = _suspicious(*lengths)
    line_numbers = {"empty": empty, "untranslated": np.array(equal), "suspicious": suspicious}
    hashed = np.array(hashes)
    return TextSurvey(
        len(hashed),
        sides[0].survey(),
        sides[1].survey(),
        len(empty),
        len(hashed) - len(np.unique(hashed)),
        len(equal),
        len(suspicious),
        {name: tuple(int(line) for line in lines[:MAX_EXAMPLES]) for name, lines in line_numbers.items()},
        hashed,
    )


def _suspicious(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the numbers of the lines whose ratio of lengths is unusual, without pairs with an empty side."""
    nonempty = (source > 0) & (target > 0)
    if not nonempty.any():
        return np.empty(0, dtype=int)
    usual = np.median(target[nonempty] / source[nonempty])
    ratio = np.divide(target, source * usual, out=np.ones_like(target), where=nonempty)
    unusual = (ratio > _MAX_LENGTH_RATIO) | (ratio < 1 / _MAX_LENGTH_RATIO)
    return np.flatnonzero(unusual & (np.maximum(source, target) >= MIN_RATIO_CHARACTERS)) + 1
