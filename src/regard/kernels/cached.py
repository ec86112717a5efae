"""Softmax attention with one query per row over cached keys and values, in one pass on a CPU.

The positions of a row are given as slot indices into a shared store of keys and values. Rows can thus share
positions, and beam search reorders its hypotheses by reordering the slot indices only.
"""

import ctypes
import struct

import torch

from regard.kernels.attention import fused_attention
from regard.kernels.pool import load_kernel, run_kernel
from regard.kernels.versions import use_numba
from regard.types import Bool, Float, Int, Tensor

__all__ = ["gather_slots", "slot_attention", "source_attention", "supports_attention"]

_MIN_PARALLEL_SIZE = 1 << 12  # work below which a single thread is faster; see `run_kernel`

# Layout of the kernel's argument block: indices into an array of int64.
ATTN_TICKET = 0  # counter of the shares of rows that have been claimed; see `pool`
ATTN_ROWS = 1
ATTN_HEADS = 2  # H
ATTN_POSITIONS = 3  # number of positions, T
ATTN_KEY_SIZE, ATTN_VALUE_SIZE = 4, 5  # size of a head's keys (and queries) and of its values (and contexts)
ATTN_KEY_STRIDE, ATTN_VALUE_STRIDE = 6, 7  # distance between the keys or values of two positions, in elements
ATTN_IS_BFLOAT16 = 8  # 1 if queries, keys, values and contexts are bfloat16, 0 if they are float32
ATTN_SCALE = 9  # factor of the scores, as the bits of a float32
ATTN_ROWS_PER_TICKET = 10  # number of rows per ticket
# Addresses; 0 for an absent operand.
ATTN_QUERIES, ATTN_KEYS, ATTN_VALUES, ATTN_CONTEXTS = 11, 12, 13, 14
ATTN_SLOTS = 15  # [rows, T], int64
ATTN_SENTENCES = 16  # [rows], int64; without slots: the sentence that each row attends to, T positions each
ATTN_MASK = 17  # [sentences, T], bool
ATTN_WEIGHTS = 18  # [rows, H, T], float32; output
ATTN_NUM_ARGS = 19

_Block = ctypes.c_int64 * ATTN_NUM_ARGS
_DTYPES = (torch.float32, torch.bfloat16)


def supports_attention(*operands: Tensor) -> bool:
    """Return whether the kernel supports these queries, keys and values; it needs a CPU and no gradients."""
    return (
        not torch.is_grad_enabled()
        and use_numba(*operands)
        and operands[0].dtype in _DTYPES
        and all(operand.dtype == operands[0].dtype for operand in operands)
        and all(operand.numel() > 0 for operand in operands)
    )


def _run_attention(
    queries: Tensor, contexts: Tensor, num_heads: int, num_positions: int, entries: dict[int, int]
) -> None:
    """Fill the argument block and run the kernel, which writes `contexts`."""
    block, rows = _Block(), len(queries)
    block[ATTN_ROWS], block[ATTN_HEADS], block[ATTN_POSITIONS], block[ATTN_IS_BFLOAT16] = (
        rows,
        num_heads,
        num_positions,
        queries.dtype == torch.bfloat16,
    )
    block[ATTN_KEY_SIZE], block[ATTN_VALUE_SIZE] = (
        queries.shape[1] // num_heads,
        contexts.shape[1] // num_heads,
    )
    block[ATTN_QUERIES], block[ATTN_CONTEXTS] = queries.data_ptr(), contexts.data_ptr()
    for index, value in entries.items():
        block[index] = value
    small = num_positions * (queries.numel() + contexts.numel()) < _MIN_PARALLEL_SIZE
    run_kernel(load_kernel("attending", "attention_kernel"), block, ATTN_ROWS_PER_TICKET, rows, small)


def _float32_bits(number: float) -> int:
    """Return the bits of a number in float32."""
    return struct.unpack("I", struct.pack("f", number))[0]


def _checked_indices(index: Tensor, count: int) -> Tensor:
    """Return row indices as contiguous int64.

    The kernel does not check bounds, so that is done here.

    Raises:
        IndexError: An index is not in [0, count).
    """
    least, most = (int(x) for x in index.aminmax())
    if least < 0 or most >= count:
        raise IndexError(f"row index {least if least < 0 else most} is out of range for {count} rows")
    return index.to(torch.int64).contiguous()


