"""Multi-head self-attention, over all tokens of a sequence or causally over the preceding tokens.

    head_h = softmax(x W_h^Q (x W_h^K)^T / sqrt(d) + G) x W_h^V      Vaswani et al. (2017), Section 3.2

G is an optional bias toward nearby positions (`regard.attention.localness`). If the weights are not
requested, PyTorch's fused operator computes the result. Search caches the keys and values of earlier steps
(`regard.attention.kv_cache`).
"""

import torch
from torch import nn

from regard.attention.kv_cache import KVCache
from regard.attention.localness import Localness
from regard.functional.masking import accumulation_dtype
from regard.kernels.attention import fused_attention, slot_attention
from regard.layers.linear import Linear
from regard.types import Bool, Float, Tensor

__all__ = ["SelfAttention"]


class SelfAttention(nn.Module):
    """Multi-head self-attention.

    Args:
        width: D, a multiple of the number of heads.
        num_heads: H.
        use_localness: Whether to add a learned bias toward nearby positions.
    """

    def __init__(self, width: int, num_heads: int, use_localness: bool = False) -> None:
        """Create the projections."""
        super().__init__()
        self.num_heads = num_heads
        self.localness = Localness(width, num_heads) if use_localness else None
        self.in_proj = Linear(width, 3 * width, num_parts=3)  # queries, keys and values
        self.out_proj = Linear(width, width)

    def _project(self, x: Float[Tensor, "B T D"]) -> tuple[Tensor, Tensor, Tensor]:
        """Compute queries, keys and values, each [B, H, T, E]."""
        batch, steps, width = x.shape
        parts = self.in_proj(x).view(batch, steps, 3, self.num_heads, width // self.num_heads)
        # unbind has one backward node; three slices would sum three gradients of full size.
        queries, keys, values = parts.transpose(1, 3).unbind(2)
        return queries, keys, values

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B T"] | None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B H T T"] | None]:
        """Attend over a whole sequence.

        Args:
            x: The token representations.
            mask: True at real tokens. None selects causal attention: each token attends to itself and to the
                preceding tokens.
            return_weights: Whether to return the attention weights.

        Returns:
            The result of attention, and the weights in float32 or better (None if `return_weights` is False).
        """
        queries, keys, values = self._project(x)
        bias = None
        if self.localness is not None:
            # With causal attention, the sentence length at position t is t + 1.
            count = torch.arange(1, x.shape[1] + 1, device=x.device).unsqueeze(0)
            lengths = count if mask is None else mask.sum(-1, keepdim=True)
            bias = self._localness_bias(queries, lengths, x.shape[1])
        causal_mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        allowed = causal_mask if mask is None else mask[:, None, None]  # (B, 1, 1, T)
        weights = None
        if return_weights:  # explicit computation, because the fused operator does not return the weights
            scores = (queries @ keys.transpose(2, 3)) * queries.shape[-1] ** -0.5
            scores = scores.to(accumulation_dtype(scores.dtype))
            scores = scores if bias is None else scores + bias
            weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
            found = weights.to(values.dtype) @ values
        elif bias is not None:
            added = bias.masked_fill(~allowed, -torch.inf).to(queries.dtype)
            found = fused_attention(queries, keys, values, added)
        else:
            found = fused_attention(
                queries, keys, values, None if mask is None else allowed, causal=mask is None
            )
        return self.out_proj(found.transpose(1, 2).flatten(2)), weights

    def _localness_bias(
        self, queries: Float[Tensor, "B H T E"], lengths: Tensor, num_positions: int
    ) -> Tensor:
        """Compute the bias toward nearby positions: [B, H, T, S]."""
        assert self.localness is not None
        return self.localness(queries.transpose(1, 2).flatten(2), lengths.to(torch.float32), num_positions)

    def empty_cache(self, batch: int, like: Tensor) -> KVCache:
        """Return an empty cache.

        Args:
            batch: B.
            like: A tensor with the device and dtype of the cache.
        """
        return KVCache.empty(batch, like.new_empty(0, 2 * self.out_proj.weight.shape[0]))

    def step(self, x: Float[Tensor, "B D"], cache: KVCache) -> tuple[Float[Tensor, "B D"], KVCache]:
        """Attend for one more token, to itself and the cached tokens, and return the extended cache."""
        query, entries = self.in_proj(x).split((x.shape[1], 2 * x.shape[1]), dim=1)
        cache = cache.append(entries)
        # The kernel reads keys and values from their slots, without a copy per hypothesis.
        if self.localness is None:
            found = slot_attention(query, cache.store.entries, cache.slots, self.num_heads)
            return self.out_proj(found), cache
        keys, values = cache.keys_and_values(self.num_heads)
        queries = query.view(len(x), self.num_heads, 1, -1)
        length = torch.full((1, 1), cache.length, device=x.device)
        bias = self._localness_bias(queries, length, cache.length).to(query.dtype)
        found = fused_attention(queries, keys, values, bias)
        return self.out_proj(found.flatten(1)), cache
