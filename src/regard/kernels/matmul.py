"""Matrix multiplication with the fastest implementation that PyTorch has for the device, and in int8.

On a CPU PyTorch multiplies float32 matrices with MKL. oneDNN, which is also part of PyTorch, is faster on
processors of other manufacturers than Intel. On two cores of an AMD processor with AVX-512 it reaches 400 to
470 GFLOP/s compared with 177 to 203, also in float32, with two to four times the rounding error. On an Intel
processor it reaches 0.7 to 1.0 of MKL's rate (`benchmarks/matmul.py`).

bfloat16 matrices, whose products are accumulated in float32 in any case, are converted to float32 if the
processor has no faster instructions. All other cases use PyTorch's default.

A weight of type `Int8Weight` is multiplied with dynamic int8 quantization, for search on a CPU. A weight w of
output j is approximated by s_j round(w / s_j) with the scale s_j = max |w_.j| / 127. Each row of inputs is
quantized in the same way, with its own scale, at each multiplication. The integer products are exact and
summed in 32 bits, so that the result of a row does not depend on the other rows of the batch.
"""

import os
import platform
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from regard.errors import DeviceError
from regard.kernels.backend import apply, backend_module, first_order, use_numba
from regard.types import Float, Int, Tensor

__all__ = [
    "INT8_MAX",
    "Int8Weight",
    "check_int8",
    "dequantize",
    "limit_kernel_caches",
    "linear",
    "matmul",
    "quantize_rows",
]


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

INT8_MAX = 127
"""Quantized values range from -127 to 127; -128 is not used, since +128 does not exist."""
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


class Int8Matrix(NamedTuple):
    """A quantized matrix.

    Attributes:
        values: Integers from -127 to 127.
        scales: Scale of each column; the matrix is approximately values * scales.
    """

    values: Int[Tensor, "I O"]
    scales: Float[Tensor, "O"]


class Int8Weight(nn.Parameter):
    """A float32 weight on a CPU with which `matmul` multiplies in int8; it has no gradient.

    It replaces the parameter of a model that is loaded in int8. Its transpose `t()` and its slices are
    weights of the same type. All other operations use the float32 values and return ordinary tensors, as for
    every parameter: a lookup in an embedding is exact.

    Args:
        matrix: [I, O], float32. If its values change, they are quantized again.
    """

    _quantized: dict[Any, tuple[int, Int8Matrix]]

    def __new__(cls, matrix: Tensor, requires_grad: bool = False) -> "Int8Weight":
        """Create the parameter, which shares the memory of the matrix."""
        assert matrix.dtype == torch.float32 and matrix.dim() == 2 and matrix.device.type == "cpu"
        weight = super().__new__(cls, matrix.detach(), requires_grad)
        weight._quantized = {}
        return weight

    def _view(self, found: Tensor) -> Tensor:
        """Return a view of this weight as a weight that shares the cache of quantized matrices."""
        if found.dim() != 2:
            return found
        weight = found.as_subclass(Int8Weight)
        weight._quantized = self._quantized
        return weight

    def t(self) -> Tensor:
        """Return the transpose."""
        return self._view(super().t())

    def __getitem__(self, index: Any) -> Tensor:
        """Return some of the rows and columns."""
        return self._view(super().__getitem__(index))

    def quantize(self) -> Int8Matrix:
        """Return the quantized matrix; it is computed at the first call, and after a change of the values."""
        view = (self.storage_offset(), self.shape, self.stride())
        # PyTorch counts in-place changes of a tensor in `_version`, except for inference tensors.
        version = 0 if self.is_inference() else self._version
        kept = self._quantized.get(view)
        if kept is None or kept[0] != version:
            # Each output has its own scale, so the columns are quantized as the rows of the transpose.
            values, scales = quantize_rows(super().t().contiguous())
            self._quantized[view] = kept = version, Int8Matrix(values.t().contiguous(), scales)
        return kept[1]


