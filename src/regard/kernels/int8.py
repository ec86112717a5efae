"""Products with weights kept in eight bits, for search on a CPU.

A weight w of output j stands for s_j round(w / s_j), with s_j = max |w_.j| / 127; a row of inputs likewise,
with a scale of its own, at each product. Products of the integers are exact and summed in 32 bits, so that a
row's result is the same whatever rows lie beside it.

A matrix is named once (`keep_int8`); `regard.kernels.products.product` then takes the integers for it and for
views of it (its transpose, some of its rows), while all else reads it as it is.
"""

import ctypes
import weakref
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import torch

from regard.errors import DeviceError
from regard.kernels.pool import load, run
from regard.kernels.versions import on_cpu
from regard.types import Float, Int, Tensor

__all__ = ["check_int8", "int8_matrix", "int8_product", "is_kept", "keep_int8"]

LEVELS = 127  # from -127 to 127: -128 has no opposite
FEW = 1 << 14  # numbers; see `run`

# The kernels' arguments: int64 in one block of memory.
TICKET = 0  # the next share of the rows
ROWS = 1
SIZE = 2  # of a row
SHARE = 3  # how many rows go with a ticket
FROM, TO = 4, 5  # addresses: float32 and int8, or int32 and float32, which may be the same
SCALES = 6  # of the rows
COLUMNS, BIAS = 7, 8  # of the columns: scales, and what is added, or 0
LENGTH = 9

_Block = ctypes.c_int64 * LENGTH


class Int8Matrix(NamedTuple):
    """A matrix in eight bits.

    Attributes:
        values: Integers.
        scales: What those of a column are times.
    """

    values: Int[Tensor, "I O"]
    scales: Float[Tensor, "O"]


class _Kept:
    """What is kept of a matrix that was named: each view in eight bits, by where it lies."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        key = id(storage)
        self.storage = weakref.ref(storage, lambda _: _kept.pop(key, None))
        self.version = 0
        self.views: dict[Any, Int8Matrix] = {}


_kept: dict[int, _Kept] = {}


def keep_int8(matrices: Iterable[Tensor]) -> None:
    """Have products with these, or with views of them, made in eight bits from now on.

    Args:
        matrices: Float32, on a CPU, of two dimensions. They may change.
    """
    for matrix in matrices:
        assert matrix.dtype == torch.float32 and matrix.dim() == 2 and matrix.device.type == "cpu"
        if not is_kept(matrix):
            storage = matrix.untyped_storage()
            _kept[id(storage)] = _Kept(storage)


def is_kept(matrix: Tensor) -> bool:
    """Whether it was named, or is a view of one that was."""
    return _find(matrix) is not None


def _find(matrix: Tensor) -> _Kept | None:
    if not _kept:  # so that compilers see nothing of the rest
        return None
    storage = matrix.untyped_storage()
    found = _kept.get(id(storage))
    return None if found is None or found.storage() is not storage else found


def int8_matrix(x: Tensor, matrix: Tensor) -> Int8Matrix | None:
    """The matrix in eight bits, where it is kept so and `x` is to be multiplied with it.

    Args:
        x: [..., in].
        matrix: [in, out].
    """
    if (kept := _find(matrix)) is None or matrix.dim() != 2 or x.dtype != torch.float32 or not x.numel():
        return None
    version = 0 if matrix.is_inference() else matrix._version
    if version != kept.version:
        kept.version, kept.views = version, {}
    where = (matrix.storage_offset(), matrix.shape, matrix.stride())
    found = kept.views.get(where)
    if found is None:
        kept.views[where] = found = _rounded_columns(matrix.detach())
    return found


def _rounded_columns(matrix: Float[Tensor, "I O"]) -> Int8Matrix:
    values, scales = _rounded_rows(matrix.t().contiguous())
    return Int8Matrix(values.t().contiguous(), scales)


def _rounded_rows(x: Float[Tensor, "N I"]) -> tuple[Int[Tensor, "N I"], Float[Tensor, "N"]]:
    """Each row as integers, and what they are times: no number where one of the row is none, or infinite."""
    if on_cpu(x):
        values, scales = torch.empty_like(x, dtype=torch.int8), x.new_empty(x.shape[0])
        block = _Block()
        block[FROM], block[TO], block[SCALES] = x.data_ptr(), values.data_ptr(), scales.data_ptr()
        _run("round_rows", block, x)
        return values, scales
    tops = x.abs().amax(1, keepdim=True)
    values = torch.where(tops > 0, x * (LEVELS / tops), 0.0).nan_to_num(0.0, 0.0, 0.0).round()
    scales = torch.where(tops < torch.inf, tops / LEVELS, torch.nan)
    return values.to(torch.int8), scales.squeeze(1)


def _run(name: str, block: "ctypes.Array[ctypes.c_int64]", numbers: Tensor) -> None:
    rows, block[SIZE] = numbers.shape
    block[ROWS] = rows
    run(load("rounding", name), block, SHARE, rows, numbers.numel() < FEW)


def int8_product(
    x: Float[Tensor, "*B I"], matrix: Int8Matrix, bias: Float[Tensor, "O"] | None
) -> Float[Tensor, "*B O"]:
    """`x @ matrix (+ bias)`; no number of a row with one that is none, or is infinite.

    Args:
        x: Float32.
        matrix: What `int8_matrix` gave.
        bias: Float32.
    """
    rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    values, scales = _rounded_rows(rows.contiguous())
    sums = torch.ops.aten._int_mm(values, matrix.values)
    if on_cpu(sums):
        found = sums.view(torch.float32)  # in the place of the integers
        block, added = _Block(), None if bias is None else bias.contiguous()
        block[FROM] = block[TO] = sums.data_ptr()
        block[SCALES], block[COLUMNS] = scales.data_ptr(), matrix.scales.data_ptr()
        block[BIAS] = 0 if added is None else added.data_ptr()
        _run("scale_sums", block, sums)
    else:
        found = sums * scales.unsqueeze(1) * matrix.scales
        found = found if bias is None else found + bias
    return found if x.dim() == 2 else found.view(*x.shape[:-1], -1)


@cache
def check_int8(device: torch.device) -> None:
    """Make sure that products of integers are exact here.

    Processors without instructions for them (VNNI on x86) may sum pairs in 16 bits, which overflows.

    Raises:
        DeviceError: if they are not, or there are none.
    """
    if device.type != "cpu":
        raise DeviceError(f"int8: not on {device}: expected a CPU; bfloat16 is fast on a GPU")
    signs = 1 - 2 * (torch.arange(256 * 64).view(256, 64) * 7919 % 31 % 2)
    left, right = LEVELS * signs[:64], LEVELS * torch.ones_like(signs[:64])
    try:
        found = torch.ops.aten._int_mm(left.to(torch.int8), right.to(torch.int8))
    except (AttributeError, RuntimeError):
        found = None
    if found is None or not torch.equal(found.long(), left @ right):
        raise DeviceError(
            "int8: this processor, or this version of PyTorch, makes no exact products of 8-bit integers; "
            "expected float32 or bfloat16"
        )
