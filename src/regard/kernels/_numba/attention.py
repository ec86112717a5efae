"""Softmax attention for one query row at a time on a CPU.

For each row and head the kernel computes the scores of all positions, their softmax, and the weighted sum of
the values. Inner products and weighted sums use vectors of sixteen float32: LLVM does not vectorize the
equivalent scalar loops, which are too short or too deeply nested. Memory is addressed in bytes.
"""

from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import models, register_model

from regard.kernels._numba.arithmetic import FLOAT, call_llvm, emits, exp_float32, float_from_bits, splat
from regard.kernels._numba.memory import (
    bool_array,
    claim_units,
    float32_array,
    int64_array,
    read_arguments,
    read_float32,
    write_bfloat16,
)
from regard.kernels.compilation import cfunc, njit
from regard.kernels.threads import argument_block, run_kernel
from regard.types import Tensor

_MIN_PARALLEL_SIZE = 1 << 12  # work below which a single thread is faster; see `run_kernel`

_Arguments = argument_block(
    "heads",  # H
    "positions",  # number of positions, T
    *("key_size", "value_size"),  # size of a head's keys (and queries) and of its values (and contexts)
    *("key_stride", "value_stride"),  # distance between the keys or values of two positions, in elements
    "is_bfloat16",  # 1 if queries, keys, values and contexts are bfloat16, 0 if they are float32
    "scale",  # factor of the scores, as the bits of a float32
    *("queries", "keys", "values", "contexts"),
    "slots",  # [rows, T], int64
    "sentences",  # [rows], int64; without slots: the sentence that each row attends to, T positions each
    "mask",  # [sentences, T], bool
    "weights",  # [rows, H, T], float32; output
)
_arguments_of = read_arguments(_Arguments)

VECTOR_WIDTH = 16
_ZERO, MASKED_SCORE = np.float32(0), np.float32(-np.inf)
_VECTOR = ir.VectorType(FLOAT, VECTOR_WIDTH)


class _Float32VectorType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Float32Vector")


_vector = _Float32VectorType()


@register_model(_Float32VectorType)
class _Float32VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


@emits(_vector, types.float32)
def _fill(builder: Any, value: Any) -> Any:
    """Return a vector with the value in every lane."""
    return splat(builder, value, _VECTOR)


@emits(_vector, types.int64)
def _load(builder: Any, address: Any) -> Any:
    """Load sixteen float32 from an address."""
    return builder.load(builder.inttoptr(address, ir.PointerType()), typ=_VECTOR, align=4)


@emits(types.void, types.int64, _vector)
def _store(builder: Any, address: Any, value: Any) -> None:
    """Store sixteen float32 at an address."""
    builder.store(value, builder.inttoptr(address, ir.PointerType()), align=4)


