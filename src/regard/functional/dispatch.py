"""The common front of the transformations: checks of arguments, masks, dtypes, and the choice of a kernel.

A transformation has a reference in plain PyTorch along the last dimension and may have a compiled kernel.
`normalize` arranges the arguments and selects one of them. Masks are boolean, True = may be attended.
"""

from collections.abc import Callable

import torch

from regard.kernels.backend import KernelFallbackError, apply, in_transform, select_backend
from regard.kernels.normalizers import Normalizer, NormalizerName
from regard.types import Bool, Float, Tensor


def check_scores(scores: Tensor) -> None:
    """Raise `TypeError` unless the scores are floating-point numbers, like `torch.softmax`."""
    if not scores.is_floating_point():
        raise TypeError(
            f"scores have dtype {scores.dtype}, but must be floating-point numbers: convert with .float()"
        )


def check_mask(mask: Tensor | None, shape: torch.Size, target_name: str = "scores") -> None:
    """Check that the mask, if there is one, is boolean and broadcasts to `shape`, that of `target_name`.

    Raises:
        TypeError: The mask is not boolean.
        ValueError: It does not broadcast.
    """
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask has dtype {mask.dtype}, but must be boolean, True where a position may be attended: "
            "convert zeros and ones with .bool()"
        )
    check_shape("mask", mask, shape, target_name)


def check_shape(name: str, operand: Tensor, shape: torch.Size, target_name: str = "scores") -> None:
    """Raise `ValueError` unless the argument `name` broadcasts to `shape`, the shape of `target_name`."""
    lengths = operand.shape
    if lengths == shape:
        return
    pairs = zip(reversed(lengths), reversed(shape), strict=False)
    if len(lengths) > len(shape) or any(a != 1 and a != b for a, b in pairs):
        raise ValueError(
            f"{name} has shape {list(lengths)}, which does not broadcast to the shape of the {target_name}, "
            f"{list(shape)}"
        )


def bound_to_tensor(
    name: str, bound: Tensor | float | int, scores: Tensor, target_name: str = "scores"
) -> Tensor:
    """Convert the bound `name`, a tensor or a number, to a tensor that broadcasts to the scores.

    A number gets the device and dtype of the scores, with float32 instead of half precision.

    Raises:
        TypeError: The bound is neither a tensor nor a number.
        ValueError: The bound does not broadcast to the scores.
    """
    if isinstance(bound, torch.Tensor):
        check_shape(name, bound, scores.shape, target_name)
        return bound
    try:
        number = float(bound)
    except TypeError:
        kind = type(bound).__name__
        raise TypeError(f"{name} is of type {kind}, but must be a tensor or a number") from None
    return torch.full((), number, dtype=accumulation_dtype(scores.dtype), device=scores.device)


def mask_scores(
    scores: Float[Tensor, "*B"], usable: Bool[Tensor, "*B"], dim: int = -1
) -> Float[Tensor, "*B"]:
    """Replace scores by -inf where not usable, or by 0 in rows without usable positions to avoid NaN."""
    anything = usable.any(dim, keepdim=True)
    return torch.where(usable, scores, torch.where(anything, -torch.inf, 0.0).to(scores.dtype))


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of the computation: float32 for half precision, otherwise the scores' dtype."""
    return torch.promote_types(dtype, torch.float32)


def usable_positions(scores: Float[Tensor, "*B"], mask: Bool[Tensor, "*#B"] | None) -> Bool[Tensor, "*B"]:
    """Return True where a position may be attended: the mask is True and the score is not -inf."""
    usable = scores != -torch.inf
    return usable if mask is None else usable & mask


def poison_rows(
    weights: Float[Tensor, "*B S"],
    usable: Bool[Tensor, "*B S"],
    operand: Float[Tensor, "*B S"],
    invalid: Bool[Tensor, "*B 1"] | None = None,
) -> Float[Tensor, "*B S"]:
    """Return the weights, 0 where not usable, and NaN with a gradient of NaN where an invalid row is usable.

    The operand is a function of the tensors that get the gradient of NaN, such as their sum. By default, a
    row is invalid if its operand is NaN or +inf at a usable position.
    """
    if invalid is None:
        invalid = (usable & ~operand.isfinite()).any(-1, keepdim=True)
    poisoned = usable & invalid
    # Only the selected elements are multiplied, because 0 times NaN would be the gradient of the others.
    nan = torch.where(poisoned, operand, 0) * torch.nan
    return torch.where(poisoned, nan, weights.masked_fill(~usable, 0))


