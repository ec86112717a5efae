"""Total variation denoising of rows: x = argmin 1/2 |x - z|^2 + lambda sum_j |x_{j+1} - x_j|.

x is constant over groups of neighbors. With n the size of a group and s = +1 or -1 if the adjacent group on
that side is higher or lower (0 at an end),

    x = mean of z over the group + lambda (s_right + s_left) / n.

The reference follows the path from lambda = 0; the Numba kernel uses the taut string algorithm.
"""

import torch

from regard.kernels._reference.total_variation import group_means
from regard.kernels.backend import backend_module, in_functorch_transform, select_backend
from regard.types import Bool, Float, Int, Tensor

__all__ = ["fuse", "group_means"]


def fuse(
    scores: Float[Tensor, "*B S"], usable: Bool[Tensor, "*B S"], strength: float
) -> tuple[Int[Tensor, "*B S"], Float[Tensor, "*B S"]]:
    """Return the groups of positions with equal x, and the difference of x and the mean score of each group.

    Args:
        scores: z, finite where usable.
        usable: True at the positions to include; the others are skipped.
        strength: The weight lambda of the total variation.

    Returns:
        A number for the group of each position, in [0, S), and the difference of x and the mean of the scores
        of the group, in the dtype of the scores.
    """
    plain = select_backend(scores) != "numba" or in_functorch_transform() or torch.compiler.is_compiling()
    return backend_module("reference" if plain else "numba", "total_variation").fuse(scores, usable, strength)
