"""Reading and writing of phrase tables as text in a format similar to that of Moses.

Each line contains one phrase pair:

    source words ||| target words ||| p(t|s) lex(t|s) p(s|t) lex(s|t) ||| 0-0 1-1 ||| 6 orientations

Scores are probabilities. Links are pairs of a source and a target position in the phrases, from 0. The last
field contains the probabilities of monotone, swap and discontinuous, first backward, then forward; if it is
missing, each probability is 1/3. (Moses writes p(s|t) first, and orientations to a separate file.)
"""

import math
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.alignment.corpus import WordList
from regard.errors import DataError
from regard.extensions.smt.extraction import MAX_PHRASE_LENGTH, PhraseList
from regard.extensions.smt.phrase_table import PhraseTable, UnsortedPairs, build_phrase_table
from regard.text.corpus import read_lines
from regard.text.files import write_atomic
from regard.text.links import parse_links
from regard.text.whitespace import ASCII_WHITESPACE, split_whitespace

__all__ = ["read_phrase_table", "write_phrase_table"]

SEPARATOR = "|||"
_FIELDS = (4, 5)


def write_phrase_table(table: PhraseTable, source: Sequence[str], target: Sequence[str], path: Path) -> None:
    """Write a phrase table; see `regard.text.files.open_atomic`.

    Args:
        table: The phrase table.
        source: The source vocabulary; the index of a word is its id.
        target: The target vocabulary.
        path: The file.

    Raises:
        DataError: if the file cannot be written, or a word contains the field separator.
    """
    for words in (source, target):
        if invalid := next((word for word in words if SEPARATOR in word), None):
            raise DataError(f"{path}: the word {invalid!r} contains {SEPARATOR}, which separates the fields")
    lines: list[str] = []
    parents, trie = table.trie.parents(), table.trie
    phrases = [""] * len(trie)
    scores, reordering = np.exp(table.scores), np.exp(table.reordering)
    for node in range(1, len(trie)):
        word = source[int(trie.words[node])]
        above = phrases[int(parents[node])]
        phrases[node] = f"{above} {word}" if above else word
        for entry in range(int(table.entries[node]), int(table.entries[node + 1])):
            words = [target[int(number)] for number in table.target(entry)]
            mask = int(table.links[entry])
            links = [
                f"{k // MAX_PHRASE_LENGTH}-{k % MAX_PHRASE_LENGTH}"
                for k in range(MAX_PHRASE_LENGTH**2)
                if mask >> k & 1
            ]
            fields = (
                phrases[node],
                " ".join(words),
                " ".join(f"{value:.6g}" for value in scores[entry]),
                " ".join(links),
                " ".join(f"{value:.6g}" for value in reordering[entry]),
            )
            lines.append(f" {SEPARATOR} ".join(fields) + "\n")
    write_atomic(path, "".join(lines).encode())


def read_phrase_table(path: Path | str, source: WordList, target: WordList) -> PhraseTable:
    """Read a phrase table.

    Args:
        path: The file.
        source: The source vocabulary.
        target: The target vocabulary.

    Raises:
        DataError: if the file cannot be read or contains no pair, or a line has the wrong number of fields or
            scores, phrases that are empty or too long, words that are not in the vocabulary, or links beyond
            its words; the message gives the line.
    """
    sides = _Phrases(source, "source"), _Phrases(target, "target")
    rows: tuple[array[int], array[int]] = array("q"), array("q")
    scores: list[list[float]] = []
    orientations: list[list[float]] = []
    masks = array("q")
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}:{number}"
        fields = [field.strip(ASCII_WHITESPACE) for field in line.split(SEPARATOR)]
        if len(fields) not in _FIELDS:
            raise DataError(
                f"{where}: {len(fields)} fields; expected SOURCE ||| TARGET ||| SCORES ||| LINKS, "
                "optionally followed by ||| ORIENTATIONS"
            )
        lengths = [side.add(field, row, where) for side, field, row in zip(sides, fields, rows, strict=False)]
        scores.append(_parse_log_probs(fields[2], 4, "scores", where))
        orientations.append(
            _parse_log_probs(fields[4], 6, "orientations", where)
            if len(fields) > 4
            else [math.log(1 / 3)] * 6
        )
        mask = 0
        for i, j in parse_links(fields[3], where):
            if i >= lengths[0] or j >= lengths[1]:
                raise DataError(f"{where}: link {i}-{j} points beyond the phrases")
            mask |= 1 << (MAX_PHRASE_LENGTH * i + j)
        masks.append(mask)
    pairs = UnsortedPairs(
        sides[0].phrases(),
        sides[1].phrases(),
        (np.array(rows[0]), np.array(rows[1])),
        np.array(scores),
        np.array(masks),
        np.array(orientations),
    )
    return build_phrase_table(pairs, len(source))


class _Phrases:
    """The distinct phrases of one side, in the order of the file."""

    def __init__(self, words: WordList, name: str) -> None:
        self._words, self._name = words, name
        self._rows: dict[str, int] = {}
        self._flat, self._lengths = array("q"), array("q")

    def add(self, text: str, rows: "array[int]", where: str) -> int:
        """Add the phrase of a line and return its number of words."""
        tokens = split_whitespace(text)
        if not 0 < len(tokens) <= MAX_PHRASE_LENGTH:
            raise DataError(
                f"{where}: a {self._name} phrase of {len(tokens)} words; expected 1 to {MAX_PHRASE_LENGTH}"
            )
        # A phrase occurs on many lines, but its words are looked up only once.
        row = self._rows.setdefault(text, len(self._rows))
        if row == len(self._lengths):
            numbers = self._words.numbers(tokens)
            if min(numbers) < 0:
                word = tokens[numbers.index(min(numbers))]
                raise DataError(f"{where}: the {self._name} word {word!r} is not in the vocabulary")
            self._flat.extend(numbers)
            self._lengths.append(len(tokens))
        rows.append(row)
        return len(tokens)

    def phrases(self) -> PhraseList:
        """Return the distinct phrases."""
        offsets = np.concatenate([[0], np.cumsum(np.array(self._lengths, dtype=np.int64))])
        return PhraseList(np.array(self._flat, dtype=np.int64), offsets.astype(np.int64))


def _parse_log_probs(text: str, count: int, name: str, where: str) -> list[float]:
    """Parse probabilities and return their logarithms."""
    try:
        values = [float(field) for field in split_whitespace(text)]
    except ValueError:
        raise DataError(f"{where}: {text[:60]!r}: {name} must be numbers") from None
    if len(values) != count:
        raise DataError(f"{where}: {len(values)} {name}, expected {count}")
    if not all(0 < value <= 1 for value in values):
        raise DataError(f"{where}: {text[:60]!r}: {name} must be probabilities, above 0 and at most 1")
    return [math.log(value) for value in values]
