"""Tests of the sparse translation table and its cells against explicit constructions."""

import numpy as np
import pytest
import torch
from aligner_text import table_probability

from regard.alignment import em
from regard.alignment.base import split_evenly
from regard.alignment.corpus import Corpus
from regard.alignment.em import TranslationTable, iterate_blocks
from regard.alignment.em_kernels import MIN_PROBABILITY, digamma
from regard.alignment.word_aligner import count_fertilities, max_fertilities


def rows(table):
    bounds = zip(table.starts[:-1], table.starts[1:], strict=True)
    return [table.columns[first:last].tolist() for first, last in bounds]


def test_row_holds_cooccurring_words_and_null_row_holds_all(small):
    table = TranslationTable.of(small)
    wanted = [set() for _ in range(len(small.source.words))]
    for row in range(len(small)):
        for word in small.source.sentence(row):
            wanted[word] |= set(small.target.sentence(row).tolist())
    found = rows(table)
    assert [sorted(row) for row in found[:-1]] == [sorted(row) for row in wanted]
    assert found[-1] == list(range(len(small.target.words)))


@pytest.mark.parametrize("size", [1, 100, 1 << 24])
def test_slots_index_table_entries_for_any_block_size(small, size, monkeypatch):
    monkeypatch.setattr(em, "MAX_BLOCK_CELLS", size)
    table = TranslationTable.of(small)
    seen = 0
    for block in iterate_blocks(small, table, 2):
        for row in range(len(block.corpus)):
            source, target = block.corpus.source.sentence(row), block.corpus.target.sentence(row)
            slots = block.layout.slots[block.layout.cells[row] : block.layout.cells[row + 1]].reshape(
                len(source), len(target)
            )
            for i, word in enumerate(source):
                assert table.columns[slots[i]].tolist() == target.tolist()
                assert (table.starts[word] <= slots[i]).all() and (slots[i] < table.starts[word + 1]).all()
        seen += len(block.corpus)
    assert seen == len(small)


def test_unseen_pairs_and_unknown_words_have_no_slot():
    corpus = Corpus.from_tokens([(["a"], ["x"]), (["b"], ["y"])])
    words = (corpus.source.words, corpus.target.words)
    new = Corpus.from_tokens([(["a", "c"], ["y", "x", "z"]), ([], ["x"])], words, allow_empty=True)
    (block,) = iterate_blocks(new, TranslationTable.of(corpus), 1)
    assert (block.layout.slots >= 0).tolist() == [False, True, False, False, False, False]


def test_counts_are_sums_of_posteriors(small):
    table = TranslationTable.of(small)
    random = np.random.default_rng(1)
    counts, wanted = np.zeros(len(table.columns)), np.zeros(len(table.columns))
    for block in iterate_blocks(small, table, 2):
        links = random.random(len(block.layout.slots), dtype=np.float32)
        null = random.random(int(small.target.lengths.sum()), dtype=np.float32)
        block.accumulate(links, null, table, counts, 2)
        np.add.at(wanted, block.layout.slots, links.astype(np.float64))
        np.add.at(wanted, table.starts[-2] + small.target.tokens, null.astype(np.float64))
    np.testing.assert_allclose(counts, wanted, rtol=1e-12)


def test_digamma_matches_pytorch():
    for x in (0.01, 0.3, 1.0, 6.9, 7.0, 123.4):
        wanted = torch.digamma(torch.tensor(x, dtype=torch.float64)).item()
        assert digamma(x) == pytest.approx(wanted, rel=1e-9)


def test_update_normalizes_without_prior_and_applies_variational_bayes_with_prior():
    # Dyer, Chahuneau & Smith (2013): exp(psi(c + alpha) - psi(sum of c + alpha)).
    corpus = Corpus.from_tokens([(["a"], ["x", "y"])])
    table = TranslationTable.of(corpus)
    table.update(np.array([3.0, 1.0, 0.0, 0.0]), 0.0, 1)
    assert table.values.tolist() == [0.75, 0.25, 0.5, 0.5]
    table.update(np.array([3.0, 1.0, 2.0, 0.0]), 0.01, 1)
    psi = torch.digamma(torch.tensor([3.01, 1.01, 4.02, 2.01, 0.01, 2.02], dtype=torch.float64))
    wanted = torch.exp(psi[[0, 1, 3, 4]] - psi[[2, 2, 5, 5]]).clamp(min=MIN_PROBABILITY)
    np.testing.assert_allclose(table.values, wanted, rtol=1e-6)


def test_pruning_keeps_every_probability(small):
    table = TranslationTable.of(small)
    table.values[::2] = 0
    pruned = TranslationTable(**table.arrays())
    assert len(pruned.columns) < len(table.columns)
    for source in range(table.words + 1):
        for target in range(len(table.nulls)):
            assert table_probability(pruned, source, target) == table_probability(table, source, target)


def test_cut_gives_contiguous_nonempty_ranges():
    for costs in (np.zeros(5), np.arange(100), np.array([1, 0, 0, 1000, 1])):
        ranges = split_evenly(costs, 7)
        assert [item for first, last in ranges for item in range(first, last)] == list(range(len(costs)))
        assert len(ranges) <= 7 and all(first < last for first, last in ranges)
    assert split_evenly(np.zeros(0)) == []


def test_fertility_is_the_number_of_linked_target_words_and_at_least_one_per_word():
    corpus = Corpus.from_tokens(
        [(["im", "Haus"], ["in", "the", "house"]), (["Haus"], ["a", "house"]), (["ja"], ["yes"])]
    )
    counts = count_fertilities(corpus, np.array([0, 0, 1, -1, 0, -1], dtype=np.int32))
    assert counts.tolist() == [2, 1, 1, 0]
    largest = max_fertilities(corpus, counts).tolist()
    assert dict(zip(corpus.source.words.words, largest, strict=True)) == {"im": 2, "Haus": 1, "ja": 1}
