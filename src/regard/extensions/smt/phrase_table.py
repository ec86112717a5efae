"""The phrase table: source phrases with their translations and scores, Koehn et al. (2003), Section 2.

    scores      log p(t | s), log lex(t | s), log p(s | t), log lex(s | t), in nats
    reordering  log p(orientation | s, t): monotone, swap, discontinuous, first backward, then forward

Phrase probabilities are relative frequencies, by default with modified Kneser-Ney smoothing, Foster et al.
(2006), because most phrase pairs occur once and their relative frequency of 1 is a poor estimate.
Orientations are smoothed with the distribution of the whole text, Koehn et al. (2005).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from safetensors.numpy import save_file

from regard.alignment.corpus import Corpus
from regard.alignment.symmetrize import LinkTable
from regard.errors import DataError
from regard.extensions.smt.extraction import (
    PhraseList,
    PhraseOccurrences,
    estimate_lexical_table,
    extract_phrases,
    lexical_weights,
)
from regard.extensions.smt.kneser_ney import compute_discounts
from regard.extensions.smt.trie import Trie, build_phrase_trie, concatenate_ranges
from regard.text.array_files import check_array, check_arrays, check_offsets, load_arrays
from regard.text.reading import checked_file

Smoothing = Literal["kneser-ney", "none"]

SCORES = ("p(t|s)", "lex(t|s)", "p(s|t)", "lex(s|t)")
MAX_TRANSLATIONS = 50
"""The maximum number of translations of a source phrase; those with the highest p(t | s) are kept."""
ORIENTATION_PSEUDO_COUNT = 0.5
"""The pseudo-count of the text's orientation distribution."""


@dataclass(frozen=True, eq=False)
class PhraseTable:
    """Phrase pairs by source phrase.

    Attributes:
        trie: The source phrases and their prefixes.
        entries: int64 [nodes + 1], the index of the first pair of each node; pairs are sorted by decreasing
            p(t | s).
        targets: int32 [pairs], the index of the target phrase of each pair.
        scores: float32 [pairs, 4], in the order of `SCORES`.
        links: int64 [pairs], the link mask; see `PhraseOccurrences`.
        reordering: float32 [pairs, 6], the orientation scores.
        forward_classes: int32 [pairs], equal for pairs with equal forward orientation scores.
        target_words: int32 [words], the word ids of the target phrases, concatenated.
        target_offsets: int64 [target phrases + 1], the index of the first word of each target phrase.
    """

    trie: Trie
    entries: np.ndarray
    targets: np.ndarray
    scores: np.ndarray
    links: np.ndarray
    reordering: np.ndarray
    forward_classes: np.ndarray
    target_words: np.ndarray
    target_offsets: np.ndarray

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.targets)

    def target(self, entry: int) -> np.ndarray:
        """Return the target word ids of a pair."""
        start, end = self.target_offsets[self.targets[entry] : self.targets[entry] + 2]
        return self.target_words[start:end]

    def save(self, directory: Path) -> None:
        """Write the table to `phrases.safetensors` in an existing directory."""
        arrays = {name: getattr(self, name) for name in _NAMES}
        save_file(arrays | self.trie.to_arrays(), directory / _FILE)

    @classmethod
    def load(cls, directory: Path) -> "PhraseTable":
        """Load a table that `save` wrote; `check` must follow before compiled functions use it.

        Raises:
            DataError: if the file is missing or damaged; the message names it.
        """
        path = checked_file(directory, _FILE)
        arrays = load_arrays(path)
        try:
            return cls(Trie.pop_from(arrays), **arrays)
        except (DataError, TypeError) as error:
            raise DataError(f"{path}: not a phrase table: {error}") from None

    def check(self, source_words: int, target_words: int) -> None:
        """Check the arrays of a loaded table, because compiled functions use them as indices without checks.

        Args:
            source_words: The size of the source vocabulary.
            target_words: The size of the target vocabulary.

        Raises:
            DataError: if an array is inconsistent; the message names it.
        """
        self.trie.check(source_words)
        pairs, phrases = len(self.targets), len(self.target_offsets) - 1
        forms = {
            "targets": ("int32", 0, phrases - 1, None),
            "scores": ("float32", *_LOG_PROB_RANGE, pairs, len(SCORES)),
            "reordering": ("float32", *_LOG_PROB_RANGE, pairs, 6),
            "forward_classes": ("int32", 0, max(0, pairs - 1), pairs),
            "target_words": ("int32", 0, target_words - 1, None),
        }
        check_arrays({name: getattr(self, name) for name in forms}, forms)
        check_array("links", self.links, "int64", pairs)
        check_offsets("entries", self.entries, len(self.trie), pairs)
        check_offsets("target_offsets", self.target_offsets, phrases, len(self.target_words))


