"""Lexical weights of phrase pairs (Koehn et al., 2003, Eq. 4).

    lex(t | s, a) = prod_j mean_{i : (i, j) in a} w(t_j | s_i)        w(t | s) = c(s, t) / sum_t' c(s, t')

c(s, t) is the number of links between words s and t in the text; an unlinked word is linked to the null word.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from regard.alignment.corpus import Corpus
from regard.alignment.symmetrize import LinkTable

__all__ = ["LexicalTable", "build_word_table", "lexical_weights"]


@dataclass(frozen=True, eq=False)
class LexicalTable:
    """Lexical translation probabilities w in both directions.

    Attributes:
        target_null: The size of the target vocabulary, which is the id of the null word on the target side.
        source_null: The size of the source vocabulary, which is the id of the null word on the source side.
        keys: int64 [pairs], `source * (target_null + 1) + target`, ascending.
        forward: float64 [pairs], w(target | source).
        backward: float64 [pairs], w(source | target).
    """

    target_null: int
    source_null: int
    keys: np.ndarray
    forward: np.ndarray
    backward: np.ndarray


def build_word_table(corpus: Corpus, links: LinkTable) -> LexicalTable:
    """Compute the lexical translation probabilities from the links of a text."""
    source, target = corpus.source, corpus.target
    size, null = len(target.words), len(source.words)
    rows = np.repeat(np.arange(len(corpus)), np.diff(links.offsets))
    left, right = source.starts[rows] + links.source, target.starts[rows] + links.target
    linked = source.tokens[left].astype(np.int64), target.tokens[right].astype(np.int64)
    alone_s = _unlinked(source.tokens, source.starts, source.lengths, left)
    alone_t = _unlinked(target.tokens, target.starts, target.lengths, right)
    sources = np.concatenate([linked[0], alone_s, np.full(len(alone_t), null)])
    targets = np.concatenate([linked[1], np.full(len(alone_s), size), alone_t])
    keys, counts = np.unique(sources * (size + 1) + targets, return_counts=True)
    s, t = keys // (size + 1), keys % (size + 1)
    forward = counts / np.bincount(s, counts)[s]
    backward = counts / np.bincount(t, counts)[t]
    return LexicalTable(size, null, keys, forward, backward)


def _unlinked(tokens: np.ndarray, starts: np.ndarray, lengths: np.ndarray, linked: np.ndarray) -> np.ndarray:
    """Return the ids of all unlinked words."""
    places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))
    return tokens[places[~np.isin(places, linked)]].astype(np.int64)


def lexical_weights(
    table: LexicalTable,
    sources: tuple[np.ndarray, np.ndarray],
    targets: tuple[np.ndarray, np.ndarray],
    pairs: tuple[np.ndarray, np.ndarray],
    links: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return log lex(t | s) and log lex(s | t) of phrase pairs, in nats.

    Args:
        table: The lexical translation probabilities.
        sources: The word ids and the offsets of the source phrases.
        targets: The word ids and the offsets of the target phrases.
        pairs: The indices of the source phrase and of the target phrase of each pair.
        links: The link mask of each pair, as in `PhraseOccurrences`.
    """
    forward, backward = np.empty(len(links)), np.empty(len(links))
    _lexical_weights(
        table.keys,
        table.forward,
        table.target_null,
        table.source_null,
        *sources,
        *targets,
        *pairs,
        links,
        False,
        forward,
    )
    _lexical_weights(
        table.keys,
        table.backward,
        table.target_null,
        table.source_null,
        *sources,
        *targets,
        *pairs,
        links,
        True,
        backward,
    )
    return forward, backward


@njit(nogil=True, cache=True)
def _lexical_weights(
    keys,
    values,
    size,
    null,
    source_words,
    source_offsets,
    target_words,
    target_offsets,
    sources,
    targets,
    links,
    backward,
    found,
):
    for row in range(len(links)):
        s0, s1 = source_offsets[sources[row]], source_offsets[sources[row] + 1]
        t0, t1 = target_offsets[targets[row]], target_offsets[targets[row] + 1]
        m, n = s1 - s0, t1 - t0
        total = 0.0
        # `one` is a position in the conditioned phrase, `other` in the conditioning phrase.
        for one in range(m if backward else n):
            weight, linked = 0.0, 0
            for other in range(n if backward else m):
                i, j = (one, other) if backward else (other, one)
                if links[row] >> (7 * i + j) & 1:
                    key = source_words[s0 + i] * (size + 1) + target_words[t0 + j]
                    weight += _value(keys, values, key)
                    linked += 1
            if not linked:
                key = (
                    source_words[s0 + one] * (size + 1) + size
                    if backward
                    else (null * (size + 1) + target_words[t0 + one])
                )
                weight, linked = _value(keys, values, key), 1
            total += np.log(max(weight / linked, 1e-7))
        found[row] = total


@njit(nogil=True, cache=True)
def _value(keys, values, key):
    place = np.searchsorted(keys, key)
    return values[place] if place < len(keys) and keys[place] == key else 0.0
