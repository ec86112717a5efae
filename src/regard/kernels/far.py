"""Rows whose level lies far below their greatest score, solved again from a place that is near.

A level is a double beside scores that were shifted by the greatest: where it is -1e16, the weights z - tau
that lie in [0, 1] are lost in its rounding, and so are differences between scores that the shift made alike.
Here the scores are shifted by one that is near the level, which is found without knowing the level: what the
weights sum to at a level that is itself a score, z_k, takes differences of scores alone, and each is exact to
its own last bit. The sum falls as the level rises, so that the scores at which it is less than 1 are those
from one on, and the level lies between that one and the next lower.

- Sparsemax: the weights of higher scores are at their bounds, at most 1, until the level is within 1 of the
  lowest of them, and below it no lower score matters before it has come that far: the level is at most 1
  below the least score at which the sum is less than 1.
- Softmax: below a score its exponential is above 1, hence above its bound: only the lower scores move, and
  the level is as far above the greatest of these as the logarithm of what they have to share.
"""

from typing import Any

from numba import njit

from regard.kernels.lanes import any_lane, exp, maximum, minimum, select, spread
from regard.kernels.places import CONSTRAINED_SPARSEMAX
from regard.kernels.solving import rest_soft, rest_sparse, solve_soft, solve_sparse
from regard.kernels.tiles import load, store

__all__ = ["hide", "solve_again"]

INF = float("inf")
FURTHEST = 1e300  # as far as a score may be from the one that others are measured from


@njit
def hide(size: int, scores: int, mask: int) -> None:
    """Put -inf where the mask, if there is one, is False."""
    if mask:
        for at in range(0, size, 64):
            store(scores + at, select(load(mask + at) > 0.0, load(scores + at), spread(-INF)))


@njit
def _total(kind: int, size: int, raw: int, u: int, low: int, level: Any) -> Any:
    """What the weights sum to at a level."""
    total = spread(0.0)
    for at in range(0, size, 64):
        x = load(raw + at) - level
        if kind != CONSTRAINED_SPARSEMAX:
            x = exp(x)
        total += minimum(maximum(x, load(low + at) if low else spread(0.0)), load(u + at))
    return total


