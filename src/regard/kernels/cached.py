"""Softmax attention with one query per row over cached keys and values, in one pass on a CPU.

The positions of a row are given as slot indices into a shared store of keys and values. Rows can thus share
positions, and beam search reorders its hypotheses by reordering the slot indices only.
"""

import ctypes
import struct

import torch

from regard.kernels.attention import fused_attention
from regard.kernels.pool import load, run
from regard.kernels.versions import on_cpu
from regard.types import Bool, Float, Int, Tensor

__all__ = ["at_slots", "fits", "slot_attention", "word_attention"]

FEW = 1 << 12  # work below which a single thread is faster; see `run`

# Layout of the kernel's argument block: indices into an array of int64.
TICKET = 0  # counter of the shares of rows that have been claimed; see `pool`
ROWS = 1
HEADS = 2  # H
WORDS = 3  # number of positions, T
KEY, VALUE = 4, 5  # size of a head's keys (and queries) and of its values (and contexts)
KEY_STRIDE, VALUE_STRIDE = 6, 7  # distance between the keys or values of two positions, in elements
HALF = 8  # 1 if queries, keys, values and contexts are bfloat16, 0 if they are float32
SCALE = 9  # factor of the scores, as the bits of a float32
SHARE = 10  # number of rows per ticket
# Addresses; 0 for an absent operand.
QUERIES, KEYS, VALUES, CONTEXTS = 11, 12, 13, 14
SLOTS = 15  # [rows, T], int64
OWNERS = 16  # [rows], int64; without slots: the sentence that each row attends to, T positions each
MASK = 17  # [sentences, T], bool
WEIGHTS = 18  # [rows, H, T], float32; output
LENGTH = 19

_Block = ctypes.c_int64 * LENGTH
_DTYPES = (torch.float32, torch.bfloat16)


def fits(*operands: Tensor) -> bool:
    """Return whether the kernel supports these queries, keys and values; it needs a CPU and no gradients."""
    return (
        not torch.is_grad_enabled()
        and on_cpu(*operands)
        and operands[0].dtype in _DTYPES
        and all(operand.dtype == operands[0].dtype for operand in operands)
        and all(operand.numel() > 0 for operand in operands)
    )


def _attend(queries: Tensor, contexts: Tensor, heads: int, words: int, places: dict[int, int]) -> None:
    """Fill the argument block and run the kernel, which writes `contexts`."""
    block, rows = _Block(), len(queries)
    block[ROWS], block[HEADS], block[WORDS], block[HALF] = rows, heads, words, queries.dtype == torch.bfloat16
    block[KEY], block[VALUE] = queries.shape[1] // heads, contexts.shape[1] // heads
    block[QUERIES], block[CONTEXTS] = queries.data_ptr(), contexts.data_ptr()
    for place, number in places.items():
        block[place] = number
    few = words * (queries.numel() + contexts.numel()) < FEW
    run(load("attending", "attend"), block, SHARE, rows, few)


def _bits(number: float) -> int:
    """Return the bits of a number in float32."""
    return struct.unpack("I", struct.pack("f", number))[0]


def _places(index: Tensor, count: int) -> Tensor:
    """Return row indices as contiguous int64.

    The kernel does not check bounds, so that is done here.

    Raises:
        IndexError: if an index is not in [0, count).
    """
    least, most = (int(x) for x in index.aminmax())
    if least < 0 or most >= count:
        raise IndexError(f"row index {least if least < 0 else most} is out of range for {count} rows")
    return index.to(torch.int64).contiguous()


def at_slots(
    store: Float[Tensor, "N W"], slots: Int[Tensor, "B T"], heads: int
) -> tuple[Float[Tensor, "B H T E"], Float[Tensor, "B H T E"]]:
    """Gather the keys and values in the slots of each row; see `slot_attention`."""
    found = store.index_select(0, slots.flatten()).view(*slots.shape, 2, heads, -1)
    keys, values = found.permute(2, 0, 3, 1, 4)
    return keys, values


def slot_attention(
    queries: Float[Tensor, "B D"], store: Float[Tensor, "N W"], slots: Int[Tensor, "B T"], heads: int
) -> Float[Tensor, "B D"]:
    """Compute softmax(q K^T / sqrt(E)) V for every head, with the K and V in the slots of each row.

    Args:
        queries: Queries of all heads, concatenated.
        store: Each row holds the keys of all heads, followed by the values of all heads; W = 2 D.
        slots: The rows of the store that each query attends to, in [0, N).
        heads: Number of heads H; the head size is E = D / H.

    Returns:
        The contexts of all heads, concatenated.

    Raises:
        IndexError: if a slot is not in [0, N).
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
    """Compute softmax(q K^T) V over the source positions that are not masked.

    The operands must satisfy `fits`. A row whose positions are all masked has weights and context 0.

    Args:
        queries: One query per row.
        keys: Keys of B source sentences.
        values: Values of the same sentences.
        mask: True where a position may be attended to.
        owners: Index of the sentence that each row attends to. Default: row i attends to sentence i, R = B.

    Returns:
        The contexts and the attention weights; the weights are float32.

    Raises:
        IndexError: if an index of `owners` is not in [0, B).
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
