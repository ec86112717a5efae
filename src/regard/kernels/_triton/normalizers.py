"""The normalizers and their gradients on a GPU.

A program processes R rows, or one sentence with all time steps, whose cumulative attention stays in
registers. Every element passes through memory once. The weights are computed in `thresholds`. The functions
do not wait for the device, so they cannot raise an error for infeasible bounds: the weights of an infeasible
row are NaN, in a scan with those of all later steps of the sentence.
"""

# Triton compiles the kernels, which a type checker cannot analyze. They are launched as `kernel[grid](...)`
# and take options that are not in their signatures.
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false, reportCallIssue=false

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton
import triton.language as tl

from regard.errors import UsageError
from regard.kernels._triton.thresholds import (
    CONSTRAINED_SOFTMAX,
    ENTMAX15,
    FREE,
    INF,
    INTERPRETED,
    INVALID,
    LOWER,
    UPPER,
    constrained_weights,
    row_sum_pair,
    unbounded_weights,
)
from regard.kernels.backend import KernelFallbackError
from regard.kernels.normalizers import NORMALIZER_CODES
from regard.types import Tensor

MAX_ROW_LENGTH = 1 << 14  # maximum number of positions per row, limited by the registers
ELEMENTS_PER_WARP = 1 << 8  # number of elements of each operand per warp
MAX_ROWS = (1 << 31) - (1 << 20)  # maximum number of rows, whose indices have 32 bits

COUNTS = ("rows", "steps")
"""Operands that Triton must not specialize on: it would compile a kernel for each combination of those that
are divisible by 16, in the middle of training. Only the length of a row makes memory access faster."""


def device_context(tensor: Tensor) -> AbstractContextManager[object]:
    """Return a context in which the tensor's device is the current one, where Triton launches kernels.

    Raises:
        UsageError: The tensor is not on CUDA and Triton does not run in its interpreter.
    """
    if tensor.device.type == "cuda":
        return torch.cuda.device(tensor.device)
    if not INTERPRETED:
        raise UsageError(
            f"kernels: 'triton' requires tensors on CUDA, but these are on {tensor.device.type}; use 'auto'"
        )
    return nullcontext()


