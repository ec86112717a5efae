"""A trie of n-grams as sorted arrays.

The n-gram `w1 ... wn` is the child `wn` of `w1 ... wn-1`. Nodes are numbered by level and, within a level, by
parent and word. The children of a node are therefore contiguous and sorted by word, and an array of the first
child of each node represents the whole tree. Node 0 is the empty n-gram; its child with word w is node w + 1,
for every word of the vocabulary.

Counting needs no hash table: the n-grams of a level are the distinct pairs of a node of the previous level
and the next word, each packed into one integer and sorted.
"""

from dataclasses import dataclass

import numpy as np

from regard.errors import DataError
from regard.kernels.compilation import njit, search_key
from regard.text.array_files import check_array, check_offsets, check_range

ABSENT = -1


@dataclass(frozen=True, eq=False)
class Trie:
    """Distinct n-grams.

    Attributes:
        levels: `levels[n]` is the first node of n-grams with n words, n from 0; the last entry is the number
            of nodes.
        first_children: int64 [nodes + 1], the first child of each node.
        words: int32 [nodes], the last word of each n-gram; -1 for node 0.
    """

    levels: tuple[int, ...]
    first_children: np.ndarray
    words: np.ndarray

    @property
    def order(self) -> int:
        """The maximum length of an n-gram."""
        return len(self.levels) - 2

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.words)

    def nodes(self, order: int) -> slice:
        """Return the nodes of n-grams with `order` words."""
        return slice(self.levels[order], self.levels[order + 1])

    def parents(self) -> np.ndarray:
        """Return int64 [nodes]: the node of each n-gram without its last word; -1 for node 0."""
        parents = np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.first_children))
        return np.concatenate([[ABSENT], parents])

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that represent the trie in a file."""
        return {"first": self.first_children, "words": self.words, "levels": np.array(self.levels)}

    @classmethod
    def pop_from(cls, arrays: dict[str, np.ndarray]) -> "Trie":
        """Take the arrays of `to_arrays` out of those of a file; `check` must follow before compiled use.

        Raises:
            DataError: if an array is missing, or the levels are not a list of numbers.
        """
        try:
            levels, first, words = (arrays.pop(name) for name in ("levels", "first", "words"))
        except KeyError as error:
            raise DataError(f"{error.args[0]}: missing") from None
        check_array("levels", levels, "int64", None)
        return cls(tuple(levels.tolist()), first, words)

    def check(self, vocab_size: int) -> None:
        """Check the arrays of a loaded trie, because compiled functions use them as indices without checks.

        Args:
            vocab_size: The size of the vocabulary.

        Raises:
            DataError: if an array is inconsistent; the message names it.
        """
        levels, nodes = self.levels, len(self.words)
        if levels[:3] != (0, 1, 1 + vocab_size) or levels[-1] != nodes or list(levels) != sorted(levels):
            raise DataError(f"levels: not consistent with {nodes} nodes and {vocab_size} words")
        check_array("words", self.words, "int32", None)
        check_offsets("first", self.first_children, nodes, nodes, start=1)
        # The children of a level form the next level, so that following children always terminates.
        ends = [int(self.first_children[level]) for level in levels[:-1]]
        if ends != list(levels[1:]):
            raise DataError("first: the children of a level do not form the next level")
        if not np.array_equal(self.words[1 : 1 + vocab_size], np.arange(vocab_size)):
            raise DataError("words: the first level does not contain every word in order")
        check_range("words", self.words[1:], 0, vocab_size - 1)


class TrieBuilder:
    """A trie that grows by whole levels, from the first level, which contains every word.

    Attributes:
        levels: The first node of each level, as in `Trie`.
    """

    def __init__(self, vocab_size: int) -> None:
        """Create a trie with the empty n-gram and all unigrams."""
        self.levels = [0, 1, 1 + vocab_size]
        self._words = [np.array([ABSENT]), np.arange(vocab_size)]
        self._num_children = [np.array([vocab_size])]

    def grow(self, nodes: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Add a level with the distinct pairs of a node and the word that follows it.

        Args:
            nodes: int64, nodes of the last level.
            words: The word that follows each of them.

        Returns:
            int64, the new node of each pair.
        """
        start, end = self.levels[-2:]
        vocab_size = self.levels[2] - 1
        # One integer per pair sorts faster than two columns.
        keys = nodes.astype(np.int64) * vocab_size + words
        order = np.argsort(keys)
        ordered = keys[order]
        fresh = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(keys)]
        grown = np.empty(len(keys), dtype=np.int64)
        grown[order] = end - 1 + np.cumsum(fresh)
        parents, last_words = np.divmod(ordered[fresh], vocab_size)
        self._num_children.append(np.bincount(parents - start, minlength=end - start))
        self._words.append(last_words)
        self.levels.append(end + len(last_words))
        return grown

    def build(self) -> Trie:
        """Return the trie of the levels so far."""
        leaves = np.zeros(self.levels[-1] - self.levels[-2], dtype=np.int64)
        num_children = np.concatenate([*self._num_children, leaves])
        first = np.concatenate([[1], 1 + np.cumsum(num_children)]).astype(np.int64)
        return Trie(tuple(self.levels), first, np.concatenate(self._words).astype(np.int32))


