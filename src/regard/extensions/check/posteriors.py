"""The words of a text, the probabilities of their links by an aligner or an encoder, and link counts.

All arrays are flat, without one array per sentence pair, so that many pairs are processed at once.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
import regex
from jaxtyping import Bool, Float, Int

from regard.alignment import Corpus, WordAligner
from regard.alignment.corpus import UNKNOWN, Text, WordList
from regard.extensions.check.base import FoldedPair, WordPair
from regard.extensions.check.surface import MIN_PREFIX, num_characters
from regard.text.links import Links
from regard.text.words import fold_word, is_alphabetic, is_word

LINK_THRESHOLD = 0.3
"""Minimum geometric mean of both directions of a probable link."""
_MIN_LINK = 0.05
_TEMPERATURE = 0.05  # of cosines
_CLUSTER = regex.compile(r"\X")


@lru_cache(maxsize=200_000)
def stem(word: str, length: int) -> str:
    """Return the first characters of a word. A letter with its accents is one character."""
    # The digits of a number carry its meaning up to the last one.
    return fold_word("".join(_CLUSTER.findall(word)[:length])) if is_alphabetic(word) else word


@dataclass(frozen=True)
class TextWords:
    """The words of a text as numbers of distinct forms, so that most is computed once per form.

    Attributes:
        pairs: The words.
        folded: The words of both sides without differences of case and encoding.
        forms: The distinct ones of both sides, or their stems.
        numbers: For each side, the number of the form of each word.
        offsets: For each side, the start of each sentence among all words, and the end of the last one.
    """

    pairs: Sequence[WordPair]
    folded: Sequence[FoldedPair]
    forms: tuple[str, ...]
    numbers: tuple[Int[np.ndarray, "N"], Int[np.ndarray, "M"]]
    offsets: tuple[Int[np.ndarray, "P+1"], Int[np.ndarray, "P+1"]]

    @classmethod
    def of(cls, pairs: Sequence[WordPair]) -> Self:
        """Return the words of pairs."""
        index: defaultdict[str, int] = defaultdict()
        index.default_factory = index.__len__
        folded, numbers, offsets = [pair.folded for pair in pairs], [], []
        for side in zip(*folded, strict=True) if pairs else ((), ()):
            numbers.append(np.fromiter(map(index.__getitem__, chain.from_iterable(side)), dtype=np.int64))
            offsets.append(np.cumsum([0, *map(len, side)]))
        return cls(pairs, folded, tuple(index), (numbers[0], numbers[1]), (offsets[0], offsets[1]))

    def stems(self, length: int) -> Self:
        """Return the stems of the words."""
        index: dict[str, int] = {}
        stems = [index.setdefault(stem(form, length), len(index)) for form in self.forms]
        source, target = (np.array(stems, dtype=np.int64)[numbers] for numbers in self.numbers)
        return replace(self, forms=tuple(index), numbers=(source, target))

    @cached_property
    def is_word(self) -> Bool[np.ndarray, "V"]:
        """Whether each form is a word rather than a punctuation mark."""
        return np.array(list(map(is_word, self.forms)), dtype=bool)

    @cached_property
    def characters(self) -> Float[np.ndarray, "V"]:
        """Number of characters of each form."""
        return np.array(list(map(len, self.forms)), dtype=np.float32)

    @cached_property
    def beginnings(self) -> Int[np.ndarray, "V"]:
        """A number for the first characters of each form, which similar words share."""
        index: dict[str, int] = {}
        numbers = [index.setdefault(form[:MIN_PREFIX], len(index)) for form in self.forms]
        return np.array(numbers, dtype=np.int64)

    @cached_property
    def lengths(self) -> Int[np.ndarray, "P 2"]:
        """Numbers of characters of both sides of each pair."""
        return num_characters(self.pairs)

    @cached_property
    def num_repeated(self) -> Int[np.ndarray, "P"]:
        """Number of words of each translation that occur in it before."""
        lengths, size = np.diff(self.offsets[1]), max(len(self.forms), 1)
        # A number for each word that it shares with the same form in the same pair only.
        keys = np.sort(np.repeat(np.arange(len(lengths)) * size, lengths) + self.numbers[1])
        distinct = keys[np.flatnonzero(np.diff(keys, prepend=-1))]
        return lengths - np.bincount(distinct // size, minlength=len(lengths))

    def corpus(self, words: tuple[WordList, WordList]) -> Corpus:
        """Return the corpus in which words have the numbers of an aligner."""
        sides = []
        for known, numbers, offsets in zip(words, self.numbers, self.offsets, strict=True):
            tokens = np.array(known.numbers(self.forms), dtype=np.int32)[numbers]
            sides.append(Text(known, tokens, offsets[:-1], np.diff(offsets).astype(np.int32)))
        return Corpus(*sides)


@dataclass(frozen=True)
class TextPosteriors:
    """Link probabilities of all pairs of a text. A cell is a source word and a target word of the same pair.

    Attributes:
        words: The words.
        numbers: For each side, the numbers of all words in the vocabulary of the aligner.
        cells: Start of the cells of each pair, and the end of the last one. The source word varies slowest.
        forward: p(t -> s) of each cell: the target word is linked to the source word.
        backward: p(s -> t) of each cell: the source word is linked to the target word.
        similarity: Cosine of the embeddings of both sides of each pair, by an encoder; 1 if one is empty.
        word_similarity: For each side, the largest cosine of each word with a word of the other side.
    """

    words: TextWords
    numbers: tuple[Int[np.ndarray, "N"], Int[np.ndarray, "M"]]
    cells: Int[np.ndarray, "P+1"]
    forward: Float[np.ndarray, "K"]
    backward: Float[np.ndarray, "K"]
    similarity: Float[np.ndarray, "P"] | None = None
    word_similarity: tuple[Float[np.ndarray, "N"], Float[np.ndarray, "M"]] | None = None

    def links_above(self, minimum: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the links whose geometric mean of both directions exceeds a minimum.

        Returns:
            For each of them, the number of its pair, the positions of the source and of the target word among
            all words, and the geometric mean.
        """
        mutual, offsets = np.sqrt(self.forward * self.backward), self.words.offsets
        chosen = np.flatnonzero(mutual > minimum)
        pair = np.searchsorted(self.cells, chosen, side="right") - 1
        source, target = np.divmod(chosen - self.cells[pair], np.diff(offsets[1])[pair])
        return pair, offsets[0][pair] + source, offsets[1][pair] + target, mutual[chosen]

    def best_links(self) -> list[Links]:
        """Return for each pair the links that both directions find probable (geometric mean above 0.3)."""
        links_by_pair: list[set[tuple[int, int]]] = [set() for _ in self.words.pairs]
        pair, source, target, _ = self.links_above(LINK_THRESHOLD)
        offsets = self.words.offsets
        positions = (source - offsets[0][pair]).tolist(), (target - offsets[1][pair]).tolist()
        for row, i, j in zip(pair.tolist(), *positions, strict=True):
            links_by_pair[row].add((i, j))
        return [frozenset(links) for links in links_by_pair]