def quantize_rows(x: Float[Tensor, "N I"]) -> tuple[Int[Tensor, "N I"], Float[Tensor, "N"]]:
    """Quantize each row; returns the integers and the scales, NaN for rows that are not finite."""
    if use_numba(x):
        return backend_module("numba", "matmul").quantize_rows(x)
    tops = x.abs().amax(1, keepdim=True)
    # A row of zeros would give 0 * inf = NaN.
    values = torch.where(tops > 0, x * (INT8_MAX / tops), 0.0).nan_to_num(0.0, 0.0, 0.0).round()
    scales = torch.where(tops < torch.inf, tops / INT8_MAX, torch.nan)
    return values.to(torch.int8), scales.squeeze(1)


def dequantize(
    sums: Int[Tensor, "N O"],
    row_scales: Float[Tensor, "N"],
    column_scales: Float[Tensor, "O"],
    bias: Float[Tensor, "O"] | None,
) -> Float[Tensor, "N O"]:
    """Convert integer sums to float32, multiply them by both scales, and add the bias.

    The result may overwrite the integers.
    """
    if use_numba(sums):
        return backend_module("numba", "matmul").dequantize(sums, row_scales, column_scales, bias)
    found = sums * row_scales.unsqueeze(1) * column_scales
    return found if bias is None else found + bias


def _int8_matmul(
    x: Float[Tensor, "*B I"], weight: Int8Weight, bias: Float[Tensor, "O"] | None
) -> Float[Tensor, "*B O"]:
    """Compute `x @ weight (+ bias)` in int8; rows of `x` that are not finite give NaN."""
    matrix = weight.quantize()
    rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    values, scales = quantize_rows(rows.contiguous())
    sums = torch.ops.aten._int_mm(values, matrix.values)
    found = dequantize(sums, scales, matrix.scales, bias)
    return found if x.dim() == 2 else found.view(*x.shape[:-1], -1)


@cache
def check_int8(device: torch.device) -> None:
    """Check that int8 matrix multiplication is available and exact on a device.

    Processors without instructions for it (VNNI on x86) may sum pairs of products in 16 bits, which can
    overflow.

    Raises:
        DeviceError: It is not available, or its results are wrong.
    """
    if device.type != "cpu":
        raise DeviceError(f"int8: not supported on {device}, only on a CPU; use bfloat16 on a GPU")
    # Only large products overflow 16 bits, so every factor is 127 or -127.
    signs = 1 - 2 * (torch.arange(256 * 64).view(256, 64) * 7919 % 31 % 2)
    left, right = INT8_MAX * signs[:64], INT8_MAX * torch.ones_like(signs[:64])
    try:
        found = torch.ops.aten._int_mm(left.to(torch.int8), right.to(torch.int8))
    except (AttributeError, RuntimeError):
        found = None
    if found is None or not torch.equal(found.long(), left @ right):
        raise DeviceError(
            "int8: this processor or this version of PyTorch does not multiply 8-bit integers exactly; "
            "use float32 or bfloat16"
        )


def matmul(x: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute `x @ matrix (+ bias)` without support for gradients; see `linear` for a differentiable version.

    Args:
        x: [..., in].
        matrix: [in, out], or with the same leading dimensions as `x`. An `Int8Weight` is multiplied in int8.
        bias: [out], or None.
    """
    if type(matrix) is Int8Weight and x.dtype == torch.float32 and x.numel():
        return _int8_matmul(x, matrix, bias)
    if _SLOW_BFLOAT16 and x.dtype == matrix.dtype == torch.bfloat16 and x.device.type == "cpu":
        found = matmul(x.float(), matrix.float(), None if bias is None else bias.float())
        return found.to(torch.bfloat16)
    exact = x.dtype == matrix.dtype == torch.float32
    if _LINEAR is not None and exact and x.device.type == "cpu" and x.numel() > 0:
        if matrix.dim() == 2:
            return _LINEAR(x, matrix.t(), bias, "none", [], "")
        if matrix.dim() == 3 and len(matrix) <= _MAX_LOOPED_MATRICES:
            return torch.stack([matmul(row, each, bias) for row, each in zip(x, matrix, strict=True)])
    if matrix.dim() == 2 and bias is not None:
        return F.linear(x, matrix.t(), bias)
    found = x @ matrix
    return found if bias is None else found + bias


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