def build_phrase_trie(
    tokens: np.ndarray, starts: np.ndarray, lengths: np.ndarray, vocab_size: int
) -> tuple[Trie, np.ndarray]:
    """Return a trie of phrases and their prefixes.

    Args:
        tokens: The word ids of a text.
        starts: int64 [phrases], the index of the first word of each phrase.
        lengths: The number of words of each phrase, at least 1.
        vocab_size: The size of the vocabulary.

    Returns:
        The trie, and the node of each phrase: int64 [phrases].
    """
    builder = TrieBuilder(vocab_size)
    nodes = 1 + tokens[starts].astype(np.int64)
    for length in range(2, int(lengths.max()) + 1):
        rows = np.flatnonzero(lengths >= length)
        nodes[rows] = builder.grow(nodes[rows], tokens[starts[rows] + length - 1])
    return builder.build(), nodes


def concatenate_ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the positions in several ranges of an array, one range after the other."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(int(lengths.sum()))


@njit(nogil=True, cache=True)
def find_child(first, words, node, word):
    """Return the child of a node with the given word, or `ABSENT`."""
    low, high = first[node], first[node + 1]
    # The children of the root are all words, in the order of their ids.
    if node == 0:
        return low + word if 0 <= word < high - low else -1
    return search_key(words, word, low, high)


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a read-only view of an array, because Numba compiles a function anew for writable arrays."""
    view = array.view()
    view.flags.writeable = False
    return view


_RUN = 20  # number of keys that are sorted by insertion before runs are merged


@njit(nogil=True, cache=True)
def stable_argsort(keys):
    """Return the order that sorts the keys: insertion sort of short runs, then bottom-up merge sort.

    Equal keys keep their order. NaN is not allowed: the order would be undefined.

    Args:
        keys: Keys, [N].

    Returns:
        The indices of the keys in ascending order, int64 [N].
    """
    size = len(keys)
    order, merged = np.empty(size, np.int64), np.empty(size, np.int64)
    for start in range(0, size, _RUN):
        for i in range(start, min(start + _RUN, size)):
            place = i
            while place > start and keys[order[place - 1]] > keys[i]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = i
    width = _RUN
    while width < size:
        for start in range(0, size, 2 * width):
            middle, end = min(start + width, size), min(start + 2 * width, size)
            left, right = start, middle
            for place in range(start, end):
                if right == end or (left < middle and keys[order[left]] <= keys[order[right]]):
                    merged[place] = order[left]
                    left += 1
                else:
                    merged[place] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order