@dataclass(frozen=True)
class TextAligner:
    """A word aligner of texts.

    Attributes:
        aligner: The word aligner, of words or stems without case, with both directions.
        stem_length: Number of characters of each word that are compared; None compares whole words. Stems
            occur more often than words, so that less text suffices for their links.
    """

    aligner: WordAligner
    stem_length: int | None = None

    @property
    def vocabularies(self) -> tuple[WordList, WordList]:
        """The words or stems of both sides of the training text."""
        return self.aligner.words

    def posteriors(self, words: TextWords, num_threads: int = 0) -> TextPosteriors:
        """Return the link probabilities of a text.

        Args:
            words: The words. Empty sides are allowed, because an empty translation is an error to detect.
            num_threads: Number of threads; 0 uses all processors.
        """
        words = words if self.stem_length is None else words.stems(self.stem_length)
        corpus = words.corpus(self.aligner.words)
        forward, backward = (
            np.clip(self.aligner.cell_posteriors(corpus, direction, num_threads), 0, 1)
            for direction in ("forward", "backward")
        )
        numbers = corpus.source.tokens, corpus.target.tokens
        return TextPosteriors(words, numbers, corpus.layout().cells, forward, backward)


@dataclass(frozen=True)
class EncoderAligner:
    """A multilingual encoder, which links similar words of any language pair without a vocabulary.

    The probability of a link is a softmax over the words of the other side. Both directions together find
    the pairs of words that are each other's most similar ones (SimAlign, Jalili Sabet et al., 2020).

    Attributes:
        encoder: The hook `text_encoder`.
    """

    encoder: Any
    vocabularies: ClassVar[tuple[WordList, WordList]] = (WordList(()), WordList(()))

    def posteriors(self, words: TextWords, num_threads: int = 0) -> TextPosteriors:
        """Return the link probabilities and similarities of a text; the encoder has its number of threads."""
        # Several translations of a sentence, such as those with synthetic errors, need its embeddings once.
        distinct = {side: None for pair in words.pairs for side in (pair.source, pair.target)}
        vectors, texts = self.encoder.embed(list(distinct))
        ends = np.cumsum([*map(len, distinct)])
        place = {side: (row, slice(ends[row] - len(side), ends[row])) for row, side in enumerate(distinct)}
        corpus = words.corpus(self.vocabularies)
        cells, (source_offsets, target_offsets) = corpus.layout().cells, words.offsets
        forward, backward = np.zeros((2, cells[-1]), np.float32)
        largest = np.zeros(source_offsets[-1], np.float32), np.zeros(target_offsets[-1], np.float32)
        similarity = np.ones(len(words.pairs), np.float32)
        for row, pair in enumerate(words.pairs):
            (source, source_words), (target, target_words) = place[pair.source], place[pair.target]
            if pair.source and pair.target:
                similarity[row] = texts[source] @ texts[target]
                cosines = vectors[source_words] @ vectors[target_words].T
                inside = slice(cells[row], cells[row + 1])
                for axis, probability in enumerate((forward, backward)):
                    weights = np.exp((cosines - cosines.max(axis, keepdims=True)) / _TEMPERATURE)
                    probability[inside] = (weights / weights.sum(axis, keepdims=True)).ravel()
                largest[0][source_offsets[row] : source_offsets[row + 1]] = cosines.max(1)
                largest[1][target_offsets[row] : target_offsets[row + 1]] = cosines.max(0)
        numbers = corpus.source.tokens, corpus.target.tokens
        return TextPosteriors(words, numbers, cells, forward, backward, similarity, largest)


