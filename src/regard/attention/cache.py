"""Keys and values of the words that search has said, kept once however many hypotheses share them.

Every step appends to a store; a hypothesis is a list of slots in it. To reorder, repeat or drop hypotheses is
to select rows of these lists, while keys and values stay where they are.
"""

from dataclasses import dataclass

import torch

from regard.kernels.cached import at_slots
from regard.layers.rows import Rows
from regard.types import Float, Int, Tensor

__all__ = ["Cache", "Store"]

_AHEAD = 16  # a new store has room for so many steps at least


class Store:
    """What was appended, in a block of memory with room for more.

    Nothing in it changes but what lies beyond `used`, so that caches of different steps may share it.

    Args:
        entries: The block: [room, W].
        used: How many of its rows are taken.
    """

    def __init__(self, entries: Float[Tensor, "N W"], used: int) -> None:
        """Remember the parts."""
        self.entries, self.used = entries, used

    def append(self, entries: Float[Tensor, "B W"]) -> int:
        """Write into the room that is left, which must do; returns the first slot."""
        first, self.used = self.used, self.used + len(entries)
        self.entries[first : self.used] = entries
        return first


@dataclass(frozen=True)
class Cache(Rows):
    """Keys and values of the steps so far.

    Attributes:
        store: Where they lie, a word's keys of all heads and then its values in each slot.
        slots: [B, T], the slots of each hypothesis.
    """

    store: Store
    slots: Int[Tensor, "B T"]

    @classmethod
    def empty(cls, batch: int, like: Float[Tensor, "_ W"]) -> "Cache":
        """A cache of no steps.

        Args:
            batch: B.
            like: Of the width (twice that of the model), device and dtype of what will be appended: [0, W].
        """
        return cls(Store(like, 0), torch.empty(batch, 0, dtype=torch.int64, device=like.device))

    @property
    def length(self) -> int:
        """How many steps."""
        return self.slots.shape[1]

    def append(self, entries: Float[Tensor, "B W"]) -> "Cache":
        """The cache with one more step.

        Args:
            entries: Keys and values of the step's words.
        """
        store, slots = self.store, self.slots
        # What autograd has recorded must not be written into, nor what inference mode made outside of it.
        recorded = torch.is_grad_enabled() or (
            store.entries.is_inference() and not torch.is_inference_mode_enabled()
        )
        if recorded or store.used + len(entries) > len(store.entries):
            held = torch.zeros(store.used, dtype=torch.bool, device=slots.device)
            held[slots] = True
            found, slots = held.nonzero().squeeze(1), (held.cumsum(0) - 1)[slots]
            kept = store.entries.index_select(0, found)
            if recorded:
                store, first = Store(torch.cat([kept, entries]), len(kept) + len(entries)), len(kept)
            else:
                room = max(2 * len(kept), len(kept) + _AHEAD * len(entries))
                store = Store(kept.new_empty(room, kept.shape[1]), 0)
                store.append(kept)
                first = store.append(entries)
        else:
            first = store.append(entries)
        added = torch.arange(first, first + len(entries), device=slots.device).unsqueeze(1)
        return Cache(store, torch.cat([slots, added], dim=1))

    def read(self, heads: int) -> tuple[Float[Tensor, "B H T E"], Float[Tensor, "B H T E"]]:
        """Keys and values of each hypothesis.

        Args:
            heads: H.
        """
        return at_slots(self.store.entries, self.slots, heads)
