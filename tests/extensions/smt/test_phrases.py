"""Phrase pairs, their scores, and phrase tables."""

import numpy as np
import pytest
from toy_table import link_table, lookup, random_text

from regard.alignment.corpus import Corpus
from regard.errors import DataError
from regard.extensions.smt.extraction import extract_phrases
from regard.extensions.smt.phrase_table import PhraseTable, estimate_phrase_table
from regard.text.links import Links


def brute_force(m: int, n: int, links: Links, longest: int) -> set[tuple[int, int, int, int]]:
    """Return all pairs of spans that are consistent with the links.

    At least one link must lie inside the pair, and no link may leave it.
    """
    found = set()
    for i1 in range(m):
        for i2 in range(i1 + 1, min(m, i1 + longest) + 1):
            for j1 in range(n):
                for j2 in range(j1 + 1, min(n, j1 + longest) + 1):
                    inside = [(i1 <= i < i2, j1 <= j < j2) for i, j in links]
                    if any(a and b for a, b in inside) and all(a == b for a, b in inside):
                        found.add((i1, i2, j1, j2))
    return found


@pytest.mark.parametrize("longest", [1, 3, 7])
def test_phrase_pairs_equal_the_definition(longest: int) -> None:
    text, links = random_text(5, 60, 9)
    found = extract_phrases(Corpus.from_tokens(text), link_table(links), longest)
    for row, ((source, target), linked) in enumerate(zip(text, links, strict=True)):
        places = np.flatnonzero(found.rows == row)
        source_ends = found.source_starts + found.source_lengths
        target_ends = found.target_starts + found.target_lengths
        columns = (found.source_starts, source_ends, found.target_starts, target_ends)
        spans = list(zip(*(column[places].tolist() for column in columns), strict=True))
        assert len(set(spans)) == len(spans)
        assert set(spans) == brute_force(len(source), len(target), linked, longest)
        for k, (i1, i2, j1, j2) in zip(places, spans, strict=True):
            inside = {(i - i1, j - j1) for i, j in linked if i1 <= i < i2 and j1 <= j < j2}
            assert {(b // 7, b % 7) for b in range(49) if int(found.links[k]) >> b & 1} == inside


def test_orientations_follow_the_adjacent_links() -> None:
    # Two swapped words, then one in monotone order.
    text = [(["a", "b", "c"], ["B", "A", "C"])]
    found = extract_phrases(Corpus.from_tokens(text), link_table([frozenset({(0, 1), (1, 0), (2, 2)})]), 1)
    kinds = zip(found.backward.tolist(), found.forward.tolist(), strict=True)
    by_source = dict(zip(found.source_starts.tolist(), kinds, strict=True))
    monotone, swap, discontinuous = range(3)
    # B comes first, followed by A, whose source word is to the left. C is last in both sentences.
    assert by_source[1] == (discontinuous, swap)
    assert by_source[0] == (swap, discontinuous)
    assert by_source[2] == (discontinuous, monotone)


TEXT = [(["a", "b"], ["A", "B"]), (["a"], ["A"]), (["a"], ["C"])]
LINKS = [frozenset({(0, 0), (1, 1)}), frozenset({(0, 0)}), frozenset({(0, 0)})]


def scores(table: PhraseTable, corpus: Corpus, source: str, target: str) -> list[float]:
    """Return the scores of a phrase pair as probabilities."""
    numbers = corpus.target.words.numbers(target.split())
    for entry in lookup(table, corpus.source.words.numbers(source.split())):
        if table.target(entry).tolist() == numbers:
            return np.exp(table.scores[entry]).tolist()
    raise AssertionError(f"no {source} ||| {target}")


def test_scores_equal_manual_calculation() -> None:
    corpus = Corpus.from_tokens(TEXT)
    table = estimate_phrase_table(corpus, link_table(LINKS), smoothing="none")
    assert scores(table, corpus, "a", "A") == pytest.approx([2 / 3, 2 / 3, 1, 1])
    assert scores(table, corpus, "a b", "A B") == pytest.approx([1, 2 / 3, 1, 1])
    assert not lookup(table, [99])


def test_smoothing_reserves_probability_for_unseen_phrases() -> None:
    text, links = random_text(5, 60)
    corpus = Corpus.from_tokens(text)
    table = estimate_phrase_table(corpus, link_table(links), 3)
    for word in range(len(corpus.source.words)):
        found = lookup(table, [word])
        total = np.exp(table.scores[found.start : found.stop, 0]).sum()
        assert 0.5 < total < 1


def test_text_without_links_is_rejected() -> None:
    with pytest.raises(DataError, match="no phrase pair"):
        estimate_phrase_table(Corpus.from_tokens(TEXT), link_table([frozenset()] * 3))
