"""Masks: boolean, True = may be attended."""

import torch

from regard.types import Bool, Float, Tensor

__all__ = ["attendable", "exact_dtype", "hide", "shifted"]


def hide(scores: Float[Tensor, "*B"], mask: Bool[Tensor, "*#B"] | None) -> Float[Tensor, "*B"]:
    """Scores with the lowest finite number where the mask is False, so that an empty row makes no NaN."""
    return scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)


def exact_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype a map computes in: float32 for half precisions, else the scores' own."""
    return torch.promote_types(dtype, torch.float32)


def attendable(scores: Float[Tensor, "*B"], mask: Bool[Tensor, "*#B"] | None) -> Bool[Tensor, "*B"]:
    """Where a position may be attended: the mask is True, and the score not -inf."""
    usable = scores != -torch.inf
    return usable if mask is None else usable & mask


def shifted(scores: Float[Tensor, "*B"], usable: Bool[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """Scores with the greatest usable one of each row at 0; where not usable, of no meaning."""
    filled = scores.masked_fill(~usable, 0)
    top = filled.detach().masked_fill(~usable, -torch.inf).amax(-1, keepdim=True)
    return filled - top.clamp_min(torch.finfo(scores.dtype).min)
