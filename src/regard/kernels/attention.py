"""Softmax attention: PyTorch's fused attention, and attention with one query per row over cached keys.

`fused_attention` computes in the precision that is fast on the device. On a CPU the gradient takes several
times as long in bfloat16 as in float32 (`benchmarks/RESULTS.md`). Inputs in half precision are therefore
converted to float32 there.

In search the positions of a row are given as slot indices into a shared store of keys and values
(`slot_attention`). Rows can thus share positions, and beam search reorders its hypotheses by reordering the
slot indices only. On a CPU this is one pass of a kernel; elsewhere the keys and values are gathered.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.kernels.backend import backend_module, use_numba
from regard.types import Bool, Float, Int, Tensor

_BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


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
    # Autocast would convert the operands to half precision again.
    with torch.autocast(queries.device.type, enabled=False), fused_backends(queries.device):
        output = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, is_causal=causal, scale=scale
        )
    return output.to(dtype)


def fused_backends(device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which PyTorch's fused attention on a GPU does not use cuDNN.

    In half precision with a mask, PyTorch prefers cuDNN on some GPUs, which builds a plan for every shape.
    Almost every batch of sentences has a new one: a Transformer trained at a sixth of the speed
    (`benchmarks/RESULTS.md`). The setting is that of the process: threads that leave the context in another
    order than they entered it can leave cuDNN excluded.
    """
    return sdpa_kernel(_BACKENDS) if device.type == "cuda" else nullcontext()


def supports_attention(*operands: Tensor) -> bool:
    """Return whether the kernel supports these operands: float32, on a CPU, without gradients."""
    return (
        not torch.is_grad_enabled()
        and use_numba(*operands)
        and all(operand.dtype == torch.float32 and operand.numel() > 0 for operand in operands)
    )


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
    batch, width = len(slots), queries.shape[1]
    head_size = width // num_heads
    if supports_attention(queries, store) and slots.numel() > 0:
        assert store.shape[1] == 2 * width and len(slots) == len(queries)
        queries, store, slots = queries.contiguous(), store.contiguous(), _checked_indices(slots, len(store))
        contexts = torch.empty_like(queries)
        backend_module("numba", "attention").slot_attention(queries, store, slots, num_heads, contexts)
        return contexts
    cached = store.index_select(0, slots.flatten()).view(*slots.shape, 2, num_heads, -1)
    keys, values = cached.permute(2, 0, 3, 1, 4)  # (B, H, T, E) each
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
    backend_module("numba", "attention").source_attention(
        queries, keys, values, mask, sentence_index, weights, contexts
    )
    return contexts, weights
