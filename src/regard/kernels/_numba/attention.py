"""Softmax attention for one query row at a time on a CPU, without copies of keys and values."""

import math

import numpy as np

from regard.kernels._numba.rows import run_rows
from regard.kernels.compilation import njit
from regard.types import Tensor

_ZERO, _MASKED = np.float32(0), np.float32(-np.inf)


# The functions below receive whole arrays and indices. Numba counts references to every slice, which takes
# longer than the arithmetic of a head.


@njit(fastmath={"reassoc", "contract"})
def _inner_product(queries, row, head, keys, entry, part):
    """Return the inner product of a query and a key; sums may be reordered, which vectorization needs."""
    total = _ZERO
    for i in range(queries.shape[2]):
        total += queries[row, head, i] * keys[entry, part, i]
    return total


@njit(fastmath={"contract"})
def _add_scaled(contexts, row, head, weight, values, entry, part):
    """Add a multiple of a value to a context."""
    for i in range(contexts.shape[2]):
        contexts[row, head, i] += weight * values[entry, part, i]


@njit
def _softmax(scores, count):
    """Replace the first scores by their softmax, which is 0 where all scores are -inf."""
    top, total = _MASKED, _ZERO
    for i in range(count):
        top = scores[i] if scores[i] > top else top
    for i in range(count):
        scores[i] = math.exp(scores[i] - top)
        total += scores[i]
    for i in range(count):
        scores[i] /= total


@njit(cache=True, nogil=True, error_model="numpy")
def _slot_rows(begin, end, queries, entries, slots, scale, contexts):
    """Write attention to slots, [B, H, E], for some rows; entries are [N, 2 H, E], keys, then values."""
    num_heads, length = queries.shape[1], slots.shape[1]
    weights = np.empty(length, np.float32)
    contexts[begin:end] = _ZERO
    for row in range(begin, end):
        for head in range(num_heads):
            for j in range(length):
                weights[j] = scale * _inner_product(queries, row, head, entries, slots[row, j], head)
            _softmax(weights, length)
            for j in range(length):
                _add_scaled(contexts, row, head, weights[j], entries, slots[row, j], num_heads + head)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _source_rows(begin, end, queries, keys, values, mask, sentences, weights, contexts):
    """Write the weights, [R, S], and contexts, [R, 1, D], of attention to the source for some rows."""
    length = mask.shape[1]
    positions, shares = np.empty(length, np.int64), np.empty(length, np.float32)
    weights[begin:end], contexts[begin:end] = _ZERO, _ZERO
    for row in range(begin, end):
        sentence, count = sentences[row], 0
        for j in range(length):
            if mask[sentence, j]:
                positions[count] = j
                shares[count] = _inner_product(queries, row, 0, keys, sentence, j)
                count += 1
        _softmax(shares, count)
        for i in range(count):
            weights[row, positions[i]] = shares[i]
            _add_scaled(contexts, row, 0, shares[i], values, sentence, positions[i])
    return True


def slot_attention(queries: Tensor, store: Tensor, slots: Tensor, num_heads: int, contexts: Tensor) -> None:
    """Write the contexts of attention to slots; all tensors must be contiguous."""
    queries, contexts = (x.view(len(queries), num_heads, -1) for x in (queries, contexts))
    scale = np.float32(queries.shape[2] ** -0.5)
    arrays = queries.numpy(), store.view(len(store), 2 * num_heads, -1).numpy(), slots.numpy()
    work = slots.shape[1] * queries.numel()
    run_rows(_slot_rows, len(queries), work, *arrays, scale, contexts.numpy())


def source_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor,
    sentence_index: Tensor,
    weights: Tensor,
    contexts: Tensor,
) -> None:
    """Write the weights and contexts of attention to the source; all tensors must be contiguous."""
    operands = queries.unsqueeze(1), keys, values, mask, sentence_index, weights, contexts.unsqueeze(1)
    work = mask.shape[1] * (queries.numel() + contexts.numel())
    run_rows(_source_rows, len(queries), work, *(operand.numpy() for operand in operands))