TextLinker = TextAligner | EncoderAligner
"""A source of link probabilities."""


@dataclass(frozen=True)
class LinkCounts:
    """How often words are linked in the training text.

    Attributes:
        keys: The linked word pairs in ascending order, as source number * size of the target vocabulary
            + target number.
        counts: Expected number of links of each of them.
        occurrences: For each side, the number of occurrences of each word.
    """

    keys: Int[np.ndarray, "L"]
    counts: Float[np.ndarray, "L"]
    occurrences: tuple[Float[np.ndarray, "V"], Float[np.ndarray, "W"]]

    @classmethod
    def estimate(cls, tables: Iterable[TextPosteriors], sizes: tuple[int, int]) -> Self:
        """Count the links of good translations.

        Args:
            tables: Their link probabilities.
            sizes: Sizes of the vocabularies.
        """
        occurrences = tuple(np.zeros(size) for size in sizes)
        keys, values = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        for table in tables:
            for total, numbers in zip(occurrences, table.numbers, strict=True):
                total += np.bincount(numbers[numbers != UNKNOWN], minlength=len(total))
            _, source, target, mutual = table.links_above(_MIN_LINK)
            first, second = table.numbers[0][source].astype(np.int64), table.numbers[1][target]
            known = (first != UNKNOWN) & (second != UNKNOWN)
            keys.append((first * sizes[1] + second)[known])
            values.append(mutual[known])
        distinct, inverse = np.unique(np.concatenate(keys), return_inverse=True)
        counts = np.bincount(inverse, weights=np.concatenate(values), minlength=len(distinct)).astype(float)
        return cls(distinct, counts, (occurrences[0], occurrences[1]))

    @cached_property
    def rows(self) -> Int[np.ndarray, "V+1"]:
        """The start of the keys of each source word, and the end of the last one."""
        numbers = np.arange(len(self.occurrences[0]) + 1, dtype=np.int64)
        return np.searchsorted(self.keys, numbers * len(self.occurrences[1]))
