"""Dropout on a CPU, in one pass over memory."""

import numpy as np
import torch

from regard.kernels._numba.rows import run_rows
from regard.kernels.compilation import GAMMA, njit, splitmix64
from regard.kernels.dropout import DROPOUT_RESOLUTION
from regard.types import Tensor

CHUNK_SIZE = 1 << 10  # number of elements whose noise is generated at a time; it stays in the cache
_ZERO = np.float32(0)


@njit(cache=True, nogil=True)
def _drop_chunks(begin, end, seed, threshold, scale, relu, x, residual, gate, out):
    """Apply dropout to some chunks of x, [N], and write them to `out`.

    An element is dropped if its 16 random bits are below the threshold or, if there is a gate, where the gate
    is not positive; others are multiplied by the scale. ReLU is applied before, and the residual is added
    after. An absent gate or residual is empty.
    """
    noise = np.empty(CHUNK_SIZE // 4, np.uint64)
    samples = noise.view(np.uint16)
    for first in range(begin * CHUNK_SIZE, min(end * CHUNK_SIZE, len(x)), CHUNK_SIZE):
        values, result = x[first : first + CHUNK_SIZE], out[first : first + CHUNK_SIZE]
        if len(gate):
            gates = gate[first : first + CHUNK_SIZE]
            for i in range(len(values)):
                result[i] = _ZERO if gates[i] <= _ZERO else values[i] * scale
            continue
        for i in range(len(noise)):
            noise[i] = splitmix64(seed + GAMMA * np.uint64(first // 4 + i + 1))
        if relu:
            for i in range(len(values)):
                # NaN stays NaN.
                result[i] = (
                    values[i] * scale if (samples[i] >= threshold) & (not values[i] < _ZERO) else _ZERO
                )
        else:
            for i in range(len(values)):
                result[i] = values[i] * scale if samples[i] >= threshold else _ZERO
        if len(residual):
            added = residual[first : first + CHUNK_SIZE]
            for i in range(len(values)):
                result[i] += added[i]
    return True


_NOTHING = np.empty(0, np.float32)


def run_dropout(
    x: Tensor,
    threshold: int,
    seed: int,
    *,
    relu: bool = False,
    residual: Tensor | None = None,
    gate: Tensor | None = None,
) -> Tensor:
    """Return dropout of contiguous float32 tensors; see `_drop_chunks`."""
    out = torch.empty_like(x)
    optional = [_NOTHING if operand is None else operand.numpy().ravel() for operand in (residual, gate)]
    run_rows(
        _drop_chunks,
        (x.numel() + CHUNK_SIZE - 1) // CHUNK_SIZE,
        x.numel(),
        np.uint64(seed % (1 << 64)),
        np.uint16(threshold),
        np.float32(DROPOUT_RESOLUTION / (DROPOUT_RESOLUTION - threshold)),
        relu,
        x.numpy().ravel(),
        *optional,
        out.numpy().ravel(),
    )
    return out
