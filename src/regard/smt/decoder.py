"""The phrase-based decoder: from source word ids to translations with features and word links."""

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
"""The target word id that stands for a copied source word."""


@dataclass(frozen=True)
class Beam:
    """The limits of the search.

    Attributes:
        stack: The maximum number of hypotheses that are extended per stack.
        threshold: The minimum probability of a hypothesis relative to the best one of its stack, in [0, 1].
            0 disables threshold pruning.
        limit: The maximum distance of a reordering jump in source words.
        options: The maximum number of translations that are tried per source phrase.
    """

    stack: int = 100
    threshold: float = 1e-5
    limit: int = 6
    options: int = 20


@dataclass(frozen=True)
class Piece:
    """One phrase pair of a translation.

    Attributes:
        start: The position of the first source word.
        end: The position after the last source word.
        words: The target word ids; a single `COPIED` if the phrase table has no translation.
        links: Word links as pairs of a source position in the sentence and a target position in the phrase.
    """

    start: int
    end: int
    words: tuple[int, ...]
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Found:
    """One translation.

    Attributes:
        pieces: The phrase pairs in target order.
        score: The weighted sum of the features.
        features: float64 [FEATURES], the features.
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
    """A phrase-based decoder.

    Attributes:
        table: The phrase table.
        model: The language model.
        language_ids: int64 [target words], the id of each target word in the language model.
        weights: float64 [FEATURES], the feature weights.
        lexicalised: Whether orientations are scored.
        beam: The limits of the search.
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
        """Return the best translations of each sentence, best first; an empty sentence has none.

        Args:
            sources: The word ids of each sentence. Unknown words have negative ids, equal for equal words.
            nbest: The maximum number of translations; all have different words.
            threads: The number of sentences that are translated in parallel; it does not affect the result.
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
        # See `Extracted.links` for the bit mask.
        links = (
            (start + i, j) for i in range(end - start) for j in range(len(words)) if mask >> (7 * i + j) & 1
        )
        return Piece(start, end, words, tuple(links))
