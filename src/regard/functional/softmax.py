"""Softmax with a mask.

    p = argmax over the simplex of p . z + H(p), that is p_i = exp(z_i) / sum_j exp(z_j).

A masked position gets exactly 0 and no gradient; a row with nothing to attend gets zeros.
"""

import torch

from regard.functional.masking import check_arguments, exact_dtype, hide
from regard.types import Bool, Float, Tensor

__all__ = ["softmax"]


def softmax(
    scores: Float[Tensor, "*B"], dim: int = -1, *, mask: Bool[Tensor, "*#B"] | None = None
) -> Float[Tensor, "*B"]:
    """Return the softmax of `scores` along `dim`.

    Args:
        scores: Any shape; half precisions are computed in float32 and returned in their own. A row in
            which only scores of -inf may be attended is NaN, as in `torch.softmax`.
        dim: The dimension that sums to 1.
        mask: Boolean; broadcasts to `scores`; True = may be attended.

    Returns:
        Probabilities of the shape and dtype of `scores`.

    Raises:
        TypeError: The scores are not floating-point numbers, or the mask is not boolean.
        ValueError: The mask does not broadcast to the scores.
    """
    check_arguments(scores, mask)
    dtype = scores.dtype
    scores = scores.to(exact_dtype(dtype))
    weights = torch.softmax(hide(scores, mask, dim), dim)
    return (weights if mask is None else weights * mask).to(dtype)
