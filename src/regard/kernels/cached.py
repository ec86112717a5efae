"""Softmax attention of one query a row over words that lie anywhere in memory, in one pass on a CPU.

A row's words are named by slots in a store, so that rows may share words, and a search reorders its
hypotheses by reordering these names alone.
"""

import ctypes
import struct

import torch

from regard.kernels.attention import fused_attention
from regard.kernels.pool import load, run
from regard.kernels.versions import on_cpu
from regard.types import Bool, Float, Int, Tensor

__all__ = ["at_slots", "fits", "slot_attention", "word_attention"]

FEW = 1 << 12  # numbers; see `run`

# The kernel's arguments: int64 in one block of memory.
TICKET = 0  # the next share of the rows
ROWS = 1
HEADS = 2  # H
WORDS = 3  # T
KEY, VALUE = 4, 5  # numbers in a head's key (and query) and value (and context)
KEY_STRIDE, VALUE_STRIDE = 6, 7  # numbers from a word's to the next one's
HALF = 8  # whether queries, keys, values and contexts are bfloat16, else float32
SCALE = 9  # of the scores: the bits of a float32
SHARE = 10  # how many rows go with a ticket
# Addresses; 0 where there is none.
QUERIES, KEYS, VALUES, CONTEXTS = 11, 12, 13, 14
SLOTS = 15  # [rows, T], int64
OWNERS = 16  # [rows], int64, without slots: a row's words are those of this text, T words in each
MASK = 17  # [texts, T], bool
WEIGHTS = 18  # [rows, H, T], float32: written
LENGTH = 19

_Block = ctypes.c_int64 * LENGTH
_DTYPES = (torch.float32, torch.bfloat16)


def fits(*operands: Tensor) -> bool:
    """Whether the kernel takes these queries, keys and values on this machine, where nothing is recorded."""
    return (
        not torch.is_grad_enabled()
        and on_cpu(*operands)
        and operands[0].dtype in _DTYPES
        and all(operand.dtype == operands[0].dtype for operand in operands)
        and all(operand.numel() > 0 for operand in operands)
    )


def _attend(queries: Tensor, contexts: Tensor, heads: int, words: int, places: dict[int, int]) -> None:
    """Run the kernel."""
    block, rows = _Block(), len(queries)
    block[ROWS], block[HEADS], block[WORDS], block[HALF] = rows, heads, words, queries.dtype == torch.bfloat16
    block[KEY], block[VALUE] = queries.shape[1] // heads, contexts.shape[1] // heads
    block[QUERIES], block[CONTEXTS] = queries.data_ptr(), contexts.data_ptr()
    for place, number in places.items():
        block[place] = number
    few = words * (queries.numel() + contexts.numel()) < FEW
    run(load("attending", "attend"), block, SHARE, rows, few)


def _bits(number: float) -> int:
    """Those of a float32."""
    return struct.unpack("I", struct.pack("f", number))[0]


def _places(index: Tensor, count: int) -> Tensor:
    """Row numbers as the kernel reads them.

    Raises:
        IndexError: if one is not in [0, count).
    """
    least, most = (int(x) for x in index.aminmax())
    if least < 0 or most >= count:
        raise IndexError(f"a row is numbered {least if least < 0 else most}; there are {count}")
    return index.to(torch.int64).contiguous()


def at_slots(
    store: Float[Tensor, "N W"], slots: Int[Tensor, "B T"], heads: int
) -> tuple[Float[Tensor, "B H T E"], Float[Tensor, "B H T E"]]:
    """Keys and values that lie in the slots of each row; see `slot_attention`."""
    found = store.index_select(0, slots.flatten()).view(*slots.shape, 2, heads, -1)
    keys, values = found.permute(2, 0, 3, 1, 4)
    return keys, values


def slot_attention(
    queries: Float[Tensor, "B D"], store: Float[Tensor, "N W"], slots: Int[Tensor, "B T"], heads: int
) -> Float[Tensor, "B D"]:
    """softmax(q K^T / sqrt(E)) V of every head, K and V lying in the slots of each row.

    Args:
        queries: The heads side by side.
        store: Keys and values of all heads, side by side, W = 2 D.
        slots: Which of them each row attends to, each in [0, N).
        heads: H, of D / H = E numbers each.
    """
    (batch, words), width = slots.shape, queries.shape[1]
    each = width // heads
    if fits(queries, store) and slots.numel() > 0:
        assert store.shape[1] == 2 * width and len(slots) == len(queries)
        queries, store, slots = queries.contiguous(), store.contiguous(), _places(slots, len(store))
        contexts, keys = torch.empty_like(queries), store.data_ptr()
        places = {KEYS: keys, VALUES: keys + width * store.element_size(), SLOTS: slots.data_ptr()}
        places |= {KEY_STRIDE: 2 * width, VALUE_STRIDE: 2 * width, SCALE: _bits(each**-0.5)}
        _attend(queries, contexts, heads, words, places)
        return contexts
    keys, values = at_slots(store, slots, heads)
    return fused_attention(queries.view(batch, heads, 1, each), keys, values).flatten(1)


def word_attention(
    queries: Float[Tensor, "R Q"],
    keys: Float[Tensor, "B S Q"],
    values: Float[Tensor, "B S D"],
    mask: Bool[Tensor, "B S"],
    owners: Int[Tensor, "R"] | None = None,
) -> tuple[Float[Tensor, "R D"], Float[Tensor, "R S"]]:
    """softmax(q K^T) V over the words that the mask leaves: contexts, and the weights in float32.

    By the kernel, for what `fits`. A row with nothing to attend has weights and context 0.

    Args:
        queries: One a row.
        keys: Of the words of B texts.
        values: Theirs.
        mask: True where a word may be attended.
        owners: The text of each row; none: its own, R is B.
    """
    texts, rows = len(keys), len(queries)
    assert keys.shape[:2] == values.shape[:2] == mask.shape and keys.shape[2] == queries.shape[1]
    queries, keys, values, mask = (x.contiguous() for x in (queries, keys, values, mask))
    owners = _places(torch.arange(rows, device=queries.device) if owners is None else owners, texts)
    assert len(owners) == rows
    weights = queries.new_empty(rows, mask.shape[1], dtype=torch.float32)
    contexts = values.new_empty(rows, values.shape[2])
    operands = {KEYS: keys, VALUES: values, OWNERS: owners, MASK: mask, WEIGHTS: weights}
    places = {place: operand.data_ptr() for place, operand in operands.items()}
    places |= {KEY_STRIDE: keys.shape[2], VALUE_STRIDE: values.shape[2], SCALE: _bits(1.0)}
    _attend(queries, contexts, 1, mask.shape[1], places)
    return contexts, weights