def shift_to_zero_max(scores: Float[Tensor, "*B"], usable: Bool[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """Shift each row so that its maximum usable score is 0; unusable positions get arbitrary values.

    A score becomes -inf if its difference from the maximum overflows.
    """
    filled = scores.masked_fill(~usable, 0)
    top = filled.detach().masked_fill(~usable, -torch.inf).amax(-1, keepdim=True)
    return filled - top.clamp_min(torch.finfo(scores.dtype).min)


def normalize(
    name: NormalizerName,
    reference: Callable[..., Tensor],
    scores: Tensor,
    upper: Tensor | float | int | None = None,
    lower: Tensor | float | int | None = None,
    *,
    mask: Tensor | None = None,
    dim: int = -1,
) -> Tensor:
    """Check the arguments of a transformation and apply its kernel, or its reference if it has none here.

    The arguments, result and errors are those of `constrained_sparsemax`. The reference is a function
    (scores, upper or None, lower or None, mask or None) -> weights, along the last dimension.
    """
    check_scores(scores)
    check_mask(mask, scores.shape)
    if upper is not None:
        upper = bound_to_tensor("upper", upper, scores)
    if lower is not None:
        lower = bound_to_tensor("lower", lower, scores)
    if not scores.dim():
        scores.movedim(dim, -1)  # raises PyTorch's error if `dim` is out of range
        return normalize(name, reference, scores.unsqueeze(0), upper, lower, mask=mask).squeeze(0)
    if dim not in (-1, scores.dim() - 1):
        upper, lower, mask = (
            None if operand is None else operand.expand_as(scores).movedim(dim, -1)
            for operand in (upper, lower, mask)
        )
        moved = scores.movedim(dim, -1)
        return normalize(name, reference, moved, upper, lower, mask=mask).movedim(-1, dim)
    if not scores.numel():
        bounds = (bound for bound in (upper, lower) if bound is not None)
        return sum(bounds, scores).to(scores.dtype)
    backend = select_backend(scores)
    if backend == "reference":
        return reference(scores, upper, lower, mask)
    exact = accumulation_dtype(scores.dtype)
    z = scores if scores.dtype == exact else scores.to(exact)
    upper = None if upper is None else upper.to(exact)
    lower = None if lower is None else lower.to(exact)
    try:
        weights = apply(Normalizer, name, backend, z, upper, lower, mask)
    except KernelFallbackError:
        weights = reference(z, upper, lower, mask)
    return weights if scores.dtype == exact else weights.to(scores.dtype)


def apply_to_largest(
    function: Callable[[Tensor], Tensor], scores: Float[Tensor, "*B S"], k: int
) -> Float[Tensor, "*B S"]:
    """Apply a sparse transformation to the k largest scores of each row, and to all scores where necessary.

    If the smallest of the k scores gets weight 0, every smaller score does too, and the result is exact.
    Other rows are computed again with 4 k scores, and so on. The function is along the last dimension; scores
    are -inf at masked positions.
    """
    # Compiled code cannot select the rows that are not done.
    if k >= scores.shape[-1] or in_transform():
        return function(scores)
    flat = scores.reshape(-1, scores.shape[-1])
    largest, positions = flat.topk(k, dim=-1)
    top_weights = function(largest)
    weights = torch.zeros_like(flat).scatter(-1, positions, top_weights)
    # NaN is not 0, so a row of NaN is computed again, too.
    open_rows = (top_weights[:, -1] != 0).nonzero().squeeze(-1)
    if len(open_rows):
        weights = weights.index_copy(0, open_rows, apply_to_largest(function, flat[open_rows], 4 * k))
    return weights.view(scores.shape)
