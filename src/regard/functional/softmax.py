"""Softmax with a mask.

    p = argmax over the simplex of p . z + H(p), that is p_i = exp(z_i) / sum_j exp(z_j).

A masked position gets exactly 0 and has no gradient. A row without attendable positions gets zeros.
"""

import torch

from regard.functional.masking import accumulation_dtype, check_arguments, mask_scores
from regard.types import Bool, Float, Tensor

__all__ = ["softmax"]


def softmax(
    scores: Float[Tensor, "*B"], dim: int = -1, *, mask: Bool[Tensor, "*#B"] | None = None
) -> Float[Tensor, "*B"]:
    """Compute the softmax of `scores` along `dim`.

    Args:
        scores: Any shape. Half precision is computed in float32 and returned in the input's dtype. A row
            whose attendable scores are all -inf is NaN, as in `torch.softmax`.
        dim: The dimension that sums to 1.
        mask: Boolean, True = may be attended; broadcasts to `scores`.

    Returns:
        Probabilities in the shape and dtype of `scores`.

    Raises:
        TypeError: The scores are not floating-point numbers, or the mask is not boolean.
        ValueError: The mask does not broadcast to the scores.
    """
    check_arguments(scores, mask)
    dtype = scores.dtype
    scores = scores.to(accumulation_dtype(dtype))
    weights = torch.softmax(mask_scores(scores, mask, dim), dim)
    return (weights if mask is None else weights * mask).to(dtype)
