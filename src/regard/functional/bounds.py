"""Bounds of a distribution: whether one fits between them, and where a solution rests on them.

Both constrained maps choose p between l and u, summing to 1, by one number a row, the level: every p_i falls
from u_i to l_i as the level rises, between two breakpoints of its own. The sum is therefore made of at most
2 S + 1 pieces, and a binary search over the sorted breakpoints finds the piece on which it passes 1 in
log2(2 S) evaluations (Pardalos & Kovoor 1990 search the same breakpoints, by medians). On that piece every
position is known to be at a bound or free, and the level has a closed form: nothing is bisected.

A level may be anywhere that scores are, -1e38 say, where its rounding exceeds 1 and with it every weight. So
the same search is made over the scores first, at which the sum is exact, for it is made of their differences;
all else is measured from the score that is found to be near the level (`centred`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.errors import InfeasibleBounds
from regard.functional.masking import attendable, bound_of, check_mask, check_shape
from regard.kernels.versions import transforming
from regard.types import Bool, Float, Int, Tensor

__all__ = ["Problem", "Rest", "centred", "check_bounds", "crossing", "leaving", "tolerance"]

SLACK, SLACK_DOUBLE = 1e-4, 1e-9  # by how much bounds may sum to less than 1
NEAR, NEAR_DOUBLE = 1e-6, 1e-9  # how near its bound a position counts as meeting it


def tolerance(dtype: torch.dtype) -> float:
    """How near to its bound the free form counts as meeting it: a tie."""
    return NEAR_DOUBLE if dtype == torch.float64 else NEAR


def slack(dtype: torch.dtype) -> float:
    """How much less than 1 the upper bounds may sum to."""
    return SLACK_DOUBLE if dtype == torch.float64 else SLACK


@dataclass(frozen=True)
class Problem:
    """The input of a constrained map along the last dimension, in float64 where the device has it.

    Attributes:
        scores: [..., S], 0 where not usable.
        upper: [..., S], cut to 1 (a bound above holds nothing back), 0 where not usable.
        lower: [..., S], 0 where not usable.
        usable: [..., S], whether the position may be attended: the mask is True, the score not -inf.
        feasible: [..., 1], whether a distribution fits; true of a row with nothing usable.
        full: [..., 1], whether the upper bounds sum to no more than 1 and so are the answer.
        near: Ties, see `tolerance`.
    """

    scores: Tensor
    upper: Tensor
    lower: Tensor
    usable: Tensor
    feasible: Tensor
    full: Tensor
    near: float

    @classmethod
    def of(cls, scores: Tensor, upper: Tensor, lower: Tensor | None, mask: Tensor | None) -> "Problem":
        """Check and complete the input of a map.

        Raises:
            InfeasibleBounds: In a row no distribution fits, and raising neither stalls nor is impossible.
        """
        exact = scores.dtype if scores.device.type == "mps" else torch.float64
        usable = attendable(scores, mask)
        z = scores.to(exact).masked_fill(~usable, 0)
        u = upper.to(exact).expand_as(z).clamp_max(1).masked_fill(~usable, 0)
        low = torch.zeros_like(z) if lower is None else lower.to(exact).expand_as(z).masked_fill(~usable, 0)
        room = slack(scores.dtype)
        most, least = u.sum(-1, keepdim=True), low.sum(-1, keepdim=True)
        wrong = ((u < 0) | (low < 0) | (low > u + tolerance(scores.dtype))).any(-1, keepdim=True)
        # Said so that a NaN is nobody's fault: it comes out as one.
        fits = ~(wrong | (most < 1 - room) | (least > 1 + room)) | ~usable.any(-1, keepdim=True)
        found = cls(z, u, low, usable, fits, most <= 1, tolerance(scores.dtype))
        if z.device.type == "cpu" and not torch.compiler.is_compiling() and not transforming():
            found.raise_for_bounds()
        return found

    def raise_for_bounds(self) -> None:
        """Raise `InfeasibleBounds` for the first row in which no distribution fits."""
        if bool(self.feasible.all()):
            return
        row = tuple(int(i) for i in (~self.feasible.squeeze(-1)).nonzero()[0])
        most, least = float(self.upper[row].detach().sum()), float(self.lower[row].detach().sum())
        where = f"row {list(row)} of {list(self.scores.shape[:-1])}" if row else "the only row"
        if most < 1 and least <= most:
            why = f"its usable upper bounds sum to {most:.6g}, and must sum to at least 1"
        elif least > 1:
            why = f"its lower bounds sum to {least:.6g}, and must sum to at most 1"
        else:
            why = "a bound is negative, or a lower one above its upper one"
        raise InfeasibleBounds(f"no distribution fits the bounds of {where}: {why}", row)

    def settle(self, distribution: Tensor, form: Tensor) -> Tensor:
        """The distribution with its exceptions, and the derivatives of a form that equals it.

        Bounds that only just suffice are scaled to sum to 1; a row in which none fits, or with a NaN, is NaN.
        """
        total = self.upper.sum(-1, keepdim=True)
        whole = torch.where(self.full & (total > 0), self.upper / total, distribution)
        # Neither number is wanted, only whether it is one; the sum of the scores may be none.
        total = total + (self.scores * 0 + self.lower).sum(-1, keepdim=True)
        broken = ~self.feasible | ~torch.isfinite(total)
        whole = whole.masked_fill(broken, torch.nan)
        return (form + (whole - form).detach()).masked_fill(~self.usable, 0)


@dataclass(frozen=True)
class Rest:
    """Where a solution rests: every usable position is free, at its upper bound or at its lower bound.

    Where bounds alone decide and no position is free, the one that moves first as the bounds loosen counts as
    free: then the gradient through the free ones is the derivative for loosened bounds.

    Attributes:
        free: [..., S].
        upper: [..., S].
        lower: [..., S].
    """

    free: Bool[Tensor, "*B S"]
    upper: Bool[Tensor, "*B S"]
    lower: Bool[Tensor, "*B S"]

    @classmethod
    def of(cls, problem: Problem, free: Tensor, upper: Tensor) -> "Rest":
        """Every usable position that is neither free nor at its upper bound rests on the lower one."""
        free, upper = free & problem.usable, upper & problem.usable & ~free
        return cls(free, upper, problem.usable & ~free & ~upper)

    def fixed(self, upper: Tensor, lower: Tensor) -> Tensor:
        """The values of the positions at a bound, 0 at the free ones."""
        return torch.where(self.upper, upper, torch.where(self.lower, lower, 0))


def _first_reaching(ordered: Float[Tensor, "*B N"], total: Callable[[Tensor], Tensor]) -> Int[Tensor, "*B 1"]:
    """Which of these levels, from the highest on, is the first at which the sum is 1; the last if none is."""
    last = ordered.shape[-1] - 1
    low = torch.zeros_like(ordered[..., :1], dtype=torch.int64)
    high = torch.full_like(low, last)
    for _ in range(last.bit_length()):
        middle = (low + high) // 2
        reached = total(ordered.gather(-1, middle)) >= 1
        low = torch.where(reached, low, (middle + 1).clamp_max(last))
        high = torch.where(reached, middle, high)
    return high


def centred(
    problem: Problem, total: Callable[[Tensor], Tensor], reach: float, *, above: bool
) -> tuple[Float[Tensor, "*B 1"], Float[Tensor, "*B S"]]:
    """The score next to the level, and the scores measured from it, of which those far away are cut.

    Args:
        problem: Whose level it is.
        total: The sum at a level [..., 1], which rises as the level falls.
        reach: So far away that a position is at a bound, wherever it is.
        above: Whether it is the next above the level, else the next below.
    """
    ordered = problem.scores.sort(-1, descending=True).values
    first = _first_reaching(ordered, total)
    centre = ordered.gather(-1, first)
    if above:
        centre = torch.where(total(centre) >= 1, ordered.gather(-1, (first - 1).clamp_min(0)), centre)
    bounded = problem.upper > 0
    lowest = torch.where(bounded, problem.scores, torch.inf).amin(-1, keepdim=True)
    centre = torch.where(problem.full & bounded.any(-1, keepdim=True), lowest, centre)
    return centre, (problem.scores - centre).clamp(-reach, reach)


def leaving(
    problem: Problem,
    centre: Float[Tensor, "*B 1"],
    held: Bool[Tensor, "*B 1"],
    leaves: Bool[Tensor, "*B S"],
    reach: float,
) -> tuple[Float[Tensor, "*B 1"], Float[Tensor, "*B S"]]:
    """In rows whose positions are all held, the least score of those that may leave, for it may be far away.

    Args:
        problem: Whose scores they are.
        centre: What scores are measured from so far, and in other rows from now on.
        held: Rows in which no position is free.
        leaves: Positions at their upper bounds.
        reach: As in `centred`.

    Returns:
        As `centred`.
    """
    least = torch.where(leaves, problem.scores, torch.inf).amin(-1, keepdim=True)
    centre = torch.where(held & leaves.any(-1, keepdim=True), least, centre)
    return centre, (problem.scores - centre).clamp(-reach, reach)


def crossing(
    problem: Problem, breakpoints: Float[Tensor, "*B N"], total: Callable[[Tensor], Tensor]
) -> Float[Tensor, "*B 1"]:
    """A level inside the piece on which the sum passes 1.

    Args:
        problem: Whose sum it is.
        breakpoints: The levels at which a position joins or leaves a bound; may be infinite.
        total: The sum at a level [..., 1], which rises as the level falls.

    Returns:
        A level strictly between two breakpoints, or beyond all of them where the bounds alone are the answer.
    """
    ordered = breakpoints.sort(-1, descending=True).values
    high = _first_reaching(ordered, total)
    below = ordered.gather(-1, high)
    above = ordered.gather(-1, (high - 1).clamp_min(0))
    open_ended = (high == 0) | torch.isinf(above)
    inside = torch.where(open_ended, below + 1, (torch.where(open_ended, below, above) + below) / 2)
    lowest = torch.where(torch.isinf(ordered), torch.inf, ordered).amin(-1, keepdim=True)
    return torch.where(problem.full, lowest - 1, inside)


def check_bounds(
    upper: Float[Tensor, "*B"],
    lower: Float[Tensor, "*#B"] | float | int | None = None,
    dim: int = -1,
    *,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> None:
    """Raise `InfeasibleBounds` unless in every row a distribution fits between the bounds.

    On a CPU the constrained maps check this themselves. On an accelerator and in compiled code they answer
    NaN instead, and this is the way to ask: it waits for the device.

    Args:
        upper: The bounds, in the shape of the scores.
        lower: Lower bounds, or a number; 0 if absent.
        dim: The dimension that sums to 1.
        mask: Boolean, True = may be attended.

    Raises:
        InfeasibleBounds: Names the first row and what its bounds sum to.
        TypeError: The mask is not boolean, or the lower bounds are neither a tensor nor a number.
        ValueError: The lower bounds or the mask do not broadcast to the upper ones.
    """
    if mask is not None:
        check_mask(mask)
        check_shape("mask", mask, upper.shape, "upper bounds")
    low = None if lower is None else bound_of("lower", lower, upper, "upper bounds")
    high = upper.movedim(dim, -1)
    low = None if low is None else low.expand_as(upper).movedim(dim, -1)
    usable = None if mask is None else mask.expand_as(upper).movedim(dim, -1)
    Problem.of(torch.zeros_like(high), high, low, usable).raise_for_bounds()
