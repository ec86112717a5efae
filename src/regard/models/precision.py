"""In what precision a trained model's products are made."""

from collections.abc import Iterator
from typing import Literal, get_args

import torch
from torch import nn

from regard.errors import UsageError
from regard.kernels.int8 import check_int8, keep_int8
from regard.types import Tensor

__all__ = ["SearchPrecision", "as_precision", "set_precision"]

SearchPrecision = Literal["float32", "bfloat16", "int8"]

LEAST = 16  # a side of a matrix below which eight bits bring nothing


def as_precision(name: str) -> SearchPrecision:
    """The precision of a name.

    Raises:
        UsageError: if there is none.
    """
    known = get_args(SearchPrecision)
    for one in known:
        if name == one:
            return one
    raise UsageError(f"--precision {name!r}: expected {', '.join(known[:-1])} or {known[-1]}")


def set_precision(model: nn.Module, precision: SearchPrecision) -> None:
    """Have a model's products made in a precision from now on; it is not to be trained then.

    Args:
        model: On the device where it stays.
        precision: `float32`; `bfloat16`, for all numbers; or `int8`: products with weights go through
            integers (`regard.kernels.int8`), all else is float32, as are parts from Hugging Face.

    Raises:
        DeviceError: if it is `int8` and the device has no exact products of integers.
        UsageError: if it is `int8` and no product of the model's would go through them.
    """
    model.to(torch.bfloat16 if precision == "bfloat16" else torch.float32)
    if precision != "int8":
        return
    matrices = list(_matrices(model))
    if not matrices:
        raise UsageError("--precision int8: not for Hugging Face models; expected float32 or bfloat16")
    check_int8(matrices[0].device)
    keep_int8(one for one in matrices if min(one.shape) >= LEAST)


def _matrices(module: nn.Module) -> Iterator[Tensor]:
    """The weights of products; those that are looked up alone are never multiplied with."""
    if type(module).__module__.startswith("transformers."):
        return
    for own in module.parameters(recurse=False):
        if own.dim() == 2:
            yield own
    for child in module.children():
        yield from _matrices(child)
