"""Multi-head self-attention, over all tokens of a sequence or causally over the preceding tokens.

    head_h = softmax(x W_h^Q (x W_h^K)^T / sqrt(d) + G) x W_h^V      Vaswani et al. (2017), Section 3.2

G is an optional bias toward nearby positions (`Localness`). If the weights are not requested, PyTorch's fused
operator computes the result.

Search caches the keys and values of earlier steps (`KVCache`). Every time step appends its keys and values to
a store. A hypothesis is a list of slots in this store. To reorder, repeat or drop hypotheses, search selects
rows of the slot lists; the keys and values are not copied.
"""

from dataclasses import dataclass

import torch
from torch import nn

from regard.functional.dispatch import accumulation_dtype
from regard.kernels.attention import fused_attention, slot_attention
from regard.layers.batched_state import BatchedState
from regard.layers.linear import Linear
from regard.types import Bool, Float, Int, Tensor

_MIN_SPARE_STEPS = 16  # a new store has room for at least this number of time steps
MIN_WINDOW = 1e-3
"""Minimum window size in positions. It avoids division by zero and still covers a single position."""


@dataclass
class KVStore:
    """An append-only buffer of keys and values with spare room.

    The first `used` rows never change, so caches of different time steps may share one store.
    """

    entries: Float[Tensor, "N W"]
    used: int

    def append(self, entries: Float[Tensor, "B W"]) -> int:
        """Write the entries into the spare room, which must suffice, and return the first slot."""
        first, self.used = self.used, self.used + len(entries)
        self.entries[first : self.used] = entries
        return first


@dataclass(frozen=True)
class KVCache(BatchedState):
    """Keys and values of the time steps so far.

    Attributes:
        store: The buffer. A slot holds the keys of all heads of a token, then its values.
        slots: [B, T], the slots of each hypothesis.
    """

    store: KVStore
    slots: Int[Tensor, "B T"]

    @classmethod
    def empty(cls, batch: int, like: Float[Tensor, "_ W"]) -> "KVCache":
        """Return a cache without time steps.

        `like` is an empty tensor [0, W] with the width (twice that of the model), device and dtype of the
        entries that will be appended.
        """
        return cls(KVStore(like, 0), torch.empty(batch, 0, dtype=torch.int64, device=like.device))

    def append(self, entries: Float[Tensor, "B W"]) -> "KVCache":
        """Return the cache with one more time step, given the keys and values of its tokens."""
        store, slots = self.store, self.slots
        # Two kinds of stores must not be written in place: those that autograd has recorded, and those
        # created in inference mode once inference mode is left.
        recorded = torch.is_grad_enabled() or (
            store.entries.is_inference() and not torch.is_inference_mode_enabled()
        )
        if recorded or store.used + len(entries) > len(store.entries):
            # Compact: copy only the slots that some hypothesis still uses, and renumber them.
            held = torch.zeros(store.used, dtype=torch.bool, device=slots.device)
            held[slots] = True
            used_slots, slots = held.nonzero().squeeze(1), (held.cumsum(0) - 1)[slots]
            copied = store.entries.index_select(0, used_slots)
            # Doubling the room makes the cost of copying linear in the number of steps.
            room = max(2 * len(copied), len(copied) + _MIN_SPARE_STEPS * len(entries))
            store = KVStore(copied.new_empty(room, copied.shape[1]), 0)
            store.append(copied)
        first = store.append(entries)
        added = torch.arange(first, first + len(entries), device=slots.device).unsqueeze(1)
        return KVCache(store, torch.cat([slots, added], dim=1))


