"""An n-gram language model in backoff form, as ARPA files hold it.

    log p(w | h) = log_prob(h w)                     where the n-gram h w is known
                 = backoff(h) + log p(w | h')        else; h' is h without its first word, backoff(h) 0 where
                                                     h is unknown

The n-grams stand in a `Trie`. Each node knows its suffix, the longest known n-gram that its words end in
without its first, so a state is one integer: the longest known n-gram that may still matter to what follows.
All logarithms are to the base 10, as in ARPA files.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

from regard.data.checks import check_array, check_range
from regard.data.corpus import read_lines
from regard.data.reading import NotJson, parse_json
from regard.data.spacing import split_at_spaces
from regard.errors import DataError
from regard.smt.store import read_arrays, write_arrays
from regard.smt.trie import Trie

__all__ = ["BEGIN", "END", "UNKNOWN", "LanguageModel", "Perplexity", "Tables", "read_sentences", "score_word"]

UNKNOWN, BEGIN, END = 0, 1, 2
"""The numbers of `<unk>`, `<s>` and `</s>`."""
SPELLING = ("<unk>", "<s>", "</s>")


class Tables(NamedTuple):
    """A model as compiled loops read it.

    Attributes:
        first: See `Trie`.
        words: See `Trie`.
        log_probs: float32 [nodes].
        backoffs: float32 [nodes].
        suffixes: int64 [nodes]: the longest known n-gram each ends in, its first word at least left out.
        states: int64 [nodes]: the longest one, itself included, that another word may follow or whose backoff
            is not 0.
    """

    first: np.ndarray
    words: np.ndarray
    log_probs: np.ndarray
    backoffs: np.ndarray
    suffixes: np.ndarray
    states: np.ndarray


@dataclass(frozen=True)
class Perplexity:
    """How well a model predicts a text.

    Attributes:
        log_prob: The sum over all words and ends of sentences, to the base 10.
        words: How many words there are, unknown ones included.
        sentences: How many sentences.
        unknown: How many words the model does not know.
        unknown_log_prob: Their part of the sum.
    """

    log_prob: float
    words: int
    sentences: int
    unknown: int
    unknown_log_prob: float

    @property
    def with_unknown(self) -> float:
        """The perplexity of words and ends of sentences."""
        return 10 ** (-self.log_prob / (self.words + self.sentences))

    @property
    def without_unknown(self) -> float:
        """The same with unknown words left out of the sum and of the count."""
        known = self.words - self.unknown + self.sentences
        return 10 ** (-(self.log_prob - self.unknown_log_prob) / known)


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """An n-gram model.

    Attributes:
        spelling: Its words by their numbers, the first three `<unk>`, `<s>` and `</s>`.
        trie: Its n-grams.
        log_probs: float32 [nodes], log10 p(last word | the others); of `<s>` it has no meaning.
        backoffs: float32 [nodes], log10; 0 where nothing follows.
        suffixes: See `Tables`.
    """

    spelling: tuple[str, ...]
    trie: Trie
    log_probs: np.ndarray
    backoffs: np.ndarray
    suffixes: np.ndarray

    @property
    def order(self) -> int:
        """The most words of an n-gram."""
        return self.trie.order

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each word."""
        return {word: number for number, word in enumerate(self.spelling)}

    @cached_property
    def tables(self) -> Tables:
        """The model for compiled loops."""
        follows = np.diff(self.trie.first) > 0
        states = _states(follows | (self.backoffs != 0), self.suffixes)
        parts = self.trie.first, self.trie.words, self.log_probs, self.backoffs
        return Tables(*parts, self.suffixes, states)

    @cached_property
    def start(self) -> int:
        """The state at the start of a sentence."""
        return int(self.tables.states[1 + BEGIN])

    def ids(self, words: Iterable[str]) -> list[int]:
        """The number of each word; `<s>` and `</s>` in a text are unknown words."""
        numbers = self.numbers
        found = (numbers.get(word, UNKNOWN) for word in words)
        return [UNKNOWN if number in (BEGIN, END) else number for number in found]

    def score(self, words: Sequence[str], end: bool = True) -> list[float]:
        """Log10 of the probability of each word given all before it, and of the end of the sentence.

        Args:
            words: A sentence.
            end: Whether the end is scored too.
        """
        ids = np.array(self.ids(words) + ([END] if end else []), dtype=np.int64)
        return _score_all(self.tables, self.start, ids).tolist()

    def perplexity(self, sentences: Iterable[Sequence[str]]) -> Perplexity:
        """How well the model predicts sentences."""
        total = unknown_total = 0.0
        words = count = unknown = 0
        for sentence in sentences:
            ids = np.array([*self.ids(sentence), END], dtype=np.int64)
            scores = _score_all(self.tables, self.start, ids)
            strange = ids == UNKNOWN
            total += float(scores.sum())
            unknown_total += float(scores[strange].sum())
            unknown += int(strange.sum())
            words += len(ids) - 1
            count += 1
        return Perplexity(total, words, count, unknown, unknown_total)

    def save(self, folder: Path) -> None:
        """Write the model into a folder that exists, as arrays and a file of words.

        Raises:
            DataError: if it cannot be written.
        """
        arrays = {
            "first": self.trie.first,
            "words": self.trie.words,
            "levels": np.array(self.trie.levels),
            "log_probs": self.log_probs,
            "backoffs": self.backoffs,
            "suffixes": self.suffixes,
            "spelling": np.frombuffer(json.dumps(self.spelling).encode(), dtype=np.uint8),
        }
        write_arrays(folder, "language", arrays)

    @classmethod
    def load(cls, folder: Path) -> "LanguageModel":
        """Open what `save` wrote; the tables are memory-mapped.

        Raises:
            DataError: if a file is missing or broken; names it.
        """
        names = ("first", "words", "levels", "log_probs", "backoffs", "suffixes", "spelling")
        found = read_arrays(folder, "language", names)
        check_array("language.levels.npy", found["levels"], "int64", None)
        trie = Trie(tuple(found["levels"].tolist()), found["first"], found["words"])
        try:
            spelling = tuple(parse_json(found["spelling"].tobytes(), list[str]))
        except NotJson as error:
            raise DataError(f"{folder / 'language.spelling.npy'}: not a list of words: {error}") from None
        model = cls(spelling, trie, found["log_probs"], found["backoffs"], found["suffixes"])
        try:
            model.check()
        except DataError as error:
            raise DataError(f"{folder}: not a language model: language.{error}") from None
        return model

    def check(self) -> None:
        """Check what was read from a file: compiled loops follow its numbers wherever they point.

        Raises:
            DataError: if it is no model of its words; names the array.
        """
        self.trie.check(len(self.spelling))
        nodes = len(self.trie)
        if self.spelling[:3] != SPELLING or len(set(self.spelling)) != len(self.spelling):
            raise DataError(f"spelling: not {' '.join(SPELLING)} and then other words, each once")
        for name in ("log_probs", "backoffs"):
            check_array(name, getattr(self, name), "float32", nodes)
            check_range(name, getattr(self, name), -1e30, 1e30)
        check_array("suffixes", self.suffixes, "int64", nodes)
        # Each comes before the n-gram that it is the end of: so no loop goes on for ever.
        check_range("suffixes", self.suffixes, -1, nodes - 1)
        if (self.suffixes[1:] < 0).any() or (self.suffixes[1:] >= np.arange(1, nodes)).any():
            raise DataError("suffixes: one does not stand before what it is the end of")


