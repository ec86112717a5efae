"""From sentences in numbers to their best translations in numbers, with features and links."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.alignment.threads import run
from regard.smt.language_model import LanguageModel
from regard.smt.nbest import best_paths, path_features
from regard.smt.options import Phrases, collect, future_costs
from regard.smt.phrase_table import PhraseTable
from regard.smt.stacks import search

__all__ = ["COPIED", "Beam", "Decoder", "Found", "Piece"]

COPIED = -1
"""The target word of a source word that is copied as it stands."""


@dataclass(frozen=True)
class Beam:
    """How much is searched.

    Attributes:
        stack: Hypotheses of each stack that are extended.
        threshold: How much less likely than the best of its stack one may be; 0: any amount.
        limit: How many source words a phrase may jump over.
        options: Translations of a source phrase that are tried.
    """

    stack: int = 100
    threshold: float = 1e-5
    limit: int = 6
    options: int = 20


@dataclass(frozen=True)
class Piece:
    """One phrase of a translation.

    Attributes:
        start: The first source word.
        end: The source word after the last.
        words: The target words; one `COPIED` where the table has none.
        links: Which source word, counted in the sentence, is linked to which target word, counted in the
            phrase.
    """

    start: int
    end: int
    words: tuple[int, ...]
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Found:
    """One translation.

    Attributes:
        pieces: Its phrases in the order of the target.
        score: The weighted sum of its features.
        features: float64 [FEATURES].
    """

    pieces: tuple[Piece, ...]
    score: float
    features: np.ndarray

    @property
    def words(self) -> tuple[int, ...]:
        """The target words."""
        return tuple(word for piece in self.pieces for word in piece.words)


@dataclass(frozen=True, eq=False)
class Decoder:
    """A phrase table, a language model and what they weigh.

    Attributes:
        table: The phrase table.
        model: The language model.
        language_ids: int64: the language model's number of each target word.
        weights: float64 [FEATURES].
        lexicalised: Whether orientations are scored.
        beam: How much is searched.
    """

    table: PhraseTable
    model: LanguageModel
    language_ids: np.ndarray
    weights: np.ndarray
    lexicalised: bool
    beam: Beam

    @cached_property
    def _phrases(self) -> Phrases:
        table = self.table
        parts = (getattr(table, name) for name in Phrases._fields[2:])
        return Phrases(table.trie.first, table.trie.words, *parts)

    def translate(
        self, sources: Sequence[Sequence[int]], nbest: int = 1, threads: int = 1
    ) -> list[list[Found]]:
        """The best translations of sentences, the best first; an empty sentence has none.

        Args:
            sources: Words by their numbers; those of unknown ones are negative, and the same for the same.
            nbest: How many, at most; no two have the same words.
            threads: How many sentences are searched at a time; the translations do not depend on it.
        """
        calls = [(np.array(source, dtype=np.int64), nbest) for source in sources]
        return run(self._one, calls, threads)

    def _one(self, source: np.ndarray, nbest: int) -> list[Found]:
        if not len(source):
            return []
        beam, tables, phrases = self.beam, self.model.tables, self._phrases
        longest = self.table.trie.order
        settings = longest, beam.options, self.lexicalised
        options = collect(source, phrases, tables, self.language_ids, self.weights, *settings)
        width = -np.log(beam.threshold) if beam.threshold else np.inf
        begin = self.model.start
        rows = search(
            options,
            future_costs(options),
            tables,
            begin,
            self.weights,
            beam.limit,
            beam.stack,
            float(width),
        )
        paths, lengths, scores = best_paths(rows, options, source, nbest)
        found = []
        for path, length, score in zip(paths, lengths.tolist(), scores.tolist(), strict=True):
            chosen = path[:length]
            features = path_features(chosen, options, phrases, tables, begin, self.lexicalised)
            bounds, entries = options.bounds[chosen].tolist(), options.entries[chosen].tolist()
            spans = zip(bounds, entries, strict=True)
            pieces = (self._piece(start, end, entry) for (start, end), entry in spans)
            found.append(Found(tuple(pieces), score, features))
        return found

    def _piece(self, start: int, end: int, entry: int) -> Piece:
        if entry < 0:
            return Piece(start, end, (COPIED,), ((start, 0),))
        words, mask = tuple(self.table.target(entry).tolist()), int(self.table.links[entry])
        links = (
            (start + i, j) for i in range(end - start) for j in range(len(words)) if mask >> (7 * i + j) & 1
        )
        return Piece(start, end, words, tuple(links))