def gather_slots(
    store: Float[Tensor, "N W"], slots: Int[Tensor, "B T"], num_heads: int
) -> tuple[Float[Tensor, "B H T E"], Float[Tensor, "B H T E"]]:
    """Gather the keys and values in the slots of each row; see `slot_attention`."""
    found = store.index_select(0, slots.flatten()).view(*slots.shape, 2, num_heads, -1)
    keys, values = found.permute(2, 0, 3, 1, 4)
    return keys, values


def slot_attention(
    queries: Float[Tensor, "B D"], store: Float[Tensor, "N W"], slots: Int[Tensor, "B T"], num_heads: int
) -> Float[Tensor, "B D"]:
    """Compute softmax(q K^T / sqrt(E)) V for every head, with the K and V in the slots of each row.

    Args:
        queries: Queries of all heads, concatenated.
        store: Each row holds the keys of all heads, followed by the values of all heads; W = 2 D.
        slots: The rows of the store that each query attends to, in [0, N).
        num_heads: Number of heads H; the head size is E = D / H.

    Returns:
        The contexts of all heads, concatenated.

    Raises:
        IndexError: A slot is not in [0, N).
    """
    (batch, num_positions), width = slots.shape, queries.shape[1]
    head_size = width // num_heads
    if supports_attention(queries, store) and slots.numel() > 0:
        assert store.shape[1] == 2 * width and len(slots) == len(queries)
        queries, store, slots = queries.contiguous(), store.contiguous(), _checked_indices(slots, len(store))
        contexts, keys = torch.empty_like(queries), store.data_ptr()
        entries = {
            ATTN_KEYS: keys,
            ATTN_VALUES: keys + width * store.element_size(),
            ATTN_SLOTS: slots.data_ptr(),
        }
        entries |= {
            ATTN_KEY_STRIDE: 2 * width,
            ATTN_VALUE_STRIDE: 2 * width,
            ATTN_SCALE: _float32_bits(head_size**-0.5),
        }
        _run_attention(queries, contexts, num_heads, num_positions, entries)
        return contexts
    keys, values = gather_slots(store, slots, num_heads)
    return fused_attention(queries.view(batch, num_heads, 1, head_size), keys, values).flatten(1)


def source_attention(
    queries: Float[Tensor, "R Q"],
    keys: Float[Tensor, "B S Q"],
    values: Float[Tensor, "B S D"],
    mask: Bool[Tensor, "B S"],
    sentence_index: Int[Tensor, "R"] | None = None,
) -> tuple[Float[Tensor, "R D"], Float[Tensor, "R S"]]:
    """Compute softmax(q K^T) V over the source positions that are not masked.

    The operands must satisfy `supports_attention`. A row whose positions are all masked has weights and
    context 0.

    Args:
        queries: One query per row.
        keys: Keys of B source sentences.
        values: Values of the same sentences.
        mask: True where a position may be attended to.
        sentence_index: Index of the sentence that each row attends to. Default: row i attends to sentence i,
            R = B.

    Returns:
        The contexts and the attention weights; the weights are float32.

    Raises:
        IndexError: An index of `sentence_index` is not in [0, B).
    """
    num_sentences, rows = len(keys), len(queries)
    assert keys.shape[:2] == values.shape[:2] == mask.shape and keys.shape[2] == queries.shape[1]
    queries, keys, values, mask = (x.contiguous() for x in (queries, keys, values, mask))
    sentence_index = _checked_indices(
        torch.arange(rows, device=queries.device) if sentence_index is None else sentence_index, num_sentences
    )
    assert len(sentence_index) == rows
    weights = queries.new_empty(rows, mask.shape[1], dtype=torch.float32)
    contexts = values.new_empty(rows, values.shape[2])
    operands = {
        ATTN_KEYS: keys,
        ATTN_VALUES: values,
        ATTN_SENTENCES: sentence_index,
        ATTN_MASK: mask,
        ATTN_WEIGHTS: weights,
    }
    entries = {place: operand.data_ptr() for place, operand in operands.items()}
    entries |= {
        ATTN_KEY_STRIDE: keys.shape[2],
        ATTN_VALUE_STRIDE: values.shape[2],
        ATTN_SCALE: _float32_bits(1.0),
    }
    _run_attention(queries, contexts, 1, mask.shape[1], entries)
    return contexts, weights
