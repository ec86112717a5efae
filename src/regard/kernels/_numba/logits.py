"""Operations on rows of logits on a CPU: exponentials, log-softmax, the gradient of the NLL, and top-k.

The softmax kernels process a row in chunks that fit the cache, and convert bfloat16 logits to float32 chunk
by chunk. Top-k prunes blocks: a first pass finds the maximum of each block of 64 values. The second pass
skips blocks whose maximum is below the k-th largest value found so far.
"""

import numpy as np
import torch
from numba import types

from regard.kernels._numba.arithmetic import (
    LOWEST_ORDER_KEY,
    exp_float32,
    float_bits,
    float_from_bits,
    max_order_key,
    order_key,
)
from regard.kernels._numba.memory import (
    claim_units,
    float32_array,
    int64_array,
    read_arguments,
    read_float32,
    write_bfloat16,
)
from regard.kernels.compilation import cfunc, njit
from regard.kernels.threads import CHUNK_SIZE, argument_block, run_kernel
from regard.types import Tensor

_MIN_PARALLEL_SIZE = 1 << 13  # elements below which a single thread is faster; see `run_kernel`

_SoftmaxArguments = argument_block(
    "size",  # V
    "is_bfloat16",  # 1 if the logits are bfloat16, 0 if they are float32
    "logits",
    *("maxima", "means", "sums"),  # outputs of `exp_kernel`
    *("factors", "shifts", "gains", "targets"),  # inputs of `gradient_kernel`
    *("bias", "output"),  # of `log_softmax_kernel`
)
_softmax_arguments = read_arguments(_SoftmaxArguments)

_TopkArguments = argument_block(
    "size",  # V
    "k",
    *("input", "values", "indices"),  # [N, V], [N, k], [N, k]
)
_topk_arguments = read_arguments(_TopkArguments)

_ZERO = np.float32(0)
BLOCK_SIZE = 64
MAX_ORDER_KEY = np.int32(0x7FFFFFFF)
INFINITY_BITS = np.int32(0x7F800000)


@njit(fastmath={"reassoc"})
def _sum(values):
    """Return the sum of the values."""
    total = np.float32(0)
    for i in range(len(values)):
        total += values[i]
    return total


@njit(fastmath={"reassoc"})
def _replace_by_exp(values, top):
    """Replace each value by exp(value - top) and return the sum."""
    total = np.float32(0)
    for i in range(len(values)):
        values[i] = exp_float32(values[i] - top)
        total += values[i]
    return total


@cfunc(types.void(types.int64))
def exp_kernel(block: int) -> None:
    """Replace each row z by exp(z - max z), and write max z, mean z and the sum of the results."""
    args = _softmax_arguments(block)
    rows, size, half = args.units, args.size, args.is_bfloat16
    width = 2 if half else 4
    tops, means = (
        float32_array(args.maxima, rows),
        float32_array(args.means, rows),
    )
    sums = float32_array(args.sums, rows)
    scratch = np.empty(CHUNK_SIZE, np.float32)
    begin, end = claim_units(block)
    while begin < end:
        for row in range(begin, end):
            start = args.logits + row * size * width
            # The maximum is taken over integers in the order of the floats, which LLVM vectorizes.
            highest, total = LOWEST_ORDER_KEY, 0.0
            for first in range(0, size, CHUNK_SIZE):
                values = read_float32(start + width * first, half, scratch[: min(CHUNK_SIZE, size - first)])
                highest = max_order_key(values, highest)
                total += _sum(values)
            tops[row] = top = float_from_bits(np.uint32(order_key(highest)))
            means[row] = total / size
            total = 0.0
            for first in range(0, size, CHUNK_SIZE):
                values = read_float32(start + width * first, half, scratch[: min(CHUNK_SIZE, size - first)])
                total += _replace_by_exp(values, top)
                if half:
                    write_bfloat16(start + width * first, values)
            sums[row] = total
        begin, end = claim_units(block)


@njit(fastmath={"reassoc"})
def _sum_exp(values, top):
    """Return the sum of exp(value - top)."""
    total = np.float32(0)
    for i in range(len(values)):
        total += exp_float32(values[i] - top)
    return total


