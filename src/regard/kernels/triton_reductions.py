"""What the Triton kernels compute of every row of a tile: sums, extremes, levels kept as pairs.

A tile is [K, R, L], what belongs to a row [1, R, 1]; see `triton_solvers`.
"""

# Triton compiles what follows; to a type checker it is plain functions of unknown things.
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false, reportCallIssue=false

import triton
import triton.language as tl

__all__ = [
    "CONSTRAINED_SOFTMAX",
    "CONSTRAINED_SPARSEMAX",
    "ENTMAX15",
    "FREE",
    "INF",
    "INTERPRETED",
    "LOWER",
    "SPARSEMAX",
    "STEPS",
    "TURNS",
    "UPPER",
    "greatest",
    "least_of",
    "left_over",
    "recentre",
    "some",
    "survey",
    "total",
    "totals",
]

SPARSEMAX, ENTMAX15 = tl.constexpr(0), tl.constexpr(1)
CONSTRAINED_SOFTMAX, CONSTRAINED_SPARSEMAX = tl.constexpr(2), tl.constexpr(3)
# Where a position rests; 0 where masked.
LOWER, FREE, UPPER = tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)

STEPS, TURNS = tl.constexpr(200), tl.constexpr(8)
INF = tl.constexpr(float("inf"))


@triton.jit
def total(x):
    """The sum of every row."""
    return tl.sum(tl.sum(x, 0, keep_dims=True), 2, keep_dims=True)


INTERPRETED = not isinstance(total, triton.JITFunction)
PAIRS = tl.constexpr(not INTERPRETED)  # the interpreter would take a reduction of pairs element by element


@triton.jit
def _add_pairs(a, b, c, d):
    return a + c, b + d


@triton.jit
def totals(x, y):
    """The sums of every row of two tiles, in one exchange between warps."""
    x, y = tl.sum(x, 0, keep_dims=True), tl.sum(y, 0, keep_dims=True)
    if PAIRS:
        x, y = tl.reduce((x, y), 2, _add_pairs, keep_dims=True)
    else:
        x, y = tl.sum(x, 2, keep_dims=True), tl.sum(y, 2, keep_dims=True)
    return x, y


@triton.jit
def _merge(a, b, c, d, e, f):
    return a + d, tl.minimum(b, e), tl.maximum(c, f)


@triton.jit
def survey(x, y, z):
    """The sums of every row of a tile, the least of another and the greatest of a third, in one exchange."""
    x, y, z = tl.sum(x, 0, keep_dims=True), tl.min(y, 0, keep_dims=True), tl.max(z, 0, keep_dims=True)
    if PAIRS:
        x, y, z = tl.reduce((x, y, z), 2, _merge, keep_dims=True)
    else:
        x, y, z = tl.sum(x, 2, keep_dims=True), tl.min(y, 2, keep_dims=True), tl.max(z, 2, keep_dims=True)
    return x, y, z


@triton.jit
def greatest(x):
    """The greatest of every row."""
    return tl.max(tl.max(x, 0, keep_dims=True), 2, keep_dims=True)


@triton.jit
def least_of(x):
    """The least of every row."""
    return tl.min(tl.min(x, 0, keep_dims=True), 2, keep_dims=True)


@triton.jit
def some(rows):
    """Whether it is so of any row of the tile: a scalar."""
    return tl.max(rows.to(tl.int32)) > 0


@triton.jit
def left_over(taken):
    """1 - the sum of every row, without the rounding of a sum near 1.

    Multiples of 2^-12 are added apart: their sum is exact.
    """
    whole = tl.floor(taken * 4096.0) * 0.000244140625
    exact, rest = totals(whole, taken - whole)
    return (1.0 - exact) - rest


@triton.jit
def recentre(centre, rest):
    """The same level with the centre as near to it as a number can be, and how far the centre moved.

    The rest is the exact rounding error of the sum (Knuth 1969, Sec. 4.2.2, Theorem B).
    """
    moved = centre + rest
    by = moved - centre
    return moved, (centre - (moved - by)) + (rest - by), by
