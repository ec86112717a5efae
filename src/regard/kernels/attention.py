"""PyTorch's fused scaled dot-product attention, in the precision that is fast on the device.

On a CPU the gradient takes several times as long in bfloat16 as in float32 (`benchmarks/RESULTS.md`).
Inputs in half precision are therefore converted to float32 there.
"""

import torch
from torch.nn import functional as F

from regard.types import Tensor

__all__ = ["fused_attention"]


def fused_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Compute softmax(scale * Q K^T + mask) V (Vaswani et al. (2017), Eq. 1).

    Args:
        queries: [B, H, T, E].
        keys: [B, H, S, E].
        values: [B, H, S, E].
        mask: Broadcastable to [B, H, T, S]. Boolean, True where a position may be attended to, or values that
            are added to the scores. Default: no mask.
        causal: Whether position t attends to positions 0 to t only. Cannot be combined with a mask.
        scale: Factor of the scores. Default: 1 / sqrt(E).

    Returns:
        [B, H, T, E], in the dtype of the queries.
    """
    dtype = queries.dtype
    if queries.device.type == "cpu" and dtype in (torch.bfloat16, torch.float16):
        queries, keys, values = queries.float(), keys.float(), values.float()
        if mask is not None and mask.is_floating_point():
            mask = mask.float()
    with torch.autocast(queries.device.type, enabled=False):
        found = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, is_causal=causal, scale=scale
        )
    return found.to(dtype)