@cfunc(types.void(types.int64))
def log_softmax_kernel(block: int) -> None:
    """Write z + bias - log sum exp(z + bias) for the logits z of each row."""
    args = _softmax_arguments(block)
    size, half = args.size, args.is_bfloat16
    width = 2 if half else 4
    bias = float32_array(args.bias, size)
    scratch = np.empty(CHUNK_SIZE, np.float32)
    begin, end = claim_units(block)
    while begin < end:
        for row in range(begin, end):
            start = args.logits + row * size * width
            found = float32_array(args.output + 4 * row * size, size)
            highest, total = LOWEST_ORDER_KEY, 0.0
            for first in range(0, size, CHUNK_SIZE):
                count = min(CHUNK_SIZE, size - first)
                values = read_float32(start + width * first, half, scratch[:count])
                part, added = found[first : first + count], bias[first : first + count]
                for i in range(count):
                    part[i] = values[i] + added[i]
                highest = max_order_key(part, highest)
            top = float_from_bits(np.uint32(order_key(highest)))
            for first in range(0, size, CHUNK_SIZE):
                total += _sum_exp(found[first : first + CHUNK_SIZE], top)
            log_normalizer = np.float32(top + np.log(total))
            for i in range(size):
                found[i] -= log_normalizer
        begin, end = claim_units(block)


@cfunc(types.void(types.int64))
def gradient_kernel(block: int) -> None:
    """Multiply each row by its factor, add its shift, and add its gain at the target."""
    args = _softmax_arguments(block)
    rows, size, half = args.units, args.size, args.is_bfloat16
    width = 2 if half else 4
    factors, shifts = (
        float32_array(args.factors, rows),
        args.shifts,
    )
    gains, targets = (
        float32_array(args.gains, rows),
        int64_array(args.targets, rows),
    )
    scratch = np.empty(CHUNK_SIZE, np.float32)
    begin, end = claim_units(block)
    while begin < end:
        for row in range(begin, end):
            start = args.logits + row * size * width
            factor = factors[row]
            shift = float32_array(shifts, rows)[row] if shifts else _ZERO
            for first in range(0, size, CHUNK_SIZE):
                values = read_float32(start + width * first, half, scratch[: min(CHUNK_SIZE, size - first)])
                for i in range(len(values)):
                    values[i] = values[i] * factor + shift
                target = targets[row] - first
                if 0 <= target < len(values):
                    values[target] += gains[row]
                if half:
                    write_bfloat16(start + width * first, values)
        begin, end = claim_units(block)


@njit
def _total_order_key(value):
    """Return an integer that orders values as floats are ordered, with -0 equal to 0 and NaN above all."""
    pattern = np.int32(float_bits(value + _ZERO))
    # The comparison uses integers only; otherwise LLVM does not vectorize loops over this function.
    return MAX_ORDER_KEY if np.int32(pattern & MAX_ORDER_KEY) > INFINITY_BITS else order_key(pattern)


@njit
def _max_total_order_key(values):
    """Return the maximum of `_total_order_key` over the values."""
    highest = LOWEST_ORDER_KEY
    for i in range(len(values)):
        found = _total_order_key(values[i])
        highest = found if found > highest else highest
    return highest


@njit
def _kth_bound(block_maxima, scratch):
    """Return a lower bound of the k-th largest order key: the k-th largest block maximum.

    k is the length of `scratch`.
    """
    scratch[:] = LOWEST_ORDER_KEY
    for top in block_maxima:
        if top > scratch[-1]:
            i = len(scratch) - 1
            while i > 0 and scratch[i - 1] < top:
                scratch[i] = scratch[i - 1]
                i -= 1
            scratch[i] = top
    return scratch[-1]


@njit
def _insert(value, position, values, positions, filled):
    """Insert a value into a list sorted in descending order; if the list is full, its last value is dropped.

    Args:
        value: The value.
        position: Its position in the row.
        values: The sorted values.
        positions: Their positions in the row.
        filled: Number of values in the list.
    """
    i = min(filled, len(values) - 1)
    while i > 0 and _total_order_key(values[i - 1]) < _total_order_key(value):
        values[i], positions[i] = values[i - 1], positions[i - 1]
        i -= 1
    values[i], positions[i] = value, position


