"""The common front end of the transformations: dimensions, shapes, dtypes, masks and the choice of a kernel.

Each transformation has two implementations: a reference in plain PyTorch along the last dimension, and a
compiled kernel of the same name. This module arranges the arguments and selects the implementation by device
or user setting.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.functional.masking import accumulation_dtype, bound_to_tensor, check_arguments
from regard.kernels.backend import KernelFallbackError, in_functorch_transform, select_backend
from regard.kernels.normalizers import NormalizerName, eager_normalizer, traced_normalizer
from regard.types import Tensor

__all__ = ["Normalizer", "normalize"]


@dataclass(frozen=True)
class Normalizer:
    """A transformation with its two implementations.

    Attributes:
        kernel: Name of the kernel.
        reference: Function (scores, upper or None, lower or None, mask or None) -> weights, along the last
            dimension.
    """

    kernel: NormalizerName
    reference: Callable[..., Tensor]


def normalize(
    normalizer: Normalizer,
    scores: Tensor,
    upper: Tensor | float | int | None = None,
    lower: Tensor | float | int | None = None,
    *,
    mask: Tensor | None = None,
    dim: int = -1,
) -> Tensor:
    """Apply the transformation and return its weights, in the shape and dtype of the scores.

    Raises:
        TypeError: The scores are not floating-point numbers, the mask is not boolean, or a bound is neither a
            tensor nor a number.
        ValueError: An argument does not broadcast to the scores.
    """
    check_arguments(scores, mask)
    if upper is not None:
        upper = bound_to_tensor("upper", upper, scores)
    if lower is not None:
        lower = bound_to_tensor("lower", lower, scores)
    return _normalize_along(normalizer, scores, upper, lower, mask, dim)


def _normalize_along(
    normalizer: Normalizer,
    scores: Tensor,
    upper: Tensor | None,
    lower: Tensor | None,
    mask: Tensor | None,
    dim: int,
) -> Tensor:
    """Apply the transformation to checked arguments."""
    if not scores.dim():
        scores.movedim(dim, -1)  # raises PyTorch's error if `dim` is out of range
        return _normalize_along(normalizer, scores.unsqueeze(0), upper, lower, mask, -1).squeeze(0)
    if dim not in (-1, scores.dim() - 1):
        u, low, moved_mask = (
            None if one is None else one.expand_as(scores).movedim(dim, -1) for one in (upper, lower, mask)
        )
        return _normalize_along(normalizer, scores.movedim(dim, -1), u, low, moved_mask, -1).movedim(-1, dim)
    backend = select_backend(scores)
    if backend == "reference" or in_functorch_transform():
        if not scores.numel():
            return sum((one for one in (upper, lower) if one is not None), scores.clone())
        return normalizer.reference(scores, upper, lower, mask)
    dtype = scores.dtype
    exact = accumulation_dtype(dtype)
    if dtype != exact:
        scores = scores.to(exact)
    if upper is not None:
        upper = upper.to(exact)
    if lower is not None:
        lower = lower.to(exact)
    if torch.compiler.is_compiling():
        weights = traced_normalizer(normalizer.kernel, backend, scores, upper, lower, mask)
    else:
        try:
            weights = eager_normalizer(normalizer.kernel, backend, scores, upper, lower, mask)
        except KernelFallbackError:
            # The kernel found infeasible bounds or a threshold it cannot compute; the reference raises the
            # error or solves the row.
            weights = normalizer.reference(scores, upper, lower, mask)
    return weights if dtype == exact else weights.to(dtype)
