"""Tests of batching: grouping by length, order, and padding."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batch import BatchConfig, collate, make_batches
from regard.text.vocabulary import EOS, PAD

lengths = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=200)
settings = st.builds(
    BatchConfig,
    batch_size=st.integers(1, 60),
    batch_unit=st.sampled_from(["sentences", "tokens"]),
    bucket_batches=st.integers(1, 8),
)


def columns(pairs):
    return np.array([p[0] for p in pairs], dtype=np.int64), np.array([p[1] for p in pairs], dtype=np.int64)


@given(lengths, settings, st.integers(0, 2**40), st.integers(0, 50))
def test_every_row_occurs_once_per_epoch(pairs, config, seed, epoch):
    made = make_batches(*columns(pairs), config, seed, epoch)
    assert all(len(batch) for batch in made)
    rows = np.concatenate([*made, np.zeros(0, dtype=np.int64)])
    assert sorted(rows.tolist()) == list(range(len(pairs)))


@given(lengths, settings)
def test_batches_respect_their_size_unless_a_single_pair_exceeds_it(pairs, config):
    source, target = columns(pairs)
    for batch in make_batches(source, target, config, 1, 0):
        widest = max(source[batch].max(), target[batch].max())
        size = len(batch) if config.batch_unit == "sentences" else len(batch) * widest
        assert size <= config.batch_size or len(batch) == 1


@given(lengths, settings, st.integers(0, 100), st.integers(0, 100))
def test_order_depends_only_on_seed_and_epoch(pairs, config, seed, epoch):
    first = make_batches(*columns(pairs), config, seed, epoch)
    np.random.seed(7)
    second = make_batches(*columns(pairs), config, seed, epoch)
    assert [b.tolist() for b in first] == [b.tolist() for b in second]


def test_sorting_within_pools_reduces_padding():
    random = np.random.default_rng(0)
    source = random.geometric(0.05, 5000) + 3
    target = source + random.integers(-2, 3, 5000)
    made = make_batches(source, target, BatchConfig(batch_size=50, bucket_batches=50), 1, 0)
    padded = sum(int(target[b].max()) * len(b) for b in made)
    unsorted = make_batches(source, target, BatchConfig(batch_size=50, bucket_batches=1), 1, 0)
    assert padded < 1.1 * target.sum()
    assert sum(int(target[b].max()) * len(b) for b in unsorted) > 1.5 * target.sum()


def test_collate_pads_on_the_right():
    batch = collate([[5, 6, 7], [8]], [[9, EOS], [9, 9, EOS]], [4, 2])
    assert batch.source.tokens.tolist() == [[5, 6, 7], [8, PAD, PAD]]
    assert batch.source.lengths.tolist() == [3, 1]
    assert batch.source.mask.tolist() == [[True, True, True], [True, False, False]]
    assert batch.target is not None
    assert batch.target.tokens.tolist() == [[9, EOS, PAD], [9, 9, EOS]]
    assert batch.rows.tolist() == [4, 2]
    assert batch.target_tokens == 5
    assert len(batch) == len(batch.source) == 2
    assert batch.source.tokens.dtype == batch.source.lengths.dtype == batch.rows.dtype == torch.int64


def test_empty_batches_and_empty_sentences_collate():
    assert collate([], None, []).source.tokens.shape == (0, 0)
    assert collate([[], [5]], None, [0, 1]).source.lengths.tolist() == [0, 1]


def test_moving_a_batch_moves_all_tensors():
    batch = collate([[5]], [[6, EOS]], [0], [np.ones(1)], [np.zeros(1)]).to("meta")
    assert batch.target is not None and batch.upper_bounds is not None and batch.lower_bounds is not None
    tensors = (batch.source.tokens, batch.source.lengths, batch.target.tokens, batch.target.lengths)
    bounds = (batch.upper_bounds, batch.lower_bounds)
    assert all(tensor.device.type == "meta" for tensor in (*tensors, *bounds, batch.rows))
