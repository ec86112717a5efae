"""Extraction of phrase pairs that are consistent with word links, and their lexical weights.

Koehn et al. (2003), Section 2; Och & Ney (2004).

A source span and a target span form a phrase pair if at least one link connects them and no link connects a
word inside one span to a word outside the other. Spans may begin or end with unlinked words; all such pairs
are extracted.

Each pair has word-based orientations, Koehn et al. (2005): one backward, relative to the preceding target
word, and one forward, relative to the following target word. The orientation is *monotone* if that word is
linked to the adjacent source word on the same side, *swap* if it is linked to the adjacent source word on the
other side, else *discontinuous*.

The lexical weight of a pair, Koehn et al. (2003), Eq. 4:

    lex(t | s, a) = prod_j mean_{i : (i, j) in a} w(t_j | s_i)        w(t | s) = c(s, t) / sum_t' c(s, t')

c(s, t) is the number of links between words s and t in the text; an unlinked word is linked to the null word.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard.alignment.corpus import Corpus
from regard.alignment.symmetrize import LinkTable
from regard.extensions.smt.trie import concatenate_ranges
from regard.kernels.compilation import njit, search_key

MAX_PHRASE_LENGTH = 7
"""The maximum length of a phrase in words, so that the 7 x 7 links of a pair fit into one 64-bit integer."""
ORIENTATIONS = ("monotone", "swap", "discontinuous")
MIN_LEXICAL_WEIGHT = 1e-7
"""The lower limit of a word's lexical weight, so that its logarithm is finite."""


@dataclass(frozen=True, eq=False)
class PhraseOccurrences:
    """The occurrences of phrase pairs in a text, as int32 arrays except for the links.

    Attributes:
        rows: The row of the sentence pair.
        source_starts: The position of the first source word in the sentence.
        source_lengths: The number of source words.
        target_starts: The position of the first target word in the sentence.
        target_lengths: The number of target words.
        links: int64; bit `MAX_PHRASE_LENGTH * i + j` is set if word i of the source phrase is linked to word
            j of the target phrase.
        backward: The backward orientation, an index into `ORIENTATIONS`.
        forward: The forward orientation, an index into `ORIENTATIONS`.
    """

    rows: np.ndarray
    source_starts: np.ndarray
    source_lengths: np.ndarray
    target_starts: np.ndarray
    target_lengths: np.ndarray
    links: np.ndarray
    backward: np.ndarray
    forward: np.ndarray


def extract_phrases(
    corpus: Corpus, links: LinkTable, max_length: int = MAX_PHRASE_LENGTH
) -> PhraseOccurrences:
    """Extract all phrase pairs of at most `max_length` words on either side, up to `MAX_PHRASE_LENGTH`."""
    table = corpus.source.lengths, corpus.target.lengths, links.offsets, links.source, links.target
    # The first pass counts the pairs, so that the second one can write into arrays of the right size.
    count = _extract(table, max_length, np.empty((7, 0), np.int32), np.empty(0, np.int64), False)
    columns, masks = np.empty((7, count), np.int32), np.empty(count, np.int64)
    _extract(table, max_length, columns, masks, True)
    return PhraseOccurrences(*columns[:5], links=masks, backward=columns[5], forward=columns[6])


@njit(nogil=True, cache=True)
def _extract(links, longest, columns, masks, fill):
    """Count the phrase pairs, and write them to `columns` and `masks` if `fill` is set.

    `links` are the lengths of both sides and the arrays of a `LinkTable`.
    """
    sources, targets, offsets, left, right = links
    count = 0
    for row in range(len(sources)):
        m, n = sources[row], targets[row]
        linked = np.zeros((m, n), np.bool_)
        # The first and last linked source position of each target word; `high` is -1 without links.
        low, high = np.full(n, m), np.full(n, -1)
        for k in range(offsets[row], offsets[row + 1]):
            i, j = left[k], right[k]
            linked[i, j] = True
            low[j], high[j] = min(low[j], i), max(high[j], i)
        for i1 in range(m):
            j1, j2 = n, -1
            for i2 in range(i1, min(m, i1 + longest)):
                for j in range(n):
                    if linked[i2, j]:
                        j1, j2 = min(j1, j), max(j2, j)
                # j1..j2 is the smallest target span that contains all links of the source span.
                if j2 < 0 or j2 - j1 >= longest:
                    continue
                if not _is_consistent(low[j1 : j2 + 1], high[j1 : j2 + 1], i1, i2):
                    continue
                # Extend the minimal target span j1..j2 by unlinked words on both sides.
                a = j1
                while a >= 0 and j2 - a < longest and (a == j1 or high[a] < 0):
                    b = j2
                    while b < n and b - a < longest and (b == j2 or high[b] < 0):
                        if fill:
                            columns[0, count] = row
                            columns[1, count], columns[2, count] = i1, i2 - i1 + 1
                            columns[3, count], columns[4, count] = a, b - a + 1
                            masks[count] = _mask(linked, i1, i2, a, b)
                            columns[5, count] = _orientation(linked, m, n, i1, i2, a - 1, -1)
                            columns[6, count] = _orientation(linked, m, n, i1, i2, b + 1, 1)
                        count += 1
                        b += 1
                    a -= 1
    return count


