"""Softmax with a mask.

    p = argmax over the simplex of p . z + H(p), that is p_i = exp(z_i) / sum_j exp(z_j).

A masked position gets exactly 0 and no gradient; a row with nothing to attend gets zeros.
"""

import torch

from regard.functional.masking import exact_dtype, hide
from regard.types import Bool, Float, Tensor

__all__ = ["softmax"]


def softmax(
    scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None, dim: int = -1
) -> Float[Tensor, "*B"]:
    """The softmax of `scores` along `dim`.

    Args:
        scores: Any shape; half precisions are computed in float32 and returned in their own. A row of nothing
            but -inf is NaN, as in `torch.softmax`, unless a mask says that there is nothing to attend.
        mask: Broadcasts to `scores`; True = may be attended.
        dim: The dimension that sums to 1.

    Returns:
        Probabilities of the shape and dtype of `scores`.
    """
    hidden = hide(scores.to(exact_dtype(scores.dtype)), mask)
    weights = torch.softmax(hidden, dim)
    if mask is not None:
        weights = weights * mask
    return weights.to(scores.dtype)