@emits(_vector, _vector, _vector, _vector)
def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once."""
    return call_llvm(builder, f"llvm.fma.v{VECTOR_WIDTH}f32", _VECTOR, [a, b, c])


@emits(types.float32, _vector)
def _total(builder: Any, value: Any) -> Any:
    """Return the sum of the lanes, in unspecified order."""
    name, operands = f"llvm.vector.reduce.fadd.v{VECTOR_WIDTH}f32", [ir.Constant(FLOAT, 0.0), value]
    return call_llvm(builder, name, FLOAT, operands, fastmath=("reassoc",))


@njit(fastmath={"contract"})
def _inner_product(left, right, size):
    """Return the inner product of two vectors of `size` float32 at the addresses `left` and `right`."""
    found, whole = _fill(_ZERO), size - size % VECTOR_WIDTH
    for i in range(0, whole, VECTOR_WIDTH):
        found = _fma(_load(left + 4 * i), _load(right + 4 * i), found)
    total = _total(found)
    if whole < size:
        a, b = float32_array(left + 4 * whole, size - whole), float32_array(right + 4 * whole, size - whole)
        for i in range(size - whole):
            total += a[i] * b[i]
    return total


@njit(fastmath={"contract"})
def _weighted_sum(out, weights, addresses, num_vectors, offset, size):
    """Write a weighted sum of vectors.

    Args:
        out: Address of the result, `size` float32.
        weights: Address of the weights, float32.
        addresses: Array of base addresses, one per vector.
        num_vectors: Number of vectors.
        offset: Offset in bytes of each vector from its base address.
        size: Size of the vectors.
    """
    shares, whole = float32_array(weights, num_vectors), size - size % VECTOR_WIDTH
    for i in range(0, whole, VECTOR_WIDTH):
        total = _fill(_ZERO)
        for j in range(num_vectors):
            total = _fma(_fill(shares[j]), _load(addresses[j] + offset + 4 * i), total)
        _store(out + 4 * i, total)
    rest = float32_array(out + 4 * whole, size - whole)
    for i in range(size - whole):
        rest[i] = _ZERO
        for j in range(num_vectors):
            rest[i] += shares[j] * float32_array(addresses[j] + offset + 4 * whole, size - whole)[i]


@njit(fastmath={"reassoc"}, error_model="numpy")
def _softmax(scores, count):
    """Replace the first `count` scores by their softmax; the length of the array is a multiple of 16."""
    top = MASKED_SCORE
    for i in range(count):
        top = scores[i] if scores[i] > top else top
    for i in range(count, len(scores)):
        scores[i] = MASKED_SCORE
    total = np.float32(0)
    for first in range(0, len(scores), VECTOR_WIDTH):
        for i in range(VECTOR_WIDTH):  # a fixed trip count lets LLVM vectorize even very short rows
            scores[first + i] = exp_float32(scores[first + i] - top)
            total += scores[first + i]
    for i in range(count):
        scores[i] /= total


@njit
def _as_float32(address, half, scratch, count):
    """Return the address of `count` values in float32; bfloat16 values are converted in `scratch`."""
    if not half:
        return address
    read_float32(address, half, float32_array(scratch, count))
    return scratch


@njit
def _attention_rows(block, floats, integers):
    """Compute attention for all rows with the scratch memory that is passed in.

    The function works on addresses rather than arrays, because Numba counts references to arrays and would
    do so for every position.

    Args:
        block: Address of the argument block.
        floats: Scratch memory, float32.
        integers: Scratch memory, int64.
    """
    args = _arguments_of(block)
    rows, heads, length = args.units, args.heads, args.positions
    key_size, value_size, half = args.key_size, args.value_size, args.is_bfloat16
    size = 2 if half else 4
    scale = float_from_bits(np.uint32(args.scale))
    sentences = int64_array(args.sentences, rows)
    # Layout of the scratch memory. Keys and values have space there only if they must be converted.
    converted = length if half else 0
    query_scratch = np.int64(floats.ctypes.data)
    context_scratch = query_scratch + 4 * heads * key_size
    key_scratch = context_scratch + 4 * heads * value_size
    value_scratch = key_scratch + 4 * heads * key_size * converted
    weights_scratch = value_scratch + 4 * heads * value_size * converted
    index_scratch = np.int64(integers.ctypes.data)
    positions = int64_array(index_scratch, length)
    key_addresses = int64_array(index_scratch + 8 * length, length)
    value_addresses = int64_array(index_scratch + 16 * length, length)
    begin, end = claim_units(block)
    while begin < end:
        for row in range(begin, end):
            query = _as_float32(
                args.queries + size * row * heads * key_size, half, query_scratch, heads * key_size
            )
            sentence = row if args.slots else sentences[row]
            slots, mask = (
                int64_array(args.slots + 8 * row * length, length),
                bool_array(args.mask + sentence * length, length),
            )
            # Collect the addresses of the keys and values of the positions that are not masked.
            count = 0
            for j in range(length):
                if args.mask and not mask[j]:
                    continue
                slot = slots[j] if args.slots else sentence * length + j
                key, scratch = (
                    args.keys + size * slot * args.key_stride,
                    key_scratch + 4 * count * heads * key_size,
                )
                key_addresses[count] = _as_float32(key, half, scratch, heads * key_size)
                value, scratch = (
                    args.values + size * slot * args.value_stride,
                    value_scratch + 4 * count * heads * value_size,
                )
                value_addresses[count] = _as_float32(value, half, scratch, heads * value_size)
                positions[count] = j
                count += 1
            start = args.contexts + size * row * heads * value_size
            context = context_scratch if half else start
            weights = float32_array(
                weights_scratch, (count + VECTOR_WIDTH - 1) // VECTOR_WIDTH * VECTOR_WIDTH
            )
            for h in range(heads):
                offset = 4 * h * key_size
                for j in range(count):
                    weights[j] = scale * _inner_product(query + offset, key_addresses[j] + offset, key_size)
                _softmax(weights, count)
                offset = 4 * h * value_size
                _weighted_sum(context + offset, weights_scratch, value_addresses, count, offset, value_size)
                if args.weights:
                    row_weights = float32_array(args.weights + 4 * (row * heads + h) * length, length)
                    row_weights[:] = _ZERO
                    for j in range(count):
                        row_weights[positions[j]] = weights[j]
            if half:
                write_bfloat16(start, float32_array(context, heads * value_size))
        begin, end = claim_units(block)


@cfunc(types.void(types.int64))
def attention_kernel(block: int) -> None:
    """Compute softmax attention for the rows of an argument block."""
    args = _arguments_of(block)
    row_size = args.heads * (args.key_size + args.value_size)
    num_floats = row_size * (1 + (args.positions if args.is_bfloat16 else 0)) + args.positions + VECTOR_WIDTH
    _attention_rows(block, np.empty(num_floats, np.float32), np.empty(3 * args.positions, np.int64))


def run_attention(
    queries: Tensor, contexts: Tensor, num_heads: int, num_positions: int, **arguments: int
) -> None:
    """Run the kernel, which writes the contexts.

    Args:
        queries: [R, H K], contiguous.
        contexts: [R, H V], contiguous; output.
        num_heads: H.
        num_positions: T.
        arguments: The other arguments of the kernel; see `_Arguments`.
    """
    block = _Arguments(
        heads=num_heads,
        positions=num_positions,
        key_size=queries.shape[1] // num_heads,
        value_size=contexts.shape[1] // num_heads,
        is_bfloat16=queries.dtype == torch.bfloat16,
        queries=queries.data_ptr(),
        contexts=contexts.data_ptr(),
        **arguments,
    )
    small = num_positions * (queries.numel() + contexts.numel()) < _MIN_PARALLEL_SIZE
    run_kernel(attention_kernel, block, len(queries), single_threaded=small)
