"""Matrix products on the fastest exact path that PyTorch has for the device.

On a CPU PyTorch makes float32 products with MKL. oneDNN, which comes with PyTorch too, is faster on other
makers' processors than Intel's: on two cores of an AMD processor with AVX-512, 400 to 470 GFLOP/s against 177
to 203, in float32 too, with two to four times the rounding error; on an Intel one 0.7 to 1.0 of MKL's rate
(`benchmarks/products.py`). Products of bfloat16, which are summed in float32 in any case, go through those of
float32 where the processor has no faster ones, and those with weights that are kept in eight bits
(`regard.kernels.int8`) through integers. All else takes PyTorch's own way.
"""

import os
import platform
import re
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from regard.kernels.autograd import apply, first_order
from regard.kernels.int8 import int8_matrix, int8_product
from regard.types import Tensor

__all__ = ["bound_memory", "linear", "product"]


def _onednn() -> Any:
    """OneDNN's linear map as PyTorch's own compiler calls it, or none where it is missing."""
    if not torch.backends.mkldnn.is_available():
        return None
    try:
        return torch.ops.mkldnn._linear_pointwise.default
    except AttributeError:
        return None


def _processor() -> str:
    """What the system tells of the processor."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()


def _slow_halves(processor: str) -> bool:
    """Whether an x86 processor makes products of bfloat16 more slowly than those of float32.

    Intel's with AVX-512 alone do (`benchmarks/products.py`), and those without instructions for them.
    """
    found = re.search(r"^flags\s*:(.*)", processor, re.MULTILINE)
    if found is None:  # another architecture, or another system
        return False
    flags = set(found[1].split())
    return "amx_bf16" not in flags and ("avx512_bf16" not in flags or "GenuineIntel" in processor)


_LINEAR = None if "GenuineIntel" in _processor() else _onednn()
_SLOW_HALVES = _slow_halves(_processor())

FEW = 4  # so many matrices are multiplied one by one


def bound_memory() -> None:
    """Keep the kernels of the last 16 shapes only; before a process's first product, or it has no effect.

    oneDNN compiles a kernel for every shape and by default keeps 1,024 of them, and PyTorch keeps as many of
    its own descriptions of them, each with its buffers, while text comes in hundreds of shapes: memory grew
    with them and training was no faster for it (`benchmarks/RESULTS.md`). What the environment says
    (ONEDNN_PRIMITIVE_CACHE_CAPACITY, LRU_CACHE_CAPACITY) goes first.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "16")


def product(x: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x @ matrix (+ bias)`, without a gradient of its own on the fast path: for use where none is recorded.

    Args:
        x: [..., in].
        matrix: [in, out], or with further leading axes, the same as those of `x`.
        bias: [out].
    """
    if (kept := int8_matrix(x, matrix)) is not None:
        return int8_product(x, kept, bias)
    if _SLOW_HALVES and x.dtype == matrix.dtype == torch.bfloat16 and x.device.type == "cpu":
        found = product(x.float(), matrix.float(), None if bias is None else bias.float())
        return found.to(torch.bfloat16)
    exact = x.dtype == matrix.dtype == torch.float32
    if _LINEAR is not None and exact and x.device.type == "cpu" and x.numel() > 0:
        if matrix.dim() == 2:
            return _LINEAR(x, matrix.t(), bias, "none", [], "")
        if matrix.dim() == 3 and len(matrix) <= FEW:
            return torch.stack([product(row, each, bias) for row, each in zip(x, matrix, strict=True)])
    if matrix.dim() == 2 and bias is not None:
        return F.linear(x, matrix.t(), bias)
    found = x @ matrix
    return found if bias is None else found + bias


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, matrix)
        return product(x, matrix, bias)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (grad,) = grads
        x, matrix = ctx.saved_tensors
        needs_x, needs_matrix, needs_bias = ctx.needs_input_grad
        flat = grad.reshape(-1, grad.shape[-1])
        return (
            product(grad, matrix.t()) if needs_x else None,
            product(x.reshape(-1, x.shape[-1]).t(), flat) if needs_matrix else None,
            flat.sum(0) if needs_bias else None,
        )


def linear(x: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x @ matrix (+ bias)` with its gradient (of the first order).

    Args:
        x: [..., in].
        matrix: [in, out]; mind that `torch.nn.Linear` stores [out, in].
        bias: [out].
    """
    # In search a step is so short that recording nothing would take a tenth of it.
    return apply(_Linear, x, matrix, bias) if torch.is_grad_enabled() else product(x, matrix, bias)
