"""Tests of symmetrization against the published pseudocode of Koehn et al. (2005)."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.alignment.corpus import Corpus
from regard.alignment.symmetrize import symmetrize

NEIGHBORS = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


@st.composite
def directions(draw):
    """Sample the links of both directions of a sentence pair, one head or -1 per word."""
    m, n = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    forward = draw(st.lists(st.integers(-1, m - 1), min_size=n, max_size=n))
    backward = draw(st.lists(st.integers(-1, n - 1), min_size=m, max_size=m))
    return forward, backward


def symmetrized(forward, backward, method):
    corpus = Corpus.from_tokens([(["s"] * len(backward), ["t"] * len(forward))])
    table = symmetrize(corpus, np.array(forward, np.int32), np.array(backward, np.int32), method)
    (links,) = table
    assert list(table.lines()) == [" ".join(f"{i}-{j}" for i, j in sorted(links))]
    return links


def sets(forward, backward):
    one = {(i, j) for j, i in enumerate(forward) if i >= 0}
    return one, {(i, j) for i, j in enumerate(backward) if j >= 0}


def published(forward, backward, final):
    """Return the links of GROW-DIAG-FINAL as printed in Koehn et al. (2005), with English as the target."""
    one, other = sets(forward, backward)
    links, union = one & other, one | other

    def free(i, j):
        return all(i != a for a, _ in links) + all(j != b for _, b in links)

    while True:
        before = len(links)
        for j in range(len(forward)):
            for i in range(len(backward)):
                if (i, j) in links:
                    for a, b in ((i + di, j + dj) for di, dj in NEIGHBORS):
                        if free(a, b) and (a, b) in union:
                            links.add((a, b))
        if len(links) == before:
            break
    for direction in (one, other) if final else ():
        for j in range(len(forward)):
            for i in range(len(backward)):
                if (i, j) in direction and free(i, j) >= (2 if final == "and" else 1):
                    links.add((i, j))
    return links


@given(directions())
def test_grow_diag_matches_published_pseudocode(pair):
    for method, final in (("grow-diag", ""), ("grow-diag-final", "or"), ("grow-diag-final-and", "and")):
        assert symmetrized(*pair, method) == published(*pair, final)


@given(directions())
def test_symmetrization_methods_are_nested(pair):
    one, other = sets(*pair)
    inter, diag, both, final, union = (
        symmetrized(*pair, method)
        for method in ("intersection", "grow-diag", "grow-diag-final-and", "grow-diag-final", "union")
    )
    assert inter == one & other and union == one | other
    assert inter <= diag <= both <= union and diag <= final <= union
    assert symmetrized(*pair, "forward") == one and symmetrized(*pair, "backward") == other


def test_links_keep_the_order_of_pairs():
    corpus = Corpus.from_tokens([(["a", "b"], ["x"]), (["a"], ["x", "y"])])
    table = symmetrize(corpus, np.array([1, -1, 0], np.int32), np.array([-1, 0, 1], np.int32), "intersection")
    assert list(table) == [{(1, 0)}, {(0, 1)}]
    assert len(table) == 2