@njit
def _between(kind: int, size: int, raw: int, u: int, low: int) -> Any:
    """A level at which the sum reaches 1 and one at which it does not, and no score between them.

    The next to be tried is the mean of the scores between, so that a few, or at worst one for each score, are
    enough, however far apart the scores are.
    """
    reached, missed = spread(-INF), spread(INF)
    for _ in range(size // 64 + 1):
        total, count, least, most = spread(0.0), spread(0.0), spread(INF), spread(-INF)
        for at in range(0, size, 64):
            z = load(raw + at)
            inside = (z > reached) & (z < missed)
            total, count = select(inside, total + z, total), select(inside, count + 1.0, count)
            least, most = select(inside, minimum(z, least), least), select(inside, maximum(z, most), most)
        inside = count > 0.0
        if not any_lane(inside):
            break
        level = minimum(maximum(total / count, least), most)
        enough = _total(kind, size, raw, u, low, level) >= 1.0
        reached, missed = (
            select(inside & enough, level, reached),
            select(inside & ~enough, level, missed),
        )
    return reached, missed


@njit
def _centre(kind: int, size: int, raw: int, u: int, low: int, full: Any, again: Any) -> Any:
    """The score that is near the level; of rows whose upper bounds are the answer the least that has one.

    Of rows that are not to be solved again it is the greatest, from which they were solved before.
    """
    reached, missed = _between(kind, size, raw, u, low)
    above, below, least, most, last = spread(INF), spread(-INF), spread(INF), spread(-INF), spread(INF)
    for at in range(0, size, 64):
        z = load(raw + at)
        usable = z > -INF
        above = select(usable & (z >= missed), minimum(z, above), above)
        below = select(usable & (z <= reached), maximum(z, below), below)
        least, most = select(usable, minimum(z, least), least), maximum(z, most)
        last = select(usable & (load(u + at) > 0.0), minimum(z, last), last)
    centre = select(above < INF, above, most)
    if kind != CONSTRAINED_SPARSEMAX:
        centre = select(below > -INF, below, least)
    return select(again, select(full, last, centre), most)


@njit
def solve_again(
    kind: int,
    size: int,
    raw: int,
    z: int,
    powers: int,
    u: int,
    low: int,
    most: Any,
    infeasible: Any,
    again: Any,
    poison: Any,
    wide: int,
    rests: int,
) -> Any:
    """A block of rows, some of them from a score near the level; the others come out as before.

    Args:
        kind: Of the map.
        size: 64 S.
        raw: Where the scores are, as they were given, with -inf where they may not be attended.
        z: Where the weights of constrained softmax go.
        powers: Where those of constrained sparsemax go.
        u: Where the upper bounds are, cut.
        low: Where the lower bounds are, 0 if all are 0.
        most: The sum of the upper bounds.
        infeasible: The rows that no distribution fits.
        again: The rows that are solved from a score near the level.
        poison: NaN in the rows that are to be NaN, else 0.
        wide: Whether the numbers are float64.
        rests: Where goes where the weights rest.

    Returns:
        The rows whose level was not found, which become NaN.
    """
    near = 1e-9 if wide else 1e-6
    centre = _centre(kind, size, raw, u, low, (most <= 1.0) | infeasible, again)
    first = spread(INF)
    for at in range(0, size, 64):
        score = load(raw + at)
        x = maximum(minimum(score - centre, spread(FURTHEST)), spread(-FURTHEST))
        store(z + at, select(score != spread(-INF), x, spread(-INF)))
        bound = load(u + at)
        first = select(bound > 0.0, minimum(first, x - bound), first)
    if kind == CONSTRAINED_SPARSEMAX:
        first = select(again, maximum(first, spread(-1.0)), first)
        unsolved, _, tau = solve_sparse(size, z, u, low, first, most, infeasible, poison, wide, powers, rests)
        _settle_sparse(size, raw, z, u, low, tau, again, near, rests)
    else:
        unsolved, _, factor, held = solve_soft(size, z, powers, u, low, most, infeasible, poison, wide, rests)
        _settle_soft(size, raw, powers, u, low, factor, held & again, near, rests)
    return unsolved


@njit
def _settle_sparse(
    size: int, raw: int, z: int, u: int, low: int, tau: Any, again: Any, near: float, rests: int
) -> None:
    """Where positions rest if none is strictly between its bounds: those that leave may be far above."""
    free, base = spread(0.0), spread(INF)
    for at in range(0, size, 64):
        x, bound = load(z + at) - tau, load(u + at)
        least = load(low + at) if low else spread(0.0)
        free = select((x > least + near) & (x < bound - near), spread(1.0), free)
        base = select((bound > 0.0) & (x >= bound - near), minimum(base, load(raw + at)), base)
    held = again & (free < 1.0) & (base < INF)
    edge = spread(INF)
    for at in range(0, size, 64):
        bound = load(u + at)
        leaves = (bound > 0.0) & (load(z + at) - tau >= bound - near)
        edge = select(leaves, minimum(edge, (load(raw + at) - base) - bound), edge)
    for at in range(0, size, 64):
        least = load(low + at) if low else spread(0.0)
        rest = rest_sparse((load(raw + at) - base) - edge, load(u + at), least, near)
        store(rests + at, select(held & (load(raw + at) != spread(-INF)), rest, load(rests + at)))


@njit
def _settle_soft(
    size: int, raw: int, powers: int, u: int, low: int, factor: Any, held: Any, near: float, rests: int
) -> None:
    """The same of constrained softmax."""
    base = spread(INF)
    for at in range(0, size, 64):
        bound = load(u + at)
        leaves = (bound > 0.0) & (load(powers + at) * factor >= (1.0 - near) * bound)
        base = select(leaves, minimum(base, load(raw + at)), base)
    held = held & (base < INF)
    edge = spread(0.0)
    for at in range(0, size, 64):
        bound = load(u + at)
        leaves = (bound > 0.0) & (load(powers + at) * factor >= (1.0 - near) * bound)
        edge = select(leaves, maximum(edge, bound * exp(base - load(raw + at))), edge)
    for at in range(0, size, 64):
        least = load(low + at) if low else spread(0.0)
        rest = rest_soft(exp(load(raw + at) - base) * edge, load(u + at), least, near)
        store(rests + at, select(held & (load(raw + at) != spread(-INF)), rest, load(rests + at)))
