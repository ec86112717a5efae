"""Triton functions that reduce the rows of a tile (sums and extrema), and arithmetic on pairs of numbers.

A tile has the shape [K, R, L], and values per row have the shape [1, R, 1]; see `thresholds`.
"""

# Triton compiles the following functions, which a type checker cannot analyze.
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false, reportCallIssue=false

import triton
import triton.language as tl

SPARSEMAX, ENTMAX15 = tl.constexpr(0), tl.constexpr(1)
CONSTRAINED_SOFTMAX, CONSTRAINED_SPARSEMAX = tl.constexpr(2), tl.constexpr(3)
# Status of a position: at its lower bound, strictly between its bounds, at its upper bound, in a row that is
# NaN; 0 if masked.
LOWER, FREE, UPPER, INVALID = tl.constexpr(1), tl.constexpr(2), tl.constexpr(3), tl.constexpr(4)

# Maximum number of steps of a solver, and of restarts with a new center.
MAX_NEWTON_STEPS, MAX_RESTARTS = tl.constexpr(200), tl.constexpr(8)
INF = tl.constexpr(float("inf"))


@triton.jit
def row_sum(x):
    """Return the sum of every row."""
    return tl.sum(tl.sum(x, 0, keep_dims=True), 2, keep_dims=True)


INTERPRETED = not isinstance(row_sum, triton.JITFunction)
REDUCE_PAIRS = tl.constexpr(not INTERPRETED)  # the interpreter reduces pairs one element at a time


@triton.jit
def _add_pairs(a, b, c, d):
    return a + c, b + d


@triton.jit
def row_sum_pair(x, y):
    """Return the sums of every row of two tiles, with one exchange between warps."""
    x, y = tl.sum(x, 0, keep_dims=True), tl.sum(y, 0, keep_dims=True)
    if REDUCE_PAIRS:
        x, y = tl.reduce((x, y), 2, _add_pairs, keep_dims=True)
    else:
        x, y = tl.sum(x, 2, keep_dims=True), tl.sum(y, 2, keep_dims=True)
    return x, y


@triton.jit
def _merge(a, b, c, d, e, f):
    return a + d, tl.minimum(b, e), tl.maximum(c, f)


@triton.jit
def row_sum_min_max(x, y, z):
    """Return the sum of every row of x, the minimum of y and the maximum of z, with one exchange."""
    x, y, z = tl.sum(x, 0, keep_dims=True), tl.min(y, 0, keep_dims=True), tl.max(z, 0, keep_dims=True)
    if REDUCE_PAIRS:
        x, y, z = tl.reduce((x, y, z), 2, _merge, keep_dims=True)
    else:
        x, y, z = tl.sum(x, 2, keep_dims=True), tl.min(y, 2, keep_dims=True), tl.max(z, 2, keep_dims=True)
    return x, y, z


@triton.jit
def row_max(x):
    """Return the maximum of every row."""
    return tl.max(tl.max(x, 0, keep_dims=True), 2, keep_dims=True)


@triton.jit
def row_min(x):
    """Return the minimum of every row."""
    return tl.min(tl.min(x, 0, keep_dims=True), 2, keep_dims=True)


@triton.jit
def any_row(rows):
    """Return whether the condition holds for any row of the tile, as a scalar."""
    return tl.max(rows.to(tl.int32)) > 0


@triton.jit
def one_minus_row_sum(taken):
    """Return 1 minus the sum of every row, without the rounding error of a sum near 1.

    The multiples of 2^-12 are summed separately, and their sum is exact.
    """
    whole = tl.floor(taken * 4096.0) * 0.000244140625
    exact, rest = row_sum_pair(whole, taken - whole)
    return (1.0 - exact) - rest


@triton.jit
def recenter(center, rest):
    """Move the center of a threshold (center + rest) to the nearest number; also returns the distance moved.

    The new rest is the exact rounding error of the sum (Knuth (1969), Sec. 4.2.2, Theorem B).
    """
    moved = center + rest
    by = moved - center
    return moved, (center - (moved - by)) + (rest - by), by