def tile_shape(size: int, rows: int) -> tuple[int, int, int, int]:
    """Return K, R and L of a tile (see `thresholds`) and its number of warps.

    Raises:
        KernelFallbackError: There are too many rows, or they are too long.
    """
    padded = triton.next_power_of_2(size)
    if padded > MAX_ROW_LENGTH or rows > MAX_ROWS:
        raise KernelFallbackError(f"{rows} rows of {size} positions exceed the limits of the Triton kernels")
    # Several short rows share a warp.
    warps = max(1, min(16, padded // ELEMENTS_PER_WARP))
    together = min(max(1, ELEMENTS_PER_WARP // padded), triton.next_power_of_2(rows))
    lanes = min(padded, 8 if together > 2 else 16 if together == 2 else padded)
    return padded // lanes, together, lanes, warps


def expand_operand(operand: Tensor | None, scores: Tensor) -> Tensor:
    """Return an operand in the shape of the scores; the scores, as a valid pointer, if it is absent."""
    return scores if operand is None else operand.expand(scores.shape).contiguous()


@triton.jit
def tile_positions(K: tl.constexpr, L: tl.constexpr):
    """Return the position in its row of each element of a tile, [K, 1, L]."""
    return tl.arange(0, K)[:, None, None] * L + tl.arange(0, L)[None, None, :]


@triton.jit(do_not_specialize=COUNTS)
def forward_rows(
    scores,
    mask,
    upper,
    lower,
    weights,
    status,
    rows,
    size,
    KIND: tl.constexpr,
    MASKED: tl.constexpr,
    BOUNDED: tl.constexpr,
    LEAST: tl.constexpr,
    K: tl.constexpr,
    R: tl.constexpr,
    L: tl.constexpr,
):
    """Write the weights and, for normalizers with bounds, the status."""
    row = tl.program_id(0) * R + tl.arange(0, R)[None, :, None]
    at = tile_positions(K, L)
    here = (at < size) & (row < rows)
    at = row.to(tl.int64) * size + at
    z = tl.load(scores + at, mask=here, other=-INF)
    usable = z != -INF
    if MASKED:
        usable = usable & (tl.load(mask + at, mask=here, other=0) != 0)
    if BOUNDED:
        u = tl.load(upper + at, mask=here, other=0.0)
        low = tl.zeros_like(u)
        if LEAST:
            low = tl.load(lower + at, mask=here, other=0.0)
        p, where = constrained_weights(z, usable, u, low, KIND)
        tl.store(weights + at, p.to(z.dtype), mask=here)
        tl.store(status + at, where, mask=here)
    else:
        tl.store(weights + at, unbounded_weights(z, usable, KIND), mask=here)


@triton.jit
def tile_gradient(g, p, free, KIND: tl.constexpr):
    """Return the gradient of the scores, s (g - m), and g - m; see `kernels.normalizers`."""
    invalid = p != p
    free = free | invalid
    if KIND == CONSTRAINED_SOFTMAX:
        slope = tl.where(free, p, 0.0)
    elif KIND == ENTMAX15:
        slope = tl.where(free, tl.sqrt(tl.where(free, p, 1.0)), 0.0)
    else:
        slope = tl.where(invalid, p, free.to(g.dtype))
    mass, weight = row_sum_pair(tl.where(free, slope * g, 0.0), slope)
    change = g - mass / tl.where(weight > 0.0, weight, 1.0)
    return tl.where(free, slope * change, 0.0), change


@triton.jit(do_not_specialize=COUNTS)
def backward_rows(
    gradient,
    weights,
    status,
    by_scores,
    by_upper,
    by_lower,
    rows,
    size,
    KIND: tl.constexpr,
    BOUNDED: tl.constexpr,
    BOUND: tl.constexpr,
    LEAST: tl.constexpr,
    K: tl.constexpr,
    R: tl.constexpr,
    L: tl.constexpr,
):
    """Write the gradients of the scores and, on request, of the bounds."""
    row = tl.program_id(0) * R + tl.arange(0, R)[None, :, None]
    at = tile_positions(K, L)
    here = (at < size) & (row < rows)
    at = row.to(tl.int64) * size + at
    g = tl.load(gradient + at, mask=here, other=0.0)
    p = tl.load(weights + at, mask=here, other=0.0)
    if BOUNDED:
        where = tl.load(status + at, mask=here, other=0)
        scores, change = tile_gradient(g, p, where == FREE, KIND)
        if BOUND:
            active = (where == UPPER) | (where == INVALID)
            tl.store(by_upper + at, tl.where(active, change, 0.0), mask=here)
        if LEAST:
            active = (where == LOWER) | (where == INVALID)
            tl.store(by_lower + at, tl.where(active, change, 0.0), mask=here)
    else:
        scores, _ = tile_gradient(g, p, p > 0.0, KIND)
    tl.store(by_scores + at, scores, mask=here)


@triton.jit(do_not_specialize=COUNTS)
def forward_scan(
    scores,
    fertility,
    mask,
    weights,
    status,
    steps,
    size,
    exhaustion,
    exhaustion_error,
    KIND: tl.constexpr,
    MASKED: tl.constexpr,
    LENGTH: tl.constexpr,
):
    """Write the weights and the status of all steps of a sentence.

    The scores of the next step are loaded while the current step is solved. Triton passes scalars as float32,
    so the exhaustion factor is the sum of its rounded value and the rounding error.
    """
    sentence = tl.program_id(0) + tl.zeros([1, 1, 1], tl.int64)
    first = sentence * steps
    at = tile_positions(1, LENGTH)
    here = at < size
    f = tl.load(fertility + sentence * size + at, mask=here, other=0.0)
    c = tl.zeros([1, 1, 1], f.dtype) + exhaustion + exhaustion_error
    received = tl.zeros_like(f)
    z = tl.load(scores + first * size + at, mask=here, other=-INF)
    for step in range(steps):
        row = first + step
        coming = tl.load(scores + (row + 1) * size + at, mask=here & (row + 1 < first + steps), other=-INF)
        usable = z != -INF
        if MASKED:
            usable = usable & (tl.load(mask + row * size + at, mask=here, other=0) != 0)
        u = f - received
        # Unlike `maximum`, this keeps NaN, so that an infeasible step makes all later steps NaN.
        u = tl.where(u < 0.0, 0.0, u)
        z = z + tl.where(f < INF, u * c, 0.0)
        p, where = constrained_weights(z, usable, u, tl.zeros_like(u), KIND)
        p = p.to(f.dtype)
        received += p
        tl.store(weights + row * size + at, p, mask=here)
        tl.store(status + row * size + at, where, mask=here)
        z = coming


@triton.jit(do_not_specialize=COUNTS)
def backward_scan(
    gradient,
    weights,
    status,
    by_scores,
    by_fertility,
    steps,
    size,
    KIND: tl.constexpr,
    LENGTH: tl.constexpr,
):
    """Write the gradients of the scores and the fertility of a sentence, from its last step to its first.

    The recurrence is that of `_numba.normalizers`. The operands of the previous step are loaded while a step
    is processed.
    """
    sentence = tl.program_id(0) + tl.zeros([1, 1, 1], tl.int64)
    at = tile_positions(1, LENGTH)
    here = at < size
    first = sentence * steps
    row = first + steps - 1
    g = tl.load(gradient + row * size + at, mask=here, other=0.0)
    p = tl.load(weights + row * size + at, mask=here, other=0.0)
    where = tl.load(status + row * size + at, mask=here, other=0)
    loosened = tl.zeros_like(g)
    for _ in range(steps):
        more = here & (row > first)
        next_g = tl.load(gradient + (row - 1) * size + at, mask=more, other=0.0)
        next_p = tl.load(weights + (row - 1) * size + at, mask=more, other=0.0)
        next_where = tl.load(status + (row - 1) * size + at, mask=more, other=0)
        scores, change = tile_gradient(g - loosened, p, where == FREE, KIND)
        loosened += tl.where((where == UPPER) | (where == INVALID), change, 0.0)
        tl.store(by_scores + row * size + at, scores, mask=here)
        g, p, where = next_g, next_p, next_where
        row = row - 1
    tl.store(by_fertility + sentence * size + at, loosened, mask=here)


def _launch_rows(kernel: Any, like: Tensor, *operands: Any, **options: Any) -> None:
    """Launch a kernel over the rows of a tensor [..., S]."""
    size = like.shape[-1]
    rows = like.numel() // size
    k, r, lanes, warps = tile_shape(size, rows)
    with device_context(like):
        kernel[(triton.cdiv(rows, r),)](*operands, rows, size, K=k, R=r, L=lanes, num_warps=warps, **options)


def _launch_scan(kernel: Any, like: Tensor, *operands: Any, **options: Any) -> None:
    """Launch a kernel over the sentences of a tensor [B, T, S], with a tile that holds one row.

    The number of warps is twice that of `_launch_rows`, because the steps of a sentence run one after
    another.
    """
    batch, steps, size = like.shape
    k, _, lanes, _ = tile_shape(size, batch)
    warps = max(1, min(16, 2 * k * lanes // ELEMENTS_PER_WARP))
    with device_context(like):
        kernel[(batch,)](*operands, steps, size, LENGTH=k * lanes, num_warps=warps, **options)


def forward(
    name: str, scores: Tensor, upper: Tensor | None, lower: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Compute the weights and the status; see `kernels.normalizers`.

    Raises:
        KernelFallbackError: There are too many rows, or they are too long.
        UsageError: The tensors are not on CUDA and Triton does not run in its interpreter.
    """
    scores = scores.contiguous()
    weights = torch.empty_like(scores)
    status = None if upper is None else torch.empty_like(scores, dtype=torch.uint8)
    _launch_rows(
        forward_rows,
        scores,
        scores,
        expand_operand(None if mask is None else mask.view(torch.uint8), scores),
        expand_operand(upper, scores),
        expand_operand(lower, scores),
        weights,
        weights if status is None else status,
        KIND=NORMALIZER_CODES[name],
        MASKED=mask is not None,
        BOUNDED=upper is not None,
        LEAST=lower is not None,
        enable_fp_fusion=False,
    )
    return weights, status


def backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor | None, upper: bool, lower: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Compute the gradients of the scores and, on request, of the bounds; see `kernels.normalizers`."""
    by_scores = torch.empty_like(weights)
    by_upper = torch.empty_like(weights) if upper else None
    by_lower = torch.empty_like(weights) if lower else None
    _launch_rows(
        backward_rows,
        weights,
        gradient.contiguous(),
        weights,
        expand_operand(status, weights),
        by_scores,
        expand_operand(by_upper, by_scores),
        expand_operand(by_lower, by_scores),
        KIND=NORMALIZER_CODES[name],
        BOUNDED=status is not None,
        BOUND=upper,
        LEAST=lower,
    )
    return by_scores, by_upper, by_lower


def scan_forward(
    name: str,
    scores: Tensor,
    fertility: Tensor,
    exhaustion: float,
    mask: Tensor | None,
    heads_per_budget: int,
) -> tuple[Tensor, Tensor]:
    """Compute the weights and the status of all steps; errors are those of `forward`."""
    scores, fertility = scores.contiguous(), fertility.contiguous()
    weights, status = torch.empty_like(scores), torch.empty_like(scores, dtype=torch.uint8)
    # Triton passes scalars as float32, so the rounding error of the factor is passed as well.
    rounded = float(torch.tensor(exhaustion, dtype=torch.float32))
    _launch_scan(
        forward_scan,
        scores,
        scores,
        fertility,
        expand_operand(None if mask is None else mask.view(torch.uint8), scores),
        weights,
        status,
        exhaustion=rounded,
        exhaustion_error=exhaustion - rounded,
        KIND=NORMALIZER_CODES[name],
        MASKED=mask is not None,
        enable_fp_fusion=False,
    )
    return weights, status


def scan_backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor, heads_per_budget: int
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of the scores [B, T, S] and of the fertility [B, S]."""
    scores, fertility = torch.empty_like(weights), torch.zeros_like(weights[:, 0])
    operands = gradient.contiguous(), weights, status, scores, fertility
    _launch_scan(backward_scan, weights, *operands, KIND=NORMALIZER_CODES[name])
    return scores, fertility