_LOG_PROB_RANGE = -1e30, 1e30
"""The range of valid log-probabilities: wide, but finite, so that their sums are finite as well."""
_FILE = "phrases.safetensors"
_NAMES = tuple(name for name in PhraseTable.__dataclass_fields__ if name != "trie")


def _build_phrase_table(
    trie: Trie,
    nodes: np.ndarray,
    targets: PhraseList,
    rows: np.ndarray,
    columns: Mapping[str, np.ndarray],
) -> PhraseTable:
    """Sort phrase pairs into a table with the `MAX_TRANSLATIONS` best translations of each phrase.

    Args:
        trie: The source phrases.
        nodes: int64, the node of the source phrase of each pair.
        targets: The target phrases.
        rows: int64, the index of the target phrase of each pair.
        columns: The scores, links and reordering of each pair; see `PhraseTable`.
    """
    scores = columns["scores"]
    # Ties are broken by the target phrase, so that the order of the input pairs does not matter.
    order = np.lexsort((rows, -scores[:, 1], -scores[:, 0], nodes))
    ordered = nodes[order]
    # The rank of a pair within its source phrase: its position minus that of the first pair of the phrase.
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    order = order[rank < MAX_TRANSLATIONS]
    used, target_rows = np.unique(rows[order], return_inverse=True)
    lengths = targets.offsets[used + 1] - targets.offsets[used]
    words = targets.words[concatenate_ranges(targets.offsets[used], lengths)]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    entries = np.concatenate([[0], np.cumsum(np.bincount(nodes[order], minlength=len(trie)))])
    reordering = columns["reordering"][order].astype(np.float32)
    # Hypotheses are recombined if their last phrases have equal forward scores, not only if they are equal.
    _, ahead = np.unique(reordering[:, 3:], axis=0, return_inverse=True)
    return PhraseTable(
        trie,
        entries.astype(np.int64),
        target_rows.astype(np.int32),
        scores[order].astype(np.float32),
        columns["links"][order],
        reordering,
        ahead.reshape(-1).astype(np.int32),
        words.astype(np.int32),
        offsets,
    )


def estimate_phrase_table(
    corpus: Corpus,
    links: LinkTable,
    max_length: int = 7,
    smoothing: Smoothing = "kneser-ney",
    unknown: int | None = None,
) -> PhraseTable:
    """Estimate the phrase table of a text; phrases with the `unknown` word are discarded.

    Raises:
        DataError: if there is no phrase pair.
    """
    phrases = extract_phrases(corpus, links, max_length)
    if unknown is not None:
        known = np.ones(len(phrases.rows), dtype=bool)
        for tokens, starts, lengths, _ in _sides(corpus, phrases):
            # Differences of cumulative counts are the counts of all spans, in time linear in the text.
            before = np.concatenate([[0], np.cumsum(tokens == unknown, dtype=np.int64)])
            known &= before[starts + lengths] == before[starts]
        phrases = PhraseOccurrences(**{name: column[known] for name, column in vars(phrases).items()})
    if not len(phrases.rows):
        raise DataError("no phrase pair could be extracted: the text has no word links")
    source_side, target_side = _sides(corpus, phrases)
    trie, nodes, sources, left_rows = _distinct_phrases(*source_side)
    _, _, targets, right_rows = _distinct_phrases(*target_side)
    size = len(targets.offsets) - 1
    keys, members, counts = np.unique(left_rows * size + right_rows, return_inverse=True, return_counts=True)
    pairs = keys // size, keys % size
    masks = _most_frequent(members, phrases.links, len(keys))
    lexical = estimate_lexical_table(corpus, links)
    columns = (
        _probabilities(counts, pairs[0], pairs[1], smoothing),
        lexical_weights(lexical, sources, targets, pairs, masks, False),
        _probabilities(counts, pairs[1], pairs[0], smoothing),
        lexical_weights(lexical, sources, targets, pairs, masks, True),
    )
    orientations = [_orientations(members, kinds, len(keys)) for kinds in (phrases.backward, phrases.forward)]
    values = {
        "scores": np.stack(columns, axis=1),
        "links": masks,
        "reordering": np.concatenate(orientations, axis=1),
    }
    return _build_phrase_table(trie, nodes[pairs[0]], targets, pairs[1], values)


