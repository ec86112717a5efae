"""Bounded probability distributions: feasibility, and the search of the threshold.

Both constrained transformations find p with l <= p <= u and sum 1 through one number per row, the threshold:
every p_i falls from u_i to l_i as the threshold rises, between two breakpoints. The sum is therefore a
function with at most 2 S + 1 segments. A binary search over the sorted breakpoints finds the segment on which
the sum crosses 1 in log2(2 S) evaluations (Pardalos & Kovoor, 1990, search the same breakpoints by
medians). On that segment each position is either at a bound or free, and the threshold has a closed form. No
bisection of real numbers is needed.

The scores and the threshold may be as extreme as -1e38, where the rounding error of the threshold exceeds 1.
So the same search is first made over the scores. There the sum is exact, because it depends on differences of
scores only. All further values are relative to a score near the threshold (`center_scores`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.errors import InfeasibleBoundsError
from regard.functional.dispatch import bound_to_tensor, check_mask, poison_rows, usable_positions
from regard.kernels.backend import in_transform
from regard.kernels.normalizers import bound_tolerances
from regard.types import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class BoundedProblem:
    """The input of a constrained transformation along the last dimension, in float64 if the device has it.

    Attributes:
        scores: [..., S], 0 where not usable.
        upper: [..., S], clipped to 1 (larger bounds have no effect), 0 where not usable.
        lower: [..., S], 0 where not usable.
        usable: [..., S], whether the position may be attended: the mask is True and the score is not -inf.
        feasible: [..., 1], whether a distribution satisfies the bounds; True for rows without usable
            positions.
        upper_is_solution: [..., 1], whether the upper bounds sum to at most 1 and are therefore the solution.
        tie_tolerance: Distance from a bound below which the unbounded solution counts as a tie.
        sum_tolerance: Tolerance of upper bounds that sum to less than 1.
        source: [..., S], the sum of the scores and the bounds that the caller passed, whose gradient is that
            of each of them.
    """

    scores: Tensor
    upper: Tensor
    lower: Tensor
    usable: Tensor
    feasible: Tensor
    upper_is_solution: Tensor
    tie_tolerance: float
    sum_tolerance: float
    source: Tensor

    @classmethod
    def build(
        cls, scores: Tensor, upper: Tensor, lower: Tensor | None, mask: Tensor | None
    ) -> "BoundedProblem":
        """Validate and complete the input of a transformation.

        Raises:
            InfeasibleBoundsError: No distribution satisfies the bounds of a row. Only raised on a CPU outside
                of compiled code and `torch.func`; elsewhere `feasible` is False.
        """
        exact = scores.dtype if scores.device.type == "mps" else torch.float64
        usable = usable_positions(scores, mask)
        z = scores.to(exact).masked_fill(~usable, 0)
        u = upper.to(exact).expand_as(z).clamp_max(1).masked_fill(~usable, 0)
        low = torch.zeros_like(z) if lower is None else lower.to(exact).expand_as(z).masked_fill(~usable, 0)
        near, slack = bound_tolerances(scores.dtype)
        upper_sum, lower_sum = u.sum(-1, keepdim=True), low.sum(-1, keepdim=True)
        invalid = ((u < 0) | (low < 0) | (low > u + near)).any(-1, keepdim=True)
        # Comparisons with NaN are False, so a row with a NaN is feasible: NaN propagates without an error.
        invalid = invalid | (upper_sum < 1 - slack) | (lower_sum > 1 + slack)
        feasible = ~invalid | ~usable.any(-1, keepdim=True)
        source = scores + upper if lower is None else scores + upper + lower
        problem = cls(z, u, low, usable, feasible, upper_sum <= 1, near, slack, source)
        if z.device.type == "cpu" and not in_transform():
            problem.raise_for_bounds()
        return problem

    def raise_for_bounds(self) -> None:
        """Raise `InfeasibleBoundsError` for the first row in which no distribution fits."""
        if bool(self.feasible.all()):
            return
        row = tuple(int(i) for i in (~self.feasible.squeeze(-1)).nonzero()[0])
        upper_sum, lower_sum = float(self.upper[row].detach().sum()), float(self.lower[row].detach().sum())
        where = f"row {list(row)} of {list(self.scores.shape[:-1])}" if row else "the only row"
        too_small = upper_sum < 1 - self.sum_tolerance and lower_sum <= upper_sum
        total = upper_sum if too_small else lower_sum
        # At least six digits, and enough to differ from 1.
        text = next((text for digits in range(6, 18) if float(text := f"{total:.{digits}g}") != 1), "1")
        if too_small:
            why = f"its usable upper bounds sum to {text}, but must sum to at least 1"
        elif lower_sum > 1 + self.sum_tolerance:
            why = f"its lower bounds sum to {text}, but must sum to at most 1"
        else:
            why = "a bound is negative, or a lower bound exceeds its upper bound"
        raise InfeasibleBoundsError(f"no distribution satisfies the bounds of {where}: {why}", row)

    def finish(self, solution: Tensor, closed_form: Tensor) -> Tensor:
        """Combine a solution with the derivatives of a closed form that equals it, and handle special rows.

        Upper bounds that sum to slightly less than 1 are rescaled. A row that is infeasible or contains a NaN
        becomes NaN, with gradients of NaN.
        """
        total = self.upper.sum(-1, keepdim=True)
        value = torch.where(self.upper_is_solution & (total > 0), self.upper / total, solution)
        # Add terms that are NaN if a score or lower bound is; 0 times a score, as their sum may overflow.
        total = total + (self.scores * 0 + self.lower).sum(-1, keepdim=True)
        invalid = ~self.feasible | ~torch.isfinite(total)
        # The result has the value of `value` and the gradient of `closed_form`.
        weights = closed_form + (value - closed_form).detach()
        return poison_rows(weights, self.usable, self.source.to(weights.dtype), invalid)


def _first_sum_above_one(
    ordered: Float[Tensor, "*B N"], total: Callable[[Tensor], Tensor]
) -> Int[Tensor, "*B 1"]:
    """Return the index of the first threshold in descending order whose sum is at least 1; else the last."""
    last = ordered.shape[-1] - 1
    # A binary search with a fixed number of iterations, so that no iteration waits for the device.
    low = torch.zeros_like(ordered[..., :1], dtype=torch.int64)
    high = torch.full_like(low, last)
    for _ in range(last.bit_length()):
        middle = (low + high) // 2
        reached = total(ordered.gather(-1, middle)) >= 1
        low = torch.where(reached, low, (middle + 1).clamp_max(last))
        high = torch.where(reached, middle, high)
    return high


def center_scores(
    problem: BoundedProblem, total: Callable[[Tensor], Tensor], max_distance: float, *, above: bool
) -> tuple[Float[Tensor, "*B 1"], Float[Tensor, "*B S"]]:
    """Return the next score above or below the threshold, and the scores relative to it, clipped.

    `total` returns the sum at a threshold [..., 1]; it rises as the threshold falls. Beyond `max_distance`
    from the threshold, every position is at a bound, so the relative scores are clipped to +-max_distance.
    """
    ordered = problem.scores.sort(-1, descending=True).values
    first = _first_sum_above_one(ordered, total)
    center = ordered.gather(-1, first)
    if above:
        center = torch.where(total(center) >= 1, ordered.gather(-1, (first - 1).clamp_min(0)), center)
    # If the upper bounds are the solution, the threshold lies below all scores with a positive bound.
    bounded = problem.upper > 0
    lowest = torch.where(bounded, problem.scores, torch.inf).amin(-1, keepdim=True)
    center = torch.where(problem.upper_is_solution & bounded.any(-1, keepdim=True), lowest, center)
    return center, (problem.scores - center).clamp(-max_distance, max_distance)


def recenter_saturated(
    problem: BoundedProblem,
    center: Float[Tensor, "*B 1"],
    saturated: Bool[Tensor, "*B 1"],
    at_upper: Bool[Tensor, "*B S"],
    max_distance: float,
) -> tuple[Float[Tensor, "*B 1"], Float[Tensor, "*B S"]]:
    """Recenter rows without a free position on the lowest score at its upper bound, which may be far away.

    Other rows keep their center. The result is that of `center_scores`.
    """
    least = torch.where(at_upper, problem.scores, torch.inf).amin(-1, keepdim=True)
    center = torch.where(saturated & at_upper.any(-1, keepdim=True), least, center)
    return center, (problem.scores - center).clamp(-max_distance, max_distance)


def find_threshold(
    problem: BoundedProblem, breakpoints: Float[Tensor, "*B N"], total: Callable[[Tensor], Tensor]
) -> Float[Tensor, "*B 1"]:
    """Return a threshold strictly within the segment between two breakpoints on which the sum crosses 1.

    It is beyond all of them if the bounds are the solution. The breakpoints, at which a position reaches or
    leaves a bound, may be infinite. `total` is that of `center_scores`.
    """
    ordered = breakpoints.sort(-1, descending=True).values
    high = _first_sum_above_one(ordered, total)
    below = ordered.gather(-1, high)
    above = ordered.gather(-1, (high - 1).clamp_min(0))
    # In an unbounded segment, any threshold beyond its finite end will do.
    open_ended = (high == 0) | torch.isinf(above)
    inside = torch.where(open_ended, below + 1, (torch.where(open_ended, below, above) + below) / 2)
    lowest = torch.where(torch.isinf(ordered), torch.inf, ordered).amin(-1, keepdim=True)
    return torch.where(problem.upper_is_solution, lowest - 1, inside)


def check_bounds(
    upper: Float[Tensor, "*B"],
    lower: Float[Tensor, "*#B"] | float | int | None = None,
    dim: int = -1,
    *,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> None:
    """Raise `InfeasibleBoundsError` unless in every row some distribution satisfies the bounds.

    On a CPU the constrained transformations check this themselves. On an accelerator and in compiled code
    they return NaN instead, because a check would wait for the device; call this function to check there.

    Args:
        upper: The upper bounds, in the shape of the scores.
        lower: Lower bounds, or a number. None means 0.
        dim: The dimension that sums to 1.
        mask: Boolean, True = may be attended.

    Raises:
        InfeasibleBoundsError: A row is infeasible; the message names the first such row and the sum of its
            bounds.
        TypeError: The mask is not boolean, or the lower bounds are neither a tensor nor a number.
        ValueError: The lower bounds or the mask do not broadcast to the upper bounds.
    """
    check_mask(mask, upper.shape, "upper bounds")
    low = None if lower is None else bound_to_tensor("lower", lower, upper, "upper bounds")
    high = upper.movedim(dim, -1)
    low = None if low is None else low.expand_as(upper).movedim(dim, -1)
    usable = None if mask is None else mask.expand_as(upper).movedim(dim, -1)
    BoundedProblem.build(torch.zeros_like(high), high, low, usable).raise_for_bounds()
