"""The largest values of each row, in descending order.

On a CPU, `torch.topk` keeps pairs of values and indices. For 10 of 5,900 values it takes more than three
times as long as the kernel (`benchmarks/RESULTS.md`).
"""

import torch

from regard.kernels.backend import backend_module, use_numba
from regard.types import Float, Int, Tensor

MAX_KERNEL_K = 64
"""Largest k for the kernel, whose time grows with k."""


def topk(values: Float[Tensor, "N V"], k: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
    """Return the k largest values of each row and their indices, in descending order, without gradients.

    The kernel resolves ties in favor of lower indices and ignores NaN. A row with fewer than k finite values
    ends in values of -inf with the index 0.

    Args:
        values: One row per hypothesis.
        k: From 1 to V.
    """
    supported = values.dtype == torch.float32 and not torch.is_grad_enabled() and k <= MAX_KERNEL_K
    if supported and use_numba(values):
        return backend_module("numba", "topk").topk(values.contiguous(), k)
    return values.topk(k, dim=1)
