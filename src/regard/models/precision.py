"""The numerical precision of a trained model's matrix multiplications."""

from collections.abc import Iterator
from typing import Literal, get_args

import torch
from torch import nn

from regard.errors import UsageError
from regard.kernels.int8 import check_int8, register_int8
from regard.types import Tensor

__all__ = ["SearchPrecision", "parse_precision", "set_precision"]

SearchPrecision = Literal["float32", "bfloat16", "int8"]

MIN_INT8_SIZE = 16  # matrices with a dimension below this stay in float32: int8 would not be faster


def parse_precision(name: str) -> SearchPrecision:
    """Return the precision with the given name.

    Raises:
        UsageError: if the name is unknown.
    """
    known = get_args(SearchPrecision)
    for one in known:
        if name == one:
            return one
    raise UsageError(f"--precision {name!r}: expected {', '.join(known[:-1])} or {known[-1]}")


def set_precision(model: nn.Module, precision: SearchPrecision) -> None:
    """Set the precision of a model's matrix multiplications. The model must not be trained afterward.

    Args:
        model: The model, on its final device.
        precision: `float32`; `bfloat16`, for all parameters; or `int8`: matrix multiplications with weights
            use integers (`regard.kernels.int8`), while the rest of the model, including any Hugging Face
            modules, uses float32.

    Raises:
        DeviceError: if `precision` is `int8` and the device has no exact integer multiplication.
        UsageError: if `precision` is `int8` and the model has no weights that support it.
    """
    model.to(torch.bfloat16 if precision == "bfloat16" else torch.float32)
    if precision != "int8":
        return
    matrices = list(_weight_matrices(model))
    if not matrices:
        raise UsageError("--precision int8 is not available for Hugging Face models: use float32 or bfloat16")
    check_int8(matrices[0].device)
    register_int8(matrix for matrix in matrices if min(matrix.shape) >= MIN_INT8_SIZE)


def _weight_matrices(module: nn.Module) -> Iterator[Tensor]:
    """Yield all 2D parameters outside Hugging Face modules; int8 has no effect on pure lookup tables."""
    if type(module).__module__.startswith("transformers."):
        return
    for parameter in module.parameters(recurse=False):
        if parameter.dim() == 2:
            yield parameter
    for child in module.children():
        yield from _weight_matrices(child)
