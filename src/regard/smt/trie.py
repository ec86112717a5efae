"""N-grams as numbers: a trie of sorted arrays that grows one word at a time.

The n-gram `w1 ... wn` is the child `wn` of `w1 ... wn-1`. Nodes are numbered level by level and, within a
level, by parent and word: so the children of a node stand side by side, in the order of their words, and one
array of where they start is all there is to the tree. Node 0 is the empty n-gram, its child `w` is node w + 1
for every word of the vocabulary.

Counting needs no hash table: a level's n-grams are the distinct pairs (node of the level before, next word),
packed into one integer each and sorted.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numba import njit

from regard.data.checks import check_array, check_offsets, check_range
from regard.errors import DataError

__all__ = ["ABSENT", "Level", "Trie", "child", "grow", "phrases_trie"]

ABSENT = -1


@dataclass(frozen=True, eq=False)
class Trie:
    """Distinct n-grams.

    Attributes:
        levels: `levels[n]` is the number of the first node of n words, n from 0; one more closes the last.
        first: int64 [nodes + 1]: where the children of each node start.
        words: int32 [nodes]: the last word of each n-gram; of node 0 it is -1.
    """

    levels: tuple[int, ...]
    first: np.ndarray
    words: np.ndarray

    @property
    def order(self) -> int:
        """The most words of an n-gram."""
        return len(self.levels) - 2

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self.words)

    def nodes(self, order: int) -> slice:
        """The nodes of n-grams of so many words."""
        return slice(self.levels[order], self.levels[order + 1])

    def parents(self) -> np.ndarray:
        """int64 [nodes]: the n-gram without its last word; of node 0 it is -1."""
        parents = np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.first))
        return np.concatenate([[ABSENT], parents])

    def check(self, size: int) -> None:
        """Check what was read from a file: compiled loops follow its numbers wherever they point.

        Args:
            size: Words of the vocabulary.

        Raises:
            DataError: if it is no trie of such words; names the array.
        """
        levels, nodes = self.levels, len(self.words)
        if levels[:3] != (0, 1, 1 + size) or levels[-1] != nodes or list(levels) != sorted(levels):
            raise DataError(f"levels: not those of {nodes} nodes and {size} words")
        check_array("words", self.words, "int32", None)
        check_offsets("first", self.first, nodes, nodes, start=1)
        # Children come after their parents, each level's in the next: so no loop goes on for ever.
        ends = [int(self.first[level]) for level in levels[:-1]]
        if ends != list(levels[1:]):
            raise DataError("first: the children of a level are not the next level")
        if not np.array_equal(self.words[1 : 1 + size], np.arange(size)):
            raise DataError("words: the first level does not hold every word in order")
        check_range("words", self.words[1:], 0, size - 1)

    def find(self, nodes: np.ndarray, words: np.ndarray) -> np.ndarray:
        """The children that nodes have for words, `ABSENT` where they have none.

        Args:
            nodes: int64; `ABSENT` has no children.
            words: As many words.
        """
        return _find_all(self.first, self.words, nodes.astype(np.int64), words.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Level:
    """What one step of growth found.

    Attributes:
        parents: int64: the node that each new n-gram extends; ascending.
        words: int32: the word it adds; ascending for each parent.
        members: int64: which new n-gram each item became.
    """

    parents: np.ndarray
    words: np.ndarray
    members: np.ndarray


def grow(nodes: np.ndarray, words: np.ndarray, size: int) -> Level:
    """The distinct pairs of a node and a word that follows it, sorted.

    Args:
        nodes: int64, one for each place of the text.
        words: The words that follow.
        size: Words of the vocabulary.
    """
    keys = nodes.astype(np.int64) * size + words
    order = np.argsort(keys)
    ordered = keys[order]
    fresh = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(keys)]
    members = np.empty(len(keys), dtype=np.int64)
    members[order] = np.cumsum(fresh) - 1
    distinct = ordered[fresh]
    return Level(distinct // size, (distinct % size).astype(np.int32), members)


def phrases_trie(tokens: np.ndarray, offsets: np.ndarray, size: int) -> tuple[Trie, np.ndarray]:
    """The trie of given phrases and of all that they start with.

    Args:
        tokens: The words of the phrases, one phrase after the other.
        offsets: int64 [phrases + 1]: where each starts.
        size: Words of the vocabulary.

    Returns:
        The trie, and int64 [phrases]: the node of each phrase.
    """
    lengths = np.diff(offsets)
    levels, words = [0, 1, 1 + size], [np.array([ABSENT]), np.arange(size)]
    counts = [np.array([size])]
    found = np.zeros(len(lengths), dtype=np.int64)
    rows = np.flatnonzero(lengths)
    found[rows] = 1 + tokens[offsets[rows]]
    for length in range(2, int(lengths.max(initial=1)) + 1):
        rows = np.flatnonzero(lengths >= length)
        level = grow(found[rows], tokens[offsets[rows] + length - 1], size)
        start, end = levels[-2:]
        counts.append(np.bincount(level.parents - start, minlength=end - start))
        words.append(level.words)
        found[rows] = end + level.members
        levels.append(end + len(level.words))
    counts.append(np.zeros(levels[-1] - levels[-2], dtype=np.int64))
    return assemble(levels, counts, words), found


def assemble(levels: list[int], counts: list[np.ndarray], words: list[np.ndarray]) -> Trie:
    """Put the levels of a trie together.

    Args:
        levels: As in `Trie`.
        counts: For each level, level 0 included, how many children each node has.
        words: For each level the words of its nodes.
    """
    assert all(len(part) == end - start for part, (start, end) in zip(words, pairwise(levels), strict=True))
    first = np.concatenate([[1], 1 + np.cumsum(np.concatenate(counts))]).astype(np.int64)
    return Trie(tuple(levels), first, np.concatenate(words).astype(np.int32))


@njit(nogil=True, cache=True)
def child(first, words, node, word):
    """The node of an n-gram and one more word, or `ABSENT`."""
    low, high = first[node], first[node + 1]
    if node == 0:
        return low + word if 0 <= word < high - low else -1
    while low < high:
        middle = (low + high) >> 1
        if words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low if low < first[node + 1] and words[low] == word else -1


@njit(nogil=True, cache=True)
def _find_all(first, words, nodes, added):
    found = np.empty(len(nodes), np.int64)
    for i in range(len(nodes)):
        found[i] = child(first, words, nodes[i], added[i]) if nodes[i] >= 0 else -1
    return found
