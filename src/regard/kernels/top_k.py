"""The largest values of each row, for beam search, in one pass over memory.

On a CPU, `torch.topk` takes several times as long for a few values of a large vocabulary, and it orders equal
values in no fixed way.
"""

import torch

from regard.kernels.backend import backend_module, use_numba
from regard.types import Float, Int, Tensor

__all__ = ["top_k"]

_MAX_K = 128
"""Largest k for the compiled form, whose insertions take longer for larger ones."""


def top_k(values: Float[Tensor, "N V"], k: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
    """Return the k largest values of each row and their positions, in descending order.

    NaN counts as larger than any number. On a CPU, equal values are in the order of their positions.

    Args:
        values: The values.
        k: k, at most V.
    """
    # The compiled form bypasses autograd, so a recorded operation would lose its gradient.
    recorded = torch.is_grad_enabled() and values.requires_grad
    compiled = use_numba(values) and values.dtype == torch.float32 and values.is_contiguous()
    if not compiled or recorded or not 0 < k <= _MAX_K:
        return values.topk(k, dim=1)
    return backend_module("numba", "top_k").top_k(values.detach(), k)