@cfunc(types.void(types.int64))
def topk_kernel(block: int) -> None:
    """Write the k largest values of each row and their positions."""
    args = _topk_arguments(block)
    size, count = args.size, args.k
    block_maxima, scratch = (
        np.empty((size + BLOCK_SIZE - 1) // BLOCK_SIZE, np.int32),
        np.empty(count, np.int32),
    )
    begin, end = claim_units(block)
    while begin < end:
        for row in range(begin, end):
            start = args.input + 4 * row * size
            top_values = float32_array(args.values + 4 * row * count, count)
            top_positions = int64_array(args.indices + 8 * row * count, count)
            for i in range(len(block_maxima)):
                block_maxima[i] = _max_total_order_key(
                    float32_array(start + 4 * BLOCK_SIZE * i, min(BLOCK_SIZE, size - BLOCK_SIZE * i))
                )
            # Values below this bound are not among the k largest. Equal values may be, since ties are
            # resolved in favor of the first.
            filled, bound = 0, _kth_bound(block_maxima, scratch)
            for i in range(len(block_maxima)):
                if block_maxima[i] < bound or (filled == count and block_maxima[i] == bound):
                    continue
                values = float32_array(start + 4 * BLOCK_SIZE * i, min(BLOCK_SIZE, size - BLOCK_SIZE * i))
                for j in range(len(values)):
                    key = _total_order_key(values[j])
                    if key > bound or (filled < count and key == bound):
                        _insert(values[j], BLOCK_SIZE * i + j, top_values, top_positions, filled)
                        filled = min(filled + 1, count)
                        bound = (
                            max(bound, _total_order_key(top_values[filled - 1])) if filled == count else bound
                        )
        begin, end = claim_units(block)


def _run_softmax(kernel: object, logits: Tensor, **operands: Tensor) -> None:
    """Run a kernel over the rows of the logits; all operands must be contiguous."""
    assert logits.is_contiguous() and all(operand.is_contiguous() for operand in operands.values())
    if logits.numel():
        addresses = {name: operand.data_ptr() for name, operand in operands.items()}
        rows, size = logits.shape
        block = _SoftmaxArguments(
            size=size, is_bfloat16=logits.dtype == torch.bfloat16, logits=logits.data_ptr(), **addresses
        )
        run_kernel(kernel, block, rows, single_threaded=logits.numel() < _MIN_PARALLEL_SIZE)


def exp_logits(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Replace the logits by exponentials in place; see `kernels.logits.exp_logits`."""
    maxima, means, sums = (logits.new_empty(len(logits), dtype=torch.float32) for _ in range(3))
    _run_softmax(exp_kernel, logits, maxima=maxima, means=means, sums=sums)
    return maxima, means, sums


def nll_gradient(
    exp_values: Tensor, factors: Tensor, shifts: Tensor | None, gains: Tensor, targets: Tensor
) -> None:
    """Replace the exponentials by the gradient in place; see `kernels.logits.nll_gradient`."""
    coefficients = {"factors": factors, "gains": gains} | ({} if shifts is None else {"shifts": shifts})
    operands = {name: operand.to(torch.float32).contiguous() for name, operand in coefficients.items()}
    _run_softmax(gradient_kernel, exp_values, **operands, targets=targets.to(torch.int64).contiguous())


def log_softmax(logits: Tensor, bias: Tensor) -> Tensor:
    """Compute the log-softmax of logits + bias; see `kernels.logits.log_softmax`."""
    found = logits if logits.dtype == torch.float32 else torch.empty_like(logits, dtype=torch.float32)
    _run_softmax(log_softmax_kernel, logits, bias=bias.to(torch.float32).contiguous(), output=found)
    return found


def topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest values of each row and their positions; see `kernels.logits.topk`."""
    rows, size = values.shape
    found, positions = values.new_empty(rows, k), values.new_empty(rows, k, dtype=torch.int64)
    if found.numel():
        block = _TopkArguments(
            size=size,
            k=k,
            input=values.data_ptr(),
            values=found.data_ptr(),
            indices=positions.data_ptr(),
        )
        run_kernel(topk_kernel, block, rows, single_threaded=values.numel() < _MIN_PARALLEL_SIZE)
    return found, positions
