"""Softmax attention for one query row at a time on a CPU, without copies of keys and values."""

import math

import numpy as np

from regard.kernels._numba.rows import run_rows
from regard.kernels.compilation import njit
from regard.types import Tensor

_ZERO, _MASKED = np.float32(0), np.float32(-np.inf)


@njit(fastmath={"reassoc", "contract"})
def _inner_product(left, right):
    """Return the inner product of two vectors; sums may be reordered, which vectorization needs."""
    total = _ZERO
    for i in range(len(left)):
        total += left[i] * right[i]
    return total


@njit(fastmath={"contract"})
def _add_scaled(out, scale, values):
    """Add a multiple of a vector."""
    for i in range(len(out)):
        out[i] += scale * values[i]


@njit
def _softmax(scores):
    """Replace the scores by their softmax, which is 0 where all scores are -inf."""
    top, total = _MASKED, _ZERO
    for i in range(len(scores)):
        top = scores[i] if scores[i] > top else top
    for i in range(len(scores)):
        scores[i] = math.exp(scores[i] - top)
        total += scores[i]
    for i in range(len(scores)):
        scores[i] /= total


@njit(cache=True, nogil=True, error_model="numpy")
def _slot_rows(begin, end, queries, entries, slots, num_heads, scale, contexts):
    """Write attention to slots, [B, D], for some rows; entries are [N, 2 D], keys followed by values."""
    width, length = queries.shape[1], slots.shape[1]
    size = width // num_heads
    weights = np.empty(length, np.float32)
    for row in range(begin, end):
        contexts[row] = _ZERO
        for first in range(0, width, size):
            query, context = queries[row, first : first + size], contexts[row, first : first + size]
            for j in range(length):
                weights[j] = scale * _inner_product(query, entries[slots[row, j], first : first + size])
            _softmax(weights)
            start = width + first
            for j in range(length):
                _add_scaled(context, weights[j], entries[slots[row, j], start : start + size])
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _source_rows(begin, end, queries, keys, values, mask, sentences, weights, contexts):
    """Write the weights, [R, S], and contexts, [R, D], of attention to the source for some rows."""
    length = mask.shape[1]
    positions, shares = np.empty(length, np.int64), np.empty(length, np.float32)
    for row in range(begin, end):
        sentence, count = sentences[row], 0
        for j in range(length):
            if mask[sentence, j]:
                positions[count] = j
                shares[count] = _inner_product(queries[row], keys[sentence, j])
                count += 1
        _softmax(shares[:count])
        weights[row], contexts[row] = _ZERO, _ZERO
        for i in range(count):
            weights[row, positions[i]] = shares[i]
            _add_scaled(contexts[row], shares[i], values[sentence, positions[i]])
    return True


def slot_attention(queries: Tensor, store: Tensor, slots: Tensor, num_heads: int, contexts: Tensor) -> None:
    """Write the contexts of attention to slots; all tensors must be contiguous."""
    scale = np.float32((queries.shape[1] // num_heads) ** -0.5)
    arrays = queries.numpy(), store.numpy(), slots.numpy()
    work = slots.shape[1] * queries.numel()
    run_rows(_slot_rows, len(queries), work, *arrays, num_heads, scale, contexts.numpy())


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
    operands = queries, keys, values, mask, sentence_index, weights, contexts
    work = mask.shape[1] * (queries.numel() + contexts.numel())
    run_rows(_source_rows, len(queries), work, *(operand.numpy() for operand in operands))