def read_sentences(path: Path | str) -> Iterable[list[str]]:
    """The sentences of a text file, plain or gzip: words between blanks.

    Raises:
        DataError: if it cannot be read; see `regard.data.corpus.read_lines`.
    """
    return (split_at_spaces(line) for line in read_lines(path))


@njit(nogil=True, cache=True)
def score_word(tables, state, word):
    """Log10 p(word | state) and the state after it, as a node; `Tables.states` shortens that."""
    score = 0.0
    while True:
        low, high = tables.first[state], tables.first[state + 1]
        if state == 0:
            node = low + word
            return score + tables.log_probs[node], tables.states[node]
        end = high
        while low < high:
            middle = (low + high) >> 1
            if tables.words[middle] < word:
                low = middle + 1
            else:
                high = middle
        if low < end and tables.words[low] == word:
            return score + tables.log_probs[low], tables.states[low]
        score += tables.backoffs[state]
        state = tables.suffixes[state]


@njit(nogil=True, cache=True)
def _score_all(tables, state, ids):
    scores = np.empty(len(ids))
    for i in range(len(ids)):
        scores[i], state = score_word(tables, state, ids[i])
    return scores


@njit(nogil=True, cache=True)
def _states(matters, suffixes):
    """Suffixes stand before what they are suffixes of."""
    states = np.empty(len(matters), np.int64)
    states[0] = 0
    for node in range(1, len(matters)):
        states[node] = node if matters[node] else states[suffixes[node]]
    return states
