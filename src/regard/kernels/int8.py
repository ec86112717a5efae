"""Matrix multiplication with dynamic int8 quantization, for search on a CPU.

A weight w of output j is approximated by s_j round(w / s_j) with the scale s_j = max |w_.j| / 127. Each row
of inputs is quantized in the same way, with its own scale, at each multiplication. The integer products are
exact and summed in 32 bits, so that the result of a row does not depend on the other rows of the batch.

A matrix is registered once with `register_int8`. `regard.kernels.products.matmul` then uses the quantized
values for the matrix and for views of it (its transpose, or some of its rows). All other code uses the
original matrix.
"""

import ctypes
import weakref
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import torch

from regard.errors import DeviceError
from regard.kernels.pool import load_kernel, run_kernel
from regard.kernels.versions import use_numba
from regard.types import Float, Int, Tensor

__all__ = ["check_int8", "int8_matmul", "is_int8_registered", "quantized_matrix", "register_int8"]

INT8_MAX = 127  # values range from -127 to 127; -128 is not used, since +128 does not exist
_MIN_PARALLEL_SIZE = 1 << 14  # elements below which a single thread is faster; see `run_kernel`

# Layout of the kernels' argument block: indices into an array of int64.
INT8_TICKET = 0  # counter of the shares of rows that have been claimed; see `pool`
INT8_ROWS = 1
INT8_COLUMNS = 2  # number of columns
INT8_ROWS_PER_TICKET = 3  # number of rows per ticket
# Addresses: float32 to int8, or int32 to float32, for which they may be the same.
INT8_INPUT, INT8_OUTPUT = 4, 5
INT8_ROW_SCALES = 6  # address of the scales of the rows
INT8_COLUMN_SCALES, INT8_BIAS = 7, 8  # addresses of the scales and the bias of the columns; 0 without a bias
INT8_NUM_ARGS = 9

_Block = ctypes.c_int64 * INT8_NUM_ARGS


class Int8Matrix(NamedTuple):
    """A quantized matrix.

    Attributes:
        values: Integers from -127 to 127.
        scales: Scale of each column; the matrix is approximately values * scales.
    """

    values: Int[Tensor, "I O"]
    scales: Float[Tensor, "O"]


class _QuantizedViews:
    """Cache of the quantized views of a registered matrix, by offset, shape and strides."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        key = id(storage)  # views of a matrix share its storage; the entry is removed along with it
        self.storage = weakref.ref(storage, lambda _: _registered.pop(key, None))
        self.version = 0
        self.views: dict[Any, Int8Matrix] = {}


_registered: dict[int, _QuantizedViews] = {}


def register_int8(matrices: Iterable[Tensor]) -> None:
    """Register matrices, so that multiplications with them and with views of them use int8.

    Args:
        matrices: Float32 matrices on a CPU. If their values change, they are quantized again.
    """
    for matrix in matrices:
        assert matrix.dtype == torch.float32 and matrix.dim() == 2 and matrix.device.type == "cpu"
        if not is_int8_registered(matrix):
            storage = matrix.untyped_storage()
            _registered[id(storage)] = _QuantizedViews(storage)


def is_int8_registered(matrix: Tensor) -> bool:
    """Return whether a matrix, or the matrix that it is a view of, was registered with `register_int8`."""
    return _find(matrix) is not None


def _find(matrix: Tensor) -> _QuantizedViews | None:
    """Return the entry of the storage of a matrix, or None if it is not registered."""
    if not _registered:  # early return, so that `torch.compile` does not trace the rest
        return None
    storage = matrix.untyped_storage()
    found = _registered.get(id(storage))
    return None if found is None or found.storage() is not storage else found


def quantized_matrix(x: Tensor, matrix: Tensor) -> Int8Matrix | None:
    """Return the quantized matrix, or None if it is not registered or int8 cannot be used with `x`.

    Args:
        x: The left factor, [..., in].
        matrix: The right factor, [in, out].
    """
    if (kept := _find(matrix)) is None or matrix.dim() != 2 or x.dtype != torch.float32 or not x.numel():
        return None
    # PyTorch counts in-place changes of a tensor in `_version`, except for inference tensors.
    version = 0 if matrix.is_inference() else matrix._version
    if version != kept.version:
        kept.version, kept.views = version, {}
    where = (matrix.storage_offset(), matrix.shape, matrix.stride())
    found = kept.views.get(where)
    if found is None:
        kept.views[where] = found = _quantize_columns(matrix.detach())
    return found


def _quantize_columns(matrix: Float[Tensor, "I O"]) -> Int8Matrix:
    """Quantize each column of a matrix."""
    values, scales = _quantize_rows(matrix.t().contiguous())
    return Int8Matrix(values.t().contiguous(), scales)


def _quantize_rows(x: Float[Tensor, "N I"]) -> tuple[Int[Tensor, "N I"], Float[Tensor, "N"]]:
    """Quantize each row; returns the integers and the scales, NaN for rows that are not finite."""
    if use_numba(x):
        values, scales = torch.empty_like(x, dtype=torch.int8), x.new_empty(x.shape[0])
        block = _Block()
        block[INT8_INPUT], block[INT8_OUTPUT], block[INT8_ROW_SCALES] = (
            x.data_ptr(),
            values.data_ptr(),
            scales.data_ptr(),
        )
        _run("quantize_kernel", block, x)
        return values, scales
    tops = x.abs().amax(1, keepdim=True)
    values = torch.where(tops > 0, x * (INT8_MAX / tops), 0.0).nan_to_num(0.0, 0.0, 0.0).round()
    scales = torch.where(tops < torch.inf, tops / INT8_MAX, torch.nan)
    return values.to(torch.int8), scales.squeeze(1)


def _run(name: str, block: "ctypes.Array[ctypes.c_int64]", matrix: Tensor) -> None:
    """Run a kernel over the rows of a matrix."""
    rows, block[INT8_COLUMNS] = matrix.shape
    block[INT8_ROWS] = rows
    run_kernel(
        load_kernel("rounding", name), block, INT8_ROWS_PER_TICKET, rows, matrix.numel() < _MIN_PARALLEL_SIZE
    )


def int8_matmul(
    x: Float[Tensor, "*B I"], matrix: Int8Matrix, bias: Float[Tensor, "O"] | None
) -> Float[Tensor, "*B O"]:
    """Compute `x @ matrix (+ bias)` in int8; rows of `x` that are not finite give NaN.

    Args:
        x: The left factor, float32.
        matrix: The result of `quantized_matrix`.
        bias: Float32, or None.
    """
    rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    values, scales = _quantize_rows(rows.contiguous())
    sums = torch.ops.aten._int_mm(values, matrix.values)
    if use_numba(sums):
        found = sums.view(torch.float32)  # overwrites the integers
        block, added = _Block(), None if bias is None else bias.contiguous()
        block[INT8_INPUT] = block[INT8_OUTPUT] = sums.data_ptr()
        block[INT8_ROW_SCALES], block[INT8_COLUMN_SCALES] = scales.data_ptr(), matrix.scales.data_ptr()
        block[INT8_BIAS] = 0 if added is None else added.data_ptr()
        _run("dequantize_kernel", block, sums)
    else:
        found = sums * scales.unsqueeze(1) * matrix.scales
        found = found if bias is None else found + bias
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
