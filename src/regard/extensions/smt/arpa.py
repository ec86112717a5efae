r"""Reading and writing of language models in the ARPA format of SRILM, KenLM and Moses, plain or compressed.

\data\
    ngram 1=COUNT ...

\1-grams:
LOG10_PROBABILITY <tab> WORDS <tab> LOG10_BACKOFF (omitted if there is none)
...
\end\
"""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np

from regard.errors import DataError
from regard.extensions.smt.language_model import (
    END,
    MAX_ABS_LOG_PROB,
    SPECIAL_WORDS,
    UNKNOWN_WORD,
    UPPERCASE_UNKNOWN_WORD,
    NgramLanguageModel,
)
from regard.extensions.smt.trie import ABSENT, TrieBuilder
from regard.text.corpus import read_lines
from regard.text.files import open_atomic
from regard.text.words import ASCII_WHITESPACE, split_whitespace

__all__ = ["read_arpa", "write_arpa"]

_UNKNOWN_LOG_PROB = -100.0
"""The log10 probability of `<unk>` if a file has none, as in KenLM, Heafield (2011)."""


def write_arpa(model: NgramLanguageModel, path: Path) -> None:
    """Write a model; see `regard.text.files.open_atomic`.

    Raises:
        DataError: if the file cannot be written.
    """
    with open_atomic(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        _write(model, text)
        text.detach()


def _write(model: NgramLanguageModel, file: TextIO) -> None:
    trie, order = model.trie, model.order
    file.write("\\data\\\n")
    for length in range(1, order + 1):
        nodes = trie.nodes(length)
        file.write(f"ngram {length}={nodes.stop - nodes.start}\n")
    parents = trie.parents()
    texts: list[str] = []
    for length in range(1, order + 1):
        nodes, above = trie.nodes(length), trie.nodes(length - 1)
        last = [model.vocabulary[word] for word in trie.words[nodes].tolist()]
        if length == 1:
            texts = last
        else:
            # `texts` contains the n-grams of the previous order.
            rows = (parents[nodes] - above.start).tolist()
            texts = [f"{texts[row]} {word}" for row, word in zip(rows, last, strict=True)]
        file.write(f"\n\\{length}-grams:\n")
        numbers = model.log_probs[nodes].tolist()
        if length == order:
            file.writelines(f"{p:.7g}\t{text}\n" for p, text in zip(numbers, texts, strict=True))
        else:
            backoffs = model.backoffs[nodes].tolist()
            entries = zip(numbers, texts, backoffs, strict=True)
            file.writelines(f"{p:.7g}\t{text}\t{b:.7g}\n" for p, text, b in entries)
    file.write("\n\\end\\\n")


def read_arpa(path: Path | str) -> NgramLanguageModel:
    r"""Read a model; blank lines are ignored, and so is any text before the section `\data\`.

    `<UNK>` is another spelling of `<unk>`. Tabs and spaces are equivalent.

    Raises:
        DataError: if the file cannot be read, a section is missing or has another number of n-grams than the
            header declares, or a line is not an n-gram; the message gives the line.
    """
    return _ArpaParser(path).parse()


class _ArpaParser:
    """A parser of one ARPA file."""

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._lines = self._nonempty_lines(path)
        self._number = 0
        self._numbers = {word: number for number, word in enumerate(SPECIAL_WORDS)}
        self._trie = TrieBuilder(0)  # replaced when the vocabulary is known
        self._values = [np.zeros((1, 2))]
        self._suffixes = [np.array([0])]

    def _nonempty_lines(self, path: Path | str) -> Iterator[str]:
        for self._number, line in enumerate(read_lines(path), 1):
            if stripped := line.strip(ASCII_WHITESPACE):
                yield stripped

    def _error(self, message: str) -> DataError:
        return DataError(f"{self._path}: line {self._number}: {message}")

    def _next(self, expected: str) -> str:
        line = next(self._lines, None)
        if line is None:
            raise DataError(f"{self._path}: the file ends after line {self._number}; expected {expected}")
        return line

    def parse(self) -> NgramLanguageModel:
        """Parse the file and return the model."""
        counts, line = self._head()
        for length, count in enumerate(counts, 1):
            if line != f"\\{length}-grams:":
                raise self._error(f"{line[:60]!r}; expected the section \\{length}-grams:")
            line = self._section(length, count, length == len(counts))
        if line != "\\end\\":
            raise self._error(f"{line[:60]!r}; expected \\end\\")
        values = np.concatenate(self._values).astype(np.float32)
        suffixes = np.concatenate(self._suffixes)
        return NgramLanguageModel(
            tuple(self._numbers), self._trie.build(), values[:, 0], values[:, 1], suffixes
        )

    def _head(self) -> tuple[list[int], str]:
        """Parse the header; return the n-gram counts and the next line."""
        while self._next("the section \\data\\") != "\\data\\":
            pass
        counts: list[int] = []
        while (line := self._next("ngram counts")).startswith("ngram "):
            order, _, count = line.removeprefix("ngram ").partition("=")
            # No model has 10^15 n-grams, and Python raises an error for integers of thousands of digits.
            if order.strip() != str(len(counts) + 1) or not re.fullmatch(r"\s*[0-9]{1,15}\s*", count):
                raise self._error(f"{line!r}; expected 'ngram {len(counts) + 1}=COUNT'")
            counts.append(int(count))
        if not counts:
            raise self._error(f"{line!r}; expected 'ngram 1=COUNT'")
        return counts, line

    def _section(self, length: int, count: int, last: bool) -> str:
        """Parse one section and return the line after it."""
        flat: list[int] = []
        values: list[tuple[float, float]] = []
        places: list[int] = []
        while not (line := self._next(f"{count} {length}-grams")).startswith("\\"):
            # Words contain no white space, so tabs and spaces can be treated alike, as some tools mix them.
            fields = split_whitespace(line)
            words, backoff = fields[1 : length + 1], fields[length + 1 :]
            if len(words) != length or len(backoff) > 1:
                raise self._error(f"{line[:60]!r}; expected PROBABILITY, {length} words, BACKOFF")
            try:
                values.append((float(fields[0]), float(backoff[0]) if backoff and not last else 0.0))
            except ValueError:
                raise self._error(f"{line[:60]!r}; probability and backoff must be numbers") from None
            # The negated comparison also rejects NaN.
            if not all(abs(value) <= MAX_ABS_LOG_PROB for value in values[-1]):
                raise self._error(
                    f"{line[:60]!r}; probability and backoff must be finite, "
                    f"from {-MAX_ABS_LOG_PROB:g} to {MAX_ABS_LOG_PROB:g}"
                )
            if values[-1][0] > 0:
                raise self._error(f"the log10 probability {fields[0]} is above 0")
            if UPPERCASE_UNKNOWN_WORD in words:
                words = [
                    SPECIAL_WORDS[UNKNOWN_WORD] if word == UPPERCASE_UNKNOWN_WORD else word for word in words
                ]
            if length == 1:
                flat.append(self._numbers.setdefault(words[0], len(self._numbers)))
            else:
                try:
                    flat.extend([self._numbers[word] for word in words])
                except KeyError as error:
                    raise self._error(f"the word {error} is not among the 1-grams") from None
            places.append(self._number)
        if len(values) != count:
            raise self._error(
                f"the section before it has {len(values)} {length}-grams, but the header declares {count}"
            )
        rows = np.array(flat, dtype=np.int64).reshape(-1, length)
        if length == 1:
            self._unigrams(rows[:, 0], np.array(values), places)
        else:
            self._ngrams(rows, np.array(values).reshape(-1, 2), places)
        return line

    def _unigrams(self, words: np.ndarray, values: np.ndarray, places: list[int]) -> None:
        size = len(self._numbers)
        if END not in words:
            raise self._error(f"the 1-grams before it do not contain {SPECIAL_WORDS[END]}")
        self._check_duplicates(words, places)
        table = np.zeros((size, 2))
        # `<unk>` and `<s>` have a row even if the file has no 1-gram for them.
        table[:, 0] = _UNKNOWN_LOG_PROB
        table[words] = values
        self._values.append(table)
        self._suffixes.append(np.zeros(size, dtype=np.int64))
        self._trie = TrieBuilder(size)

    def _ngrams(self, rows: np.ndarray, values: np.ndarray, places: list[int]) -> None:
        length = rows.shape[1]
        parents = self._walk(rows[:, :-1])
        missing = np.flatnonzero(parents == ABSENT)
        if len(missing):
            self._number = places[missing[0]]
            raise self._error(f"its first {length - 1} words are not among the {length - 1}-grams")
        size = len(self._numbers)
        # Sections may be in any order, but the children of a node must be contiguous and sorted.
        keys = parents * size + rows[:, -1]
        self._check_duplicates(keys, places)
        order = np.argsort(keys)
        # The suffix is the longest n-gram that is left when words are removed from the front.
        suffixes = np.full(len(rows), ABSENT)
        for first in range(1, length):
            unresolved = suffixes == ABSENT
            suffixes[unresolved] = self._walk(rows[unresolved, first:])
        self._suffixes.append(suffixes[order])
        self._values.append(values[order])
        self._trie.add(parents[order], rows[order, -1])

    def _walk(self, rows: np.ndarray) -> np.ndarray:
        """Return the nodes of n-grams among those parsed so far."""
        nodes = 1 + rows[:, 0]
        if rows.shape[1] == 1:
            return nodes
        trie = self._trie.build()
        for column in range(1, rows.shape[1]):
            nodes = trie.find(nodes, rows[:, column])
        return nodes

    def _check_duplicates(self, keys: np.ndarray, places: list[int]) -> None:
        order = np.argsort(keys, kind="stable")
        duplicates = np.flatnonzero(keys[order][1:] == keys[order][:-1])
        if len(duplicates):
            row = order[duplicates[0] + 1]
            self._number = places[row]
            raise self._error(f"duplicate n-gram, first given in line {places[order[duplicates[0]]]}")
