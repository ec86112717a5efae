"""An n-gram language model in backoff form.

    log p(w | h) = log_prob(h w)                     if the model contains the n-gram h w
                 = backoff(h) + log p(w | h')        else, where h' is h without its first word, and
                                                     backoff(h) is 0 if the model does not contain h

The n-grams are stored in a `Trie`. Each node has a link to its suffix: the longest n-gram of the model that
is left when words are removed from the front. A state is therefore one integer, the longest n-gram that can
affect the probabilities of the following words. All logarithms are to the base 10, as in ARPA files.
"""

import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import save_file

from regard.config.results import Result, perplexity
from regard.errors import DataError
from regard.extensions.smt.trie import Trie, read_only
from regard.kernels.compilation import njit
from regard.text.array_files import check_arrays, load_arrays
from regard.text.files import open_atomic
from regard.text.reading import InvalidJsonError, checked_file, parse_json

UNKNOWN_WORD, BEGIN, END = 0, 1, 2
"""The ids of `<unk>`, `<s>` and `</s>`."""
SPECIAL_WORDS = ("<unk>", "<s>", "</s>")
MAX_ABS_LOG_PROB = 1e30
"""Maximum absolute value of a log-probability or backoff weight of a loaded model."""
_FILE = "language.safetensors"


class LanguageModelArrays(NamedTuple):
    """The arrays of a model, for compiled functions.

    Attributes:
        first: See `Trie.first_children`.
        words: See `Trie.words`.
        log_probs: float32 [nodes], the log10 probabilities.
        backoffs: float32 [nodes], the log10 backoff weights.
        suffixes: int64 [nodes], the longest n-gram of the model that is a proper suffix of each n-gram.
        states: int64 [nodes], the longest suffix, which may be the n-gram itself, that has a continuation or
            a backoff other than 0.
    """

    first: np.ndarray
    words: np.ndarray
    log_probs: np.ndarray
    backoffs: np.ndarray
    suffixes: np.ndarray
    states: np.ndarray


@dataclass(frozen=True)
class Perplexity:
    """The perplexity of a text under a model, per word or end of sentence.

    Attributes:
        log_prob: The log10 probability of all words and ends of sentences.
        num_words: The number of words, including unknown words.
        num_sentences: The number of sentences.
        num_unknown: The number of words that are not in the model's vocabulary.
        unknown_log_prob: The log10 probability of the unknown words.
        with_unknown: The perplexity of all words.
        without_unknown: The perplexity without unknown words.
    """

    log_prob: float
    num_words: int
    num_sentences: int
    num_unknown: int
    unknown_log_prob: float
    with_unknown: float
    without_unknown: float


@dataclass(frozen=True, repr=False)
class LanguageModelSummary(Result):
    """The size of a language model, and its perplexity on a text.

    Attributes:
        order: The maximum length of an n-gram.
        ngrams: The number of n-grams of each length, in ascending order of the length.
        perplexity: The perplexity of a text. None without a text.
    """

    schema = "language_model"
    order: int
    ngrams: tuple[int, ...]
    perplexity: Perplexity | None = None