_Spans = tuple[np.ndarray, np.ndarray, np.ndarray, int]
"""The phrases of one side: the tokens of its text, the index of each phrase's first word in them, its
length, and the size of the vocabulary."""


def _sides(corpus: Corpus, found: PhraseOccurrences) -> tuple[_Spans, _Spans]:
    source, target = corpus.source, corpus.target
    left, right = source.starts[found.rows], target.starts[found.rows]
    return (
        (source.tokens, left + found.source_starts, found.source_lengths, len(source.words)),
        (target.tokens, right + found.target_starts, found.target_lengths, len(target.words)),
    )


def _distinct_phrases(
    tokens: np.ndarray, starts: np.ndarray, lengths: np.ndarray, vocab_size: int
) -> tuple[Trie, np.ndarray, PhraseList, np.ndarray]:
    """Return a trie of phrases, the nodes and words of the distinct ones, and the index of each phrase."""
    trie, nodes = build_phrase_trie(tokens, starts, lengths, vocab_size)
    distinct, first, members = np.unique(nodes, return_index=True, return_inverse=True)
    sizes = lengths[first].astype(np.int64)
    words = tokens[concatenate_ranges(starts[first], sizes)].astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return trie, distinct, PhraseList(words, offsets), members.reshape(-1).astype(np.int64)


def _most_frequent(members: np.ndarray, links: np.ndarray, size: int) -> np.ndarray:
    """Return each pair's most frequent link mask; ties are broken by the smallest mask."""
    order = np.lexsort((links, members))
    m, k = members[order], links[order]
    # Runs of equal masks of a pair are contiguous after sorting, and their lengths are the counts.
    starts = np.flatnonzero(np.concatenate([[True], (m[1:] != m[:-1]) | (k[1:] != k[:-1])]))
    counts = np.diff(np.concatenate([starts, [len(m)]]))
    best = np.lexsort((k[starts], -counts, m[starts]))
    _, first = np.unique(m[starts][best], return_index=True)
    return k[starts][best][first]


def _probabilities(
    counts: np.ndarray, given: np.ndarray, other: np.ndarray, smoothing: Smoothing
) -> np.ndarray:
    """Return log p(other | given) of each pair, in nats.

    Args:
        counts: The number of occurrences of each pair.
        given: The index of the conditioning phrase of each pair.
        other: The index of the predicted phrase of each pair.
        smoothing: The smoothing. The lower-order distribution of Kneser-Ney is proportional to the number of
            distinct `given` phrases of each `other` phrase.
    """
    totals = np.bincount(given, counts)[given]
    if smoothing == "none":
        return np.log(counts / totals)
    taken = np.array([0.0, *compute_discounts(counts, "phrase pairs")])[np.minimum(counts, 3)]
    left = np.bincount(given, taken)[given]
    spread = np.bincount(other)[other] / len(other)
    return np.log(np.maximum(counts - taken, 0) / totals + left / totals * spread)


def _orientations(members: np.ndarray, kinds: np.ndarray, size: int) -> np.ndarray:
    """Return the smoothed log p(orientation | pair), in nats."""
    counts = np.bincount(members * 3 + kinds, minlength=3 * size).reshape(size, 3).astype(np.float64)
    # Add-one smoothing of the whole text, because a short text may have no swap at all.
    overall = (counts.sum(axis=0) + 1) / (counts.sum() + 3)
    return np.log(
        (counts + ORIENTATION_PSEUDO_COUNT * overall)
        / (counts.sum(axis=1, keepdims=True) + ORIENTATION_PSEUDO_COUNT)
    )
