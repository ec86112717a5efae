"""Clustering of the values of rows: x = argmin 1/2 |x - z|^2 + lambda sum_{i<j} max(x_i, x_j).

This is the penalty of OSCAR (Bondell & Reich, 2008) without absolute values. In a row of n values, the k-th
largest is the maximum of n - k pairs, so that the penalty is sum_k (n - k) x_(k). With z sorted from the
largest to the smallest,

    x = isotonic (decreasing) regression of z_(k) - lambda (n - k)    Zeng & Figueiredo (2014), Section 3,

which is constant over groups of adjacent ranks:

    x = mean of z over the group - lambda * mean of n - k over the group.

The pool adjacent violators algorithm finds the groups: adjacent groups whose values increase are merged.
"""

import torch

from regard.kernels.backend import backend_module, in_functorch_transform, use_numba
from regard.kernels.total_variation import group_means
from regard.types import Bool, Float, Int, Tensor

__all__ = ["cluster", "reference_cluster"]


def reference_cluster(
    scores: Float[Tensor, "*B S"], usable: Bool[Tensor, "*B S"], strength: float
) -> tuple[Int[Tensor, "*B S"], Float[Tensor, "*B S"]]:
    """Compute the group of each position, and x minus the group's mean, in plain PyTorch."""
    exact = scores.to(scores.dtype if scores.device.type == "mps" else torch.float64)
    order = exact.masked_fill(~usable, -torch.inf).argsort(dim=-1, descending=True, stable=True)
    inside = usable.gather(-1, order)
    # Sorting puts unusable positions last; a usable score is finite.
    z = exact.gather(-1, order).masked_fill(~inside, 0)
    ranks = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
    pairs = (inside.sum(-1, keepdim=True) - ranks).masked_fill(~inside, 0)
    lowered = z - strength * pairs
    both = inside[..., 1:]
    joined = torch.zeros_like(both)

    def numbers() -> Tensor:
        return torch.nn.functional.pad((~joined).long().cumsum(-1), (1, 0))

    # Each pass merges at least one pair of groups of a row that is not done. The number of passes is fixed,
    # because compiled code cannot depend on values.
    fixed = torch.compiler.is_compiling() or in_functorch_transform()
    for _ in range(z.shape[-1] - 1):
        rising = both & ~joined & (group_means(lowered, numbers()).diff(dim=-1) >= 0)
        if not fixed and not bool(rising.any()):
            break
        joined = joined | rising
    groups = numbers()
    back = order.argsort(dim=-1)
    changes = -strength * group_means(pairs, groups)
    return groups.gather(-1, back), changes.to(scores.dtype).gather(-1, back)


def cluster(
    scores: Float[Tensor, "*B S"], usable: Bool[Tensor, "*B S"], strength: float
) -> tuple[Int[Tensor, "*B S"], Float[Tensor, "*B S"]]:
    """Return the groups of positions with equal x, and the difference of x and the mean score of each group.

    Args:
        scores: z, finite where usable.
        usable: True at the positions to include; the others are skipped.
        strength: The weight lambda of the penalty.

    Returns:
        A number for the group of each position, in [0, S), and the difference of x and the mean of the scores
        of the group, in the dtype of the scores.
    """
    if not use_numba(scores):
        return reference_cluster(scores, usable, strength)
    return backend_module("numba", "oscar").cluster(scores, usable, strength)