@dataclass(frozen=True, eq=False)
class NgramLanguageModel:
    """An n-gram language model.

    Attributes:
        vocabulary: The vocabulary; the index of a word is its id. It starts with `<unk>`, `<s>` and `</s>`.
        trie: The n-grams.
        log_probs: float32 [nodes], log10 p(last word | previous words); meaningless for `<s>`.
        backoffs: float32 [nodes], log10 of the backoff weight; 0 for n-grams without continuations.
        suffixes: See `LanguageModelArrays`.
    """

    vocabulary: tuple[str, ...]
    trie: Trie
    log_probs: np.ndarray
    backoffs: np.ndarray
    suffixes: np.ndarray

    @cached_property
    def arrays(self) -> LanguageModelArrays:
        """The arrays of the model for compiled functions."""
        follows = np.diff(self.trie.first_children) > 0
        # An n-gram without continuations and backoff gives the same scores as its suffix. States that are
        # shortened are equal more often, so that the decoder can recombine more hypotheses.
        states = _states(follows | (self.backoffs != 0), read_only(self.suffixes))
        parts = self.trie.first_children, self.trie.words, self.log_probs, self.backoffs
        return LanguageModelArrays(*map(read_only, (*parts, self.suffixes, states)))

    @cached_property
    def _word_ids(self) -> dict[str, int]:
        # A text that contains the spelling of a boundary must not end or start a sentence.
        return {word: number for number, word in enumerate(self.vocabulary) if number not in (BEGIN, END)}

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the id of each word; `<s>` and `</s>` in a text are unknown words."""
        return [self._word_ids.get(word, UNKNOWN_WORD) for word in words]

    def score(self, words: Iterable[str]) -> list[float]:
        """Return the log10 probability of each word and of the end of a sentence, given its history."""
        ids = np.array([*self.ids(words), END], dtype=np.int64)
        return _score_all(self.arrays, ids).tolist()

    def perplexity(self, sentences: Iterable[Sequence[str]]) -> Perplexity:
        """Compute the perplexity of sentences."""
        total = unknown_total = 0.0
        words = count = unknown = 0
        for sentence in sentences:
            ids = np.array([*self.ids(sentence), END], dtype=np.int64)
            scores = _score_all(self.arrays, ids)
            is_unknown = ids == UNKNOWN_WORD
            total += float(scores.sum())
            unknown_total += float(scores[is_unknown].sum())
            unknown += int(is_unknown.sum())
            words += len(ids) - 1
            count += 1

        events = words + count
        whole, known = (
            perplexity(-log_prob * math.log(10) / num_events) if num_events else math.nan
            for log_prob, num_events in ((total, events), (total - unknown_total, events - unknown))
        )
        return Perplexity(total, words, count, unknown, unknown_total, whole, known)

    def write_arpa(self, path: Path) -> None:
        """Write the model in the ARPA format of SRILM, KenLM and Moses; see `regard.text.files.open_atomic`.

        Raises:
            DataError: if the file cannot be written.
        """
        trie = self.trie
        with open_atomic(path) as binary:
            file = io.TextIOWrapper(binary, encoding="utf-8", newline="\n")
            file.write("\\data\\\n")
            for length, (start, end) in enumerate(pairwise(trie.levels[1:]), 1):
                file.write(f"ngram {length}={end - start}\n")
            parents = trie.parents()
            texts = [""]  # the n-grams of the previous order
            for length in range(1, self.trie.order + 1):
                nodes = trie.nodes(length)
                last = [self.vocabulary[word] for word in trie.words[nodes].tolist()]
                rows = (parents[nodes] - trie.levels[length - 1]).tolist()
                texts = [f"{texts[row]} {word}".lstrip(" ") for row, word in zip(rows, last, strict=True)]
                file.write(f"\n\\{length}-grams:\n")
                entries = zip(self.log_probs[nodes], texts, self.backoffs[nodes], strict=True)
                for log_prob, text, backoff in entries:
                    # N-grams of the highest order have no backoff.
                    end = "" if length == self.trie.order else f"\t{backoff:.7g}"
                    file.write(f"{log_prob:.7g}\t{text}{end}\n")
            file.write("\n\\end\\\n")
            file.detach()

    def save(self, directory: Path) -> None:
        """Write the model to `language.safetensors` in an existing directory."""
        arrays = {
            **self.trie.to_arrays(),
            "log_probs": self.log_probs,
            "backoffs": self.backoffs,
            "suffixes": self.suffixes,
            "vocabulary": np.frombuffer(json.dumps(self.vocabulary).encode(), dtype=np.uint8),
        }
        save_file(arrays, directory / _FILE)

    @classmethod
    def load(cls, directory: Path) -> "NgramLanguageModel":
        """Load a model that `save` wrote.

        Raises:
            DataError: if the file is missing or damaged; the message names it.
        """
        path = checked_file(directory, _FILE)
        arrays = load_arrays(path)
        try:
            trie = Trie.pop_from(arrays)
            words = arrays.pop("vocabulary", np.empty(0))
            model = cls(tuple(parse_json(words.tobytes(), list[str])), trie, **arrays)
            model.check()
        except (DataError, InvalidJsonError, TypeError) as error:
            raise DataError(f"{path}: not a language model: {error}") from None
        return model

    def check(self) -> None:
        """Check the arrays of a loaded model, because compiled functions use them as indices without checks.

        Raises:
            DataError: if an array is inconsistent; the message names it.
        """
        self.trie.check(len(self.vocabulary))
        nodes = len(self.trie)
        if self.vocabulary[:3] != SPECIAL_WORDS or len(set(self.vocabulary)) != len(self.vocabulary):
            raise DataError(
                f"vocabulary: expected {' '.join(SPECIAL_WORDS)} followed by other, distinct words"
            )
        log_prob_form = "float32", -MAX_ABS_LOG_PROB, MAX_ABS_LOG_PROB, nodes
        forms = {
            "log_probs": log_prob_form,
            "backoffs": log_prob_form,
            "suffixes": ("int64", -1, nodes - 1, nodes),
        }
        check_arrays({name: getattr(self, name) for name in forms}, forms)
        # A suffix precedes its n-gram, so that following suffixes always terminates.
        if (self.suffixes[1:] < 0).any() or (self.suffixes[1:] >= np.arange(1, nodes)).any():
            raise DataError("suffixes: a suffix does not precede its n-gram")


@njit(nogil=True, cache=True)
def score_word(tables, state, word):
    """Return log10 p(word | state) and the next state.

    A state is a node of the trie, shortened by `LanguageModelArrays.states`.
    """
    score = 0.0
    # The search of `find_child` is repeated here, because a call of it makes decoding 1.7 times as slow.
    while True:
        low, high = tables.first[state], tables.first[state + 1]
        # The empty n-gram has a child for every word, in the order of the ids.
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
def _score_all(tables, ids):
    scores, state = np.empty(len(ids)), tables.states[1 + BEGIN]
    for i in range(len(ids)):
        scores[i], state = score_word(tables, state, ids[i])
    return scores


@njit(nogil=True, cache=True)
def _states(matters, suffixes):
    """Compute `LanguageModelArrays.states` in one pass, because the suffix of a node precedes it."""
    states = np.empty(len(matters), np.int64)
    states[0] = 0
    for node in range(1, len(matters)):
        states[node] = node if matters[node] else states[suffixes[node]]
    return states
