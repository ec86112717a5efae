"""The Triton kernels of the normalizers and their gradients, for rows and for the steps of a scan.

A program processes R rows, or one sentence of a scan, whose cumulative attention stays in registers. Every
element passes through memory once. The mode HOW of an operand is 0 if it is absent, 1 if it has the shape of
the scores, and 2 if it broadcasts; row r of the scores then uses row (r // every) % count of the operand. The
thresholds are computed in `triton_solvers`.
"""

# Triton compiles the following functions, which a type checker cannot analyze.
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false, reportCallIssue=false

import triton
import triton.language as tl

from regard.kernels.triton_reductions import (
    CONSTRAINED_SOFTMAX,
    ENTMAX15,
    FREE,
    INF,
    LOWER,
    UPPER,
    row_sum_pair,
)
from regard.kernels.triton_solvers import constrained_weights, unbounded_weights

__all__ = ["backward_rows", "backward_scan", "forward_rows", "forward_scan"]


@triton.jit
def tile_positions(K: tl.constexpr, L: tl.constexpr):
    """Return the position in its row of each element of a tile, [K, 1, L]."""
    return tl.arange(0, K)[:, None, None] * L + tl.arange(0, L)[None, None, :]


@triton.jit
def row_pointers(operand, row, size, every, count, HOW: tl.constexpr):
    """Return pointers to the rows of an operand that belong to rows of the scores."""
    if HOW == 2:
        row = (row // every) % count
    return operand + row.to(tl.int64) * size


@triton.jit
def forward_rows(
    scores,
    mask,
    upper,
    lower,
    weights,
    status,
    rows,
    size,
    mask_every,
    mask_count,
    upper_every,
    upper_count,
    lower_every,
    lower_count,
    KIND: tl.constexpr,
    MASK: tl.constexpr,
    BOUND: tl.constexpr,
    LEAST: tl.constexpr,
    K: tl.constexpr,
    R: tl.constexpr,
    L: tl.constexpr,
):
    """Write the weights and, for normalizers with bounds, the status; see `Backend.forward`."""
    row = tl.program_id(0) * R + tl.arange(0, R)[None, :, None]
    at = tile_positions(K, L)
    here = (at < size) & (row < rows)
    z = tl.load(row_pointers(scores, row, size, 1, 1, 1) + at, mask=here, other=-INF)
    usable = z != -INF
    if MASK > 0:
        seen = tl.load(row_pointers(mask, row, size, mask_every, mask_count, MASK) + at, mask=here, other=0)
        usable = usable & (seen != 0)
    out = row_pointers(weights, row, size, 1, 1, 1) + at
    if BOUND == 0:
        tl.store(out, unbounded_weights(z, usable, KIND), mask=here)
    else:
        u = tl.load(
            row_pointers(upper, row, size, upper_every, upper_count, BOUND) + at, mask=here, other=0.0
        )
        low = tl.zeros_like(z)
        if LEAST > 0:
            low = tl.load(
                row_pointers(lower, row, size, lower_every, lower_count, LEAST) + at, mask=here, other=0.0
            )
        p, where = constrained_weights(z, usable, u, low, KIND, LEAST > 0)
        tl.store(out, p, mask=here)
        tl.store(row_pointers(status, row, size, 1, 1, 1) + at, where, mask=here)


@triton.jit
def tile_gradient(g, p, free, KIND: tl.constexpr):
    """Return the gradient of the scores, s (g - m), and g - m; see `maps.differentiable_backward`."""
    if KIND == CONSTRAINED_SOFTMAX:
        slope = tl.where(free, p, 0.0)
    elif KIND == ENTMAX15:
        slope = tl.where(free, tl.sqrt(tl.where(free, p, 1.0)), 0.0)
    else:
        slope = free.to(g.dtype)
    mass, weight = row_sum_pair(tl.where(free, slope * g, 0.0), slope)
    change = g - mass / tl.where(weight > 0.0, weight, 1.0)
    return tl.where(free, slope * change, 0.0), change


@triton.jit
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
    """Write the gradients of the scores and, on request, of the bounds; see `Backend.backward`."""
    row = tl.program_id(0) * R + tl.arange(0, R)[None, :, None]
    at = tile_positions(K, L)
    here = (at < size) & (row < rows)
    at = row.to(tl.int64) * size + at
    g = tl.load(gradient + at, mask=here, other=0.0)
    p = tl.load(weights + at, mask=here, other=0.0)
    if BOUNDED:
        where = tl.load(status + at, mask=here, other=0)
        found, change = tile_gradient(g, p, where == FREE, KIND)
        if BOUND:
            tl.store(by_upper + at, tl.where(where == UPPER, change, 0.0), mask=here)
        if LEAST:
            tl.store(by_lower + at, tl.where(where == LOWER, change, 0.0), mask=here)
    else:
        found, _ = tile_gradient(g, p, p > 0.0, KIND)
    tl.store(by_scores + at, found, mask=here)


@triton.jit
def forward_scan(
    scores,
    fertility,
    mask,
    weights,
    status,
    steps,
    size,
    mask_every,
    mask_count,
    exhaustion,
    exhaustion_rest,
    KIND: tl.constexpr,
    MASK: tl.constexpr,
    LENGTH: tl.constexpr,
):
    """Write the weights and the status of all steps of a sentence; see `Backend.scan_forward`.

    The scores of the next step are loaded while the current step is solved. Triton passes scalars as float32,
    so the exhaustion factor is the sum of its rounded value and the rounding error.
    """
    sentence = tl.program_id(0) + tl.zeros([1, 1, 1], tl.int64)
    first = sentence * steps
    at = tile_positions(1, LENGTH)
    here = at < size
    f = tl.load(fertility + sentence * size + at, mask=here, other=0.0)
    c = tl.zeros([1, 1, 1], f.dtype) + exhaustion + exhaustion_rest
    received = tl.zeros_like(f)
    z = tl.load(scores + first * size + at, mask=here, other=-INF)
    for step in range(steps):
        row = first + step
        coming = tl.load(scores + (row + 1) * size + at, mask=here & (row + 1 < first + steps), other=-INF)
        usable = z != -INF
        if MASK > 0:
            usable = usable & (
                tl.load(row_pointers(mask, row, size, mask_every, mask_count, MASK) + at, mask=here, other=0)
                != 0
            )
        u = f - received
        # Unlike `maximum`, this keeps NaN, so that an infeasible step makes all later steps NaN.
        u = tl.where(u < 0.0, 0.0, u)
        z = z + tl.where(f < INF, u * c, 0.0)
        p, where = constrained_weights(z, usable, u, tl.zeros_like(u), KIND, False)
        received += p
        tl.store(weights + row * size + at, p, mask=here)
        tl.store(status + row * size + at, where, mask=here)
        z = coming


@triton.jit
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

    The recurrence is that of `scans`. The operands of the previous step are loaded while a step is processed.
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
        found, change = tile_gradient(g - loosened, p, where == FREE, KIND)
        loosened += tl.where(where == UPPER, change, 0.0)
        tl.store(by_scores + row * size + at, found, mask=here)
        g, p, where = next_g, next_p, next_where
        row = row - 1
    tl.store(by_fertility + sentence * size + at, loosened, mask=here)