class Localness(nn.Module):
    """Localness: a learned Gaussian bias on the scores of self-attention, Yang et al. (2018), Section 3.

    For the query Q_i of position i in a sentence of I tokens, each head adds to its scores

        G_ij = -(j - P_i)^2 / (2 sigma_i^2),   sigma_i = D_i / 2,
        P_i = I sigmoid(u_p . tanh(W Q_i)),    D_i = I sigmoid(u_d . tanh(W Q_i)).

    P_i is the center of the attention of position i and D_i its window size. Both are between 0 and I, in
    positions counted from 0. W is shared by both and by all heads.
    """

    def __init__(self, width: int, num_heads: int) -> None:
        """Create the parameters W, u_p and u_d."""
        super().__init__()
        self.hidden_proj = Linear(width, width, bias=False)
        self.center_window_proj = Linear(width, 2 * num_heads, num_parts=2, bias=False)

    def forward(
        self, queries: Float[Tensor, "B T D"], lengths: Float[Tensor, "#B #T"], num_positions: int
    ) -> Float[Tensor, "B H T S"]:
        """Compute the bias G, in float32 or better; the heads are concatenated in the queries Q."""
        predicted = self.center_window_proj(torch.tanh(self.hidden_proj(queries)))
        predicted = torch.sigmoid(predicted.to(accumulation_dtype(predicted.dtype))) * lengths.unsqueeze(-1)
        center, window = predicted.transpose(1, 2).unsqueeze(-1).chunk(2, dim=1)  # (B, H, T, 1) each
        positions = torch.arange(num_positions, dtype=predicted.dtype, device=predicted.device)
        return -((positions - center) ** 2) / (2 * (window.clamp_min(MIN_WINDOW) / 2) ** 2)


class SelfAttention(nn.Module):
    """Multi-head self-attention.

    Args:
        width: D, a multiple of the number of heads.
        num_heads: H.
        use_localness: Whether to add a learned bias toward nearby positions; not for causal attention.
    """

    def __init__(self, width: int, num_heads: int, use_localness: bool = False) -> None:
        """Create the projections."""
        super().__init__()
        self.num_heads = num_heads
        self.localness = Localness(width, num_heads) if use_localness else None
        self.in_proj = Linear(width, 3 * width, num_parts=3)  # queries, keys and values
        self.out_proj = Linear(width, width)

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
        batch, steps, width = x.shape
        parts = self.in_proj(x).view(batch, steps, 3, self.num_heads, width // self.num_heads)
        # unbind has one backward node; three slices would sum three gradients of full size.
        queries, keys, values = parts.transpose(1, 3).unbind(2)  # (B, H, T, E) each
        bias = None
        if self.localness is not None:
            assert mask is not None
            lengths = mask.sum(-1, keepdim=True).to(torch.float32)
            bias = self.localness(queries.transpose(1, 2).flatten(2), lengths, x.shape[1])
        causal_mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        allowed = causal_mask if mask is None else mask[:, None, None]  # (B, 1, 1, T)
        weights = None
        if return_weights:  # explicit computation, because the fused operator does not return the weights
            scores = (queries @ keys.transpose(2, 3)) * queries.shape[-1] ** -0.5
            scores = scores.to(accumulation_dtype(scores.dtype))
            scores = scores if bias is None else scores + bias
            weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
            contexts = weights.to(values.dtype) @ values
        elif bias is not None:
            added = bias.masked_fill(~allowed, -torch.inf).to(queries.dtype)
            contexts = fused_attention(queries, keys, values, added)
        else:
            contexts = fused_attention(
                queries, keys, values, None if mask is None else allowed, causal=mask is None
            )
        return self.out_proj(contexts.transpose(1, 2).flatten(2)), weights

    def step(self, x: Float[Tensor, "B D"], cache: KVCache) -> tuple[Float[Tensor, "B D"], KVCache]:
        """Attend for one more token, to itself and the cached tokens, and return the extended cache."""
        query, entries = self.in_proj(x).split((x.shape[1], 2 * x.shape[1]), dim=1)
        cache = cache.append(entries)
        # The kernel reads keys and values from their slots, without a copy per hypothesis.
        context = slot_attention(query, cache.store.entries, cache.slots, self.num_heads)
        return self.out_proj(context), cache
