"""Masks: boolean, True = may be attended."""

import torch

from regard.types import Bool, Float, Tensor

__all__ = ["exact_dtype", "hide"]


def hide(scores: Float[Tensor, "*B"], mask: Bool[Tensor, "*#B"] | None) -> Float[Tensor, "*B"]:
    """Scores with the lowest finite number where the mask is False, so that an empty row makes no NaN."""
    return scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)


def exact_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype a map computes in: float32 for half precisions, else the scores' own."""
    return torch.promote_types(dtype, torch.float32)
