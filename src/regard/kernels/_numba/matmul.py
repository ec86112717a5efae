"""Quantization of rows to int8 on a CPU, and scaling of the integer results of a matrix multiplication."""

import numpy as np
import torch
from numba import types

from regard.kernels._numba.arithmetic import float_bits, float_from_bits
from regard.kernels._numba.memory import (
    claim_units,
    float32_array,
    int8_array,
    int32_array,
    read_arguments,
)
from regard.kernels.compilation import cfunc, njit
from regard.kernels.matmul import INT8_MAX
from regard.kernels.threads import CHUNK_SIZE, argument_block, run_kernel
from regard.types import Float, Int, Tensor

_MIN_PARALLEL_SIZE = 1 << 14  # elements below which a single thread is faster; see `run_kernel`

_Arguments = argument_block(
    "columns",  # number of columns
    *("input", "output"),  # float32 to int8, or int32 to float32, for which they may be the same
    *("row_scales", "column_scales"),
    "bias",  # of the columns
)
_arguments_of = read_arguments(_Arguments)

_MAGNITUDE, _INFINITE = np.int32(0x7FFFFFFF), np.int32(0x7F800000)
# 1.5 * 2^23: adding it to a number leaves the nearest integer, ties to even, in the last bits of the sum.
_SHIFT = np.float32(12582912.0)
_LEVELS = np.float32(INT8_MAX)


@njit
def _max_magnitude_bits(values):
    """Return the bits of the maximum magnitude, at least those of infinity if a value is not finite."""
    found = np.int32(0)
    for i in range(len(values)):
        one = np.int32(float_bits(values[i])) & _MAGNITUDE
        found = one if one > found else found
    return found


@cfunc(types.void(types.int64), error_model="numpy")
def quantize_kernel(block: int) -> None:
    """Quantize each row to int8 and write its scale, which is NaN if a value of the row is not finite."""
    args = _arguments_of(block)
    rows, size = args.units, args.columns
    scales = float32_array(args.row_scales, rows)
    begin, end = claim_units(block)
    while begin < end:
        for row in range(begin, end):
            values = float32_array(args.input + 4 * row * size, size)
            out = int8_array(args.output + row * size, size)
            greatest = _max_magnitude_bits(values)
            top = float_from_bits(np.uint32(greatest))
            if 0 < greatest < _INFINITE:
                scales[row] = top / _LEVELS
                factor = _LEVELS / top
                for i in range(size):
                    out[i] = np.int8(float_bits(values[i] * factor + _SHIFT))
            else:
                scales[row] = np.float32(0) if greatest == 0 else np.float32(np.nan)
                for i in range(size):
                    out[i] = np.int8(0)
        begin, end = claim_units(block)


@njit
def _scale(out, sums, scale, columns, bias):
    """Multiply the sums of a row by its scale and those of the columns, and add the bias if there is one."""
    if bias:
        added = float32_array(bias, len(out))
        for i in range(len(out)):
            out[i] = sums[i] * scale * columns[i] + added[i]
    else:
        for i in range(len(out)):
            out[i] = sums[i] * scale * columns[i]


@cfunc(types.void(types.int64))
def dequantize_kernel(block: int) -> None:
    """Convert integer sums to float32, multiply them by the scales of row and column, and add the bias."""
    args = _arguments_of(block)
    rows, size = args.units, args.columns
    scales, columns = (
        float32_array(args.row_scales, rows),
        float32_array(args.column_scales, size),
    )
    bias = args.bias
    # A separate buffer: LLVM does not vectorize a loop that might write to the memory it reads.
    scratch = np.empty(CHUNK_SIZE, np.float32)
    begin, end = claim_units(block)
    while begin < end:
        for row in range(begin, end):
            for first in range(0, size, CHUNK_SIZE):
                count, start = min(CHUNK_SIZE, size - first), 4 * (row * size + first)
                sums = int32_array(args.input + start, count)
                for i in range(count):
                    scratch[i] = np.float32(sums[i])
                _scale(
                    float32_array(args.output + start, count),
                    scratch[:count],
                    scales[row],
                    columns[first : first + count],
                    bias + 4 * first if bias else 0,
                )
        begin, end = claim_units(block)


def _run(kernel: object, matrix: Tensor, **addresses: int) -> None:
    """Run a kernel over the rows of a matrix."""
    rows, columns = matrix.shape
    block = _Arguments(columns=columns, **addresses)
    run_kernel(kernel, block, rows, single_threaded=matrix.numel() < _MIN_PARALLEL_SIZE)


def quantize_rows(x: Float[Tensor, "N I"]) -> tuple[Int[Tensor, "N I"], Float[Tensor, "N"]]:
    """Quantize each row; returns the integers and the scales, NaN for rows that are not finite."""
    values, scales = torch.empty_like(x, dtype=torch.int8), x.new_empty(x.shape[0])
    _run(quantize_kernel, x, input=x.data_ptr(), output=values.data_ptr(), row_scales=scales.data_ptr())
    return values, scales


def dequantize(
    sums: Int[Tensor, "N O"],
    row_scales: Float[Tensor, "N"],
    column_scales: Float[Tensor, "O"],
    bias: Float[Tensor, "O"] | None,
) -> Float[Tensor, "N O"]:
    """Convert integer sums to float32, multiply them by both scales, and add the bias.

    The result overwrites the integers.
    """
    added = None if bias is None else bias.contiguous()
    _run(
        dequantize_kernel,
        sums,
        input=sums.data_ptr(),
        output=sums.data_ptr(),
        row_scales=row_scales.data_ptr(),
        column_scales=column_scales.data_ptr(),
        bias=0 if added is None else added.data_ptr(),
    )
    return sums.view(torch.float32)
