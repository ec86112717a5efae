"""A cache of the self-attention keys and values of generated tokens, shared between hypotheses.

Every time step appends its keys and values to a store. A hypothesis is a list of slots in this store. To
reorder, repeat or drop hypotheses, search selects rows of the slot lists; the keys and values are not copied.
"""

from dataclasses import dataclass

import torch

from regard.kernels.attention import gather_slots
from regard.layers.batched_state import BatchedState
from regard.types import Float, Int, Tensor

__all__ = ["KVCache", "KVStore"]

_MIN_SPARE_STEPS = 16  # a new store has room for at least this number of time steps


class KVStore:
    """An append-only buffer of keys and values with spare room.

    Rows below `used` never change, so caches of different time steps may share one store.

    Args:
        entries: The buffer: [room, W].
        used: Number of rows in use.
    """

    def __init__(self, entries: Float[Tensor, "N W"], used: int) -> None:
        """Keep the buffer and its fill level."""
        self.entries, self.used = entries, used

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

        Args:
            batch: B.
            like: An empty tensor [0, W] with the width (twice that of the model), device and dtype of the
                entries that will be appended.
        """
        return cls(KVStore(like, 0), torch.empty(batch, 0, dtype=torch.int64, device=like.device))

    @property
    def length(self) -> int:
        """Number of time steps."""
        return self.slots.shape[1]

    def append(self, entries: Float[Tensor, "B W"]) -> "KVCache":
        """Return the cache with one more time step.

        Args:
            entries: Keys and values of the step's tokens.
        """
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
            kept = store.entries.index_select(0, used_slots)
            if recorded:
                store, first = KVStore(torch.cat([kept, entries]), len(kept) + len(entries)), len(kept)
            else:
                # Doubling the room makes the cost of copying linear in the number of steps.
                room = max(2 * len(kept), len(kept) + _MIN_SPARE_STEPS * len(entries))
                store = KVStore(kept.new_empty(room, kept.shape[1]), 0)
                store.append(kept)
                first = store.append(entries)
        else:
            first = store.append(entries)
        added = torch.arange(first, first + len(entries), device=slots.device).unsqueeze(1)
        return KVCache(store, torch.cat([slots, added], dim=1))

    def keys_and_values(self, heads: int) -> tuple[Float[Tensor, "B H T E"], Float[Tensor, "B H T E"]]:
        """Return the keys and the values of each hypothesis.

        Args:
            heads: H.
        """
        return gather_slots(self.store.entries, self.slots, heads)
