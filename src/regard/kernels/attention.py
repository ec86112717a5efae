"""PyTorch's fused scaled dot-product attention, in the precision that is fast on the device.

On a CPU its gradient in bfloat16 takes several times as long as in float32 (`benchmarks/RESULTS.md`), so
half precisions are attended in float32 there.
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
    """softmax(scale * Q K^T + mask) V.

    Args:
        queries: [B, H, T, E].
        keys: [B, H, S, E].
        values: [B, H, S, E].
        mask: Broadcasting to [B, H, T, S]: True where a word may be attended, or numbers to be added.
        causal: Whether word t attends to words 0 to t alone; without a mask.
        scale: Of the scores; none: 1 / sqrt(E).
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
