"""Dropout on a CPU; the kernel works on chunks of 1,024 elements, which fit the cache."""

import numpy as np
import torch
from numba import types

from regard.kernels._numba.memory import (
    claim_units,
    float32_array,
    read_arguments,
    read_float32,
    write_bfloat16,
)
from regard.kernels.compilation import cfunc, njit
from regard.kernels.dropout import DROPOUT_RESOLUTION
from regard.kernels.splitmix import GAMMA, splitmix64
from regard.kernels.threads import CHUNK_SIZE, argument_block, run_kernel
from regard.types import Tensor

_MIN_PARALLEL_SIZE = 1 << 14  # elements below which a single thread is faster; see `run_kernel`

_Arguments = argument_block(
    "count",  # number of elements
    "seed",
    "threshold",  # threshold, from 0 to DROPOUT_RESOLUTION - 1
    "relu",  # whether ReLU is applied before dropout
    "input",
    "output",
    "residual",  # a tensor to add to the result, in the precision of the output
    "gate",  # a tensor that is positive where an element is kept; if absent, random numbers are used
    # 1 if these tensors are bfloat16, 0 if they are float32.
    "input_is_bfloat16",
    "output_is_bfloat16",
    "gate_is_bfloat16",
)
_arguments_of = read_arguments(_Arguments)


@njit
def _fill_random(seed, first, noise):
    """Fill `noise` with the random numbers of the seed from index `first` on."""
    for i in range(len(noise)):
        noise[i] = splitmix64(seed + GAMMA * np.uint64(first + i + 1))


@cfunc(types.void(types.int64), error_model="numpy")
def dropout_kernel(block: int) -> None:
    """Apply dropout to the tensors of an argument block, one chunk per unit of work."""
    args = _arguments_of(block)
    count, x, residual, gate, out = args.count, args.input, args.residual, args.gate, args.output
    half_x, half_out, half_gate = args.input_is_bfloat16, args.output_is_bfloat16, args.gate_is_bfloat16
    seed, level, relu = np.uint64(args.seed), np.uint16(args.threshold), args.relu
    scale, zero = np.float32(DROPOUT_RESOLUTION / (DROPOUT_RESOLUTION - args.threshold)), np.float32(0)
    noise = np.empty(CHUNK_SIZE // 4, np.uint64)
    samples = noise.view(np.uint16)
    # Separate buffers: LLVM does not vectorize a loop that might write to the memory it reads.
    scratch, result_scratch = np.empty(CHUNK_SIZE, np.float32), np.empty(CHUNK_SIZE, np.float32)
    other_scratch = np.empty(CHUNK_SIZE, np.float32)
    begin, end = claim_units(block)
    while begin < end:
        for chunk in range(begin, end):
            first = chunk * CHUNK_SIZE
            size = min(CHUNK_SIZE, count - first)
            values = read_float32(x + (2 if half_x else 4) * first, half_x, scratch[:size])
            result = result_scratch[:size] if half_out else float32_array(out + 4 * first, size)
            if gate:
                gate_values = read_float32(
                    gate + (2 if half_gate else 4) * first, half_gate, other_scratch[:size]
                )
                for i in range(size):
                    result[i] = zero if gate_values[i] <= 0 else values[i] * scale
            else:
                _fill_random(seed, first // 4, noise)
                if relu:
                    for i in range(size):
                        result[i] = values[i] * scale if samples[i] >= level and not values[i] < 0 else zero
                else:
                    for i in range(size):
                        result[i] = values[i] * scale if samples[i] >= level else zero
            if residual:
                added = read_float32(
                    residual + (2 if half_out else 4) * first, half_out, other_scratch[:size]
                )
                for i in range(size):
                    result[i] += added[i]
            if half_out:
                write_bfloat16(out + 2 * first, result)
        begin, end = claim_units(block)


def run_dropout(
    x: Tensor,
    out: Tensor,
    threshold: int,
    seed: int,
    *,
    relu: bool = False,
    residual: Tensor | None = None,
    gate: Tensor | None = None,
) -> None:
    """Run the kernel from `x` to `out`; all tensors must be contiguous.

    Args:
        x: Float32 or bfloat16.
        out: Tensor of the same shape for the result.
        threshold: Dropout probability times DROPOUT_RESOLUTION.
        seed: Seed of the noise.
        relu: Whether to apply ReLU before dropout.
        residual: A tensor to add to the result, in the dtype of `out`.
        gate: A tensor that is positive where an element is kept, instead of the noise.
    """
    block = _Arguments(
        count=x.numel(),
        seed=seed,
        threshold=threshold,
        relu=relu,
        input=x.data_ptr(),
        output=out.data_ptr(),
        residual=0 if residual is None else residual.data_ptr(),
        gate=0 if gate is None else gate.data_ptr(),
        input_is_bfloat16=x.dtype == torch.bfloat16,
        output_is_bfloat16=out.dtype == torch.bfloat16,
        gate_is_bfloat16=gate is not None and gate.dtype == torch.bfloat16,
    )
    chunks = (x.numel() + CHUNK_SIZE - 1) // CHUNK_SIZE
    run_kernel(dropout_kernel, block, chunks, single_threaded=x.numel() < _MIN_PARALLEL_SIZE)
