"""Matrix multiplication with the fastest implementation that PyTorch has for the device.

On a CPU PyTorch multiplies float32 matrices with MKL. oneDNN, which is also part of PyTorch, is faster on
processors of other manufacturers than Intel. On two cores of an AMD processor with AVX-512 it reaches 400 to
470 GFLOP/s compared with 177 to 203, also in float32, with two to four times the rounding error. On an Intel
processor it reaches 0.7 to 1.0 of MKL's rate (`benchmarks/matmul.py`).

bfloat16 matrices, whose products are accumulated in float32 in any case, are converted to float32 if the
processor has no faster instructions. All other cases use PyTorch's default.
"""

import os
import platform
import re
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from regard.kernels.backend import apply, first_order
from regard.types import Tensor


def _onednn_linear() -> Any:
    """Return oneDNN's linear layer, an internal operator of `torch.compile`, or None if it is missing."""
    if not torch.backends.mkldnn.is_available():
        return None
    try:
        return torch.ops.mkldnn._linear_pointwise.default
    except AttributeError:
        return None


def _cpu_info() -> str:
    """Return the operating system's description of the processor."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()


def _has_slow_bfloat16(processor: str) -> bool:
    """Return whether an x86 processor multiplies bfloat16 matrices more slowly than float32 matrices.

    This holds for processors without bfloat16 instructions, and for Intel processors that have them in
    AVX-512 but not in AMX (`benchmarks/matmul.py`).
    """
    found = re.search(r"^flags\s*:(.*)", processor, re.MULTILINE)
    if found is None:  # another architecture, or another system
        return False
    flags = set(found[1].split())
    return "amx_bf16" not in flags and ("avx512_bf16" not in flags or "GenuineIntel" in processor)


# On Intel processors MKL is at least as fast, so PyTorch's default is kept there.
_LINEAR = None if "GenuineIntel" in _cpu_info() else _onednn_linear()
_SLOW_BFLOAT16 = _has_slow_bfloat16(_cpu_info())

_MAX_LOOPED_MATRICES = 4  # maximum number of matrices in a batch that are multiplied one by one


def limit_kernel_caches() -> None:
    """Limit the kernel caches of oneDNN and PyTorch to 16 shapes.

    This must be called before the first matrix multiplication of the process; later calls have no effect.
    oneDNN compiles a kernel for every shape and caches 1,024 of them by default. PyTorch caches the same
    number of its own descriptors, each with its buffers. Batches of text have hundreds of different shapes,
    so that memory usage grew without any gain in training speed (`benchmarks/RESULTS.md`). The environment
    variables ONEDNN_PRIMITIVE_CACHE_CAPACITY and LRU_CACHE_CAPACITY take precedence if they are set.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "16")


def matmul(x: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute `x @ matrix (+ bias)` without support for gradients; see `linear` for a differentiable version.

    Args:
        x: [..., in].
        matrix: [in, out], or with the same leading dimensions as `x`.
        bias: [out], or None.
    """
    if _SLOW_BFLOAT16 and x.dtype == matrix.dtype == torch.bfloat16 and x.device.type == "cpu":
        product = matmul(x.float(), matrix.float(), None if bias is None else bias.float())
        return product.to(torch.bfloat16)
    exact = x.dtype == matrix.dtype == torch.float32
    if _LINEAR is not None and exact and x.device.type == "cpu" and x.numel() > 0:
        if matrix.dim() == 2:
            return _LINEAR(x, matrix.t(), bias, "none", [], "")
        if matrix.dim() == 3 and len(matrix) <= _MAX_LOOPED_MATRICES:
            return torch.stack([matmul(row, each, bias) for row, each in zip(x, matrix, strict=True)])
    if matrix.dim() == 2 and bias is not None:
        return F.linear(x, matrix.t(), bias)
    product = x @ matrix
    return product if bias is None else product + bias


class _Linear(torch.autograd.Function):
    """The autograd function of `linear`, whose backward pass uses `matmul` too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, matrix)
        return matmul(x, matrix, bias)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (grad,) = grads
        x, matrix = ctx.saved_tensors
        needs_x, needs_matrix, needs_bias = ctx.needs_input_grad
        flat = grad.reshape(-1, grad.shape[-1])
        return (
            matmul(grad, matrix.t()) if needs_x else None,
            matmul(x.reshape(-1, x.shape[-1]).t(), flat) if needs_matrix else None,
            flat.sum(0) if needs_bias else None,
        )


def linear(x: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute `x @ matrix (+ bias)`; the result is differentiable once.

    Args:
        x: [..., in].
        matrix: [in, out]; note that `torch.nn.Linear` stores the transpose, [out, in].
        bias: [out], or None.
    """
    # A time step is so short that an autograd Function, even without recording, would add a tenth to it.
    return apply(_Linear, x, matrix, bias) if torch.is_grad_enabled() else matmul(x, matrix, bias)