@njit(nogil=True, cache=True)
def _is_consistent(low, high, i1, i2):
    """Return whether all links of a target span are within a source span."""
    for j in range(len(low)):
        if high[j] >= 0 and (low[j] < i1 or high[j] > i2):
            return False
    return True


@njit(nogil=True, cache=True)
def _mask(linked, i1, i2, a, b):
    mask = 0
    for i in range(i1, i2 + 1):
        for j in range(a, b + 1):
            if linked[i, j]:
                mask |= 1 << (MAX_PHRASE_LENGTH * (i - i1) + j - a)
    return mask


@njit(nogil=True, cache=True)
def _orientation(linked, m, n, i1, i2, j, step):
    """Return the orientation relative to target position `j`; sentence boundaries count as linked."""
    before, after = i1 - 1, i2 + 1
    same, other = (before, after) if step < 0 else (after, before)
    # Monotone is tested first, so that it is preferred if both adjacent source words are linked.
    for kind, i in ((0, same), (1, other)):
        if 0 <= i < m and 0 <= j < n:
            if linked[i, j]:
                return kind
        elif (i == -1 and j == -1) or (i == m and j == n):
            return kind
    return 2


class LexicalTable(NamedTuple):
    """Lexical translation probabilities w in both directions.

    Attributes:
        source_null: The size of the source vocabulary, which is the id of the null word on the source side.
        target_null: The size of the target vocabulary, which is the id of the null word on the target side.
        keys: int64 [pairs], `source * (target_null + 1) + target`, ascending.
        forward: float64 [pairs], w(target | source).
        backward: float64 [pairs], w(source | target).
    """

    source_null: int
    target_null: int
    keys: np.ndarray
    forward: np.ndarray
    backward: np.ndarray


class PhraseList(NamedTuple):
    """The distinct phrases of one side.

    Attributes:
        words: int64, the word ids of all phrases, one phrase after the other.
        offsets: int64 [phrases + 1], the index of the first word of each phrase.
    """

    words: np.ndarray
    offsets: np.ndarray


def estimate_lexical_table(corpus: Corpus, links: LinkTable) -> LexicalTable:
    """Compute the lexical translation probabilities from the links of a text."""
    source, target = corpus.source, corpus.target
    source_null, target_null = len(source.words), len(target.words)
    rows = np.repeat(np.arange(len(corpus)), np.diff(links.offsets))
    left, right = source.starts[rows] + links.source, target.starts[rows] + links.target
    unlinked = []
    for text, linked in ((source, left), (target, right)):
        places = concatenate_ranges(text.starts, text.lengths)
        unlinked.append(text.tokens[places[~np.isin(places, linked)]].astype(np.int64))
    # The null words have the ids after the last word, so that they need no table of their own.
    sources = [source.tokens[left].astype(np.int64), unlinked[0], np.full(len(unlinked[1]), source_null)]
    targets = [target.tokens[right].astype(np.int64), np.full(len(unlinked[0]), target_null), unlinked[1]]
    keys = np.concatenate(sources) * (target_null + 1) + np.concatenate(targets)
    keys, counts = np.unique(keys, return_counts=True)
    s, t = keys // (target_null + 1), keys % (target_null + 1)
    forward = counts / np.bincount(s, counts)[s]
    backward = counts / np.bincount(t, counts)[t]
    return LexicalTable(source_null, target_null, keys, forward, backward)


@njit(nogil=True, cache=True)
def lexical_weights(
    table: LexicalTable,
    sources: PhraseList,
    targets: PhraseList,
    pairs: tuple[np.ndarray, np.ndarray],
    links: np.ndarray,
    backward: bool,
) -> np.ndarray:
    """Return log lex(t | s), or log lex(s | t) if `backward` is set, of phrase pairs, in nats.

    Args:
        table: The lexical translation probabilities.
        sources: The source phrases.
        targets: The target phrases.
        pairs: The indices of the source phrase and of the target phrase of each pair.
        links: The link mask of each pair, as in `PhraseOccurrences`.
        backward: Whether the source is predicted.
    """
    values = table.backward if backward else table.forward
    factor = table.target_null + 1
    weights = np.empty(len(links))
    for row in range(len(links)):
        source = sources.words[sources.offsets[pairs[0][row]] : sources.offsets[pairs[0][row] + 1]]
        target = targets.words[targets.offsets[pairs[1][row]] : targets.offsets[pairs[1][row] + 1]]
        m, n = len(source), len(target)
        total = 0.0
        # `place` is a position in the predicted phrase, `other` in the phrase that is given.
        for place in range(m if backward else n):
            weight, linked = 0.0, 0
            for other in range(n if backward else m):
                i, j = (place, other) if backward else (other, place)
                if links[row] >> (MAX_PHRASE_LENGTH * i + j) & 1:
                    weight += _value(table.keys, values, source[i] * factor + target[j])
                    linked += 1
            if not linked:
                s, t = (source[place], table.target_null) if backward else (table.source_null, target[place])
                weight, linked = _value(table.keys, values, s * factor + t), 1
            total += np.log(max(weight / linked, MIN_LEXICAL_WEIGHT))
        weights[row] = total
    return weights


@njit(nogil=True, cache=True)
def _value(keys, values, key):
    place = search_key(keys, key, 0, len(keys))
    return values[place] if place >= 0 else 0.0
