"""The numerical precision of a trained model's matrix multiplications."""

from collections.abc import Iterator
from typing import Literal, get_args

import torch
from torch import nn

from regard.errors import UsageError
from regard.kernels.matmul import Int8Weight, check_int8

__all__ = ["SearchPrecision", "is_dispatched", "parse_precision", "set_precision"]

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


def is_dispatched(model: nn.Module) -> bool:
    """Return whether accelerate has distributed the weights (`regard.models.hf.memory`).

    Such a model can be neither moved, nor trained, nor set to another precision.
    """
    return any(getattr(module, "hf_device_map", None) for module in model.modules())


def set_precision(model: nn.Module, precision: SearchPrecision) -> None:
    """Set the precision of a model's matrix multiplications. The model must not be trained afterward.

    Args:
        model: The model, on its final device.
        precision: `float32`; `bfloat16`, for all parameters; or `int8`: matrix multiplications with weights
            use integers (`regard.kernels.matmul`), while the rest of the model, including any Hugging Face
            modules, uses float32.

    Raises:
        DeviceError: if `precision` is `int8` and the device has no exact integer multiplication.
        UsageError: if `precision` is `int8` and the model has no weights that support it, or if the model
            does not fit into memory and `precision` is not `float32`.
    """
    if is_dispatched(model):
        if precision != "float32":
            raise UsageError(f"--precision {precision} is not available for a model larger than the memory")
        return
    model.to(torch.bfloat16 if precision == "bfloat16" else torch.float32)
    if precision != "int8":
        return
    modules = list(_own_modules(model))
    matrices = [
        weight for module in modules for weight in module.parameters(recurse=False) if weight.dim() == 2
    ]
    if not matrices:
        raise UsageError("--precision int8 is not available for Hugging Face models: use float32 or bfloat16")
    check_int8(matrices[0].device)
    # A parameter that several modules share is replaced by the same weight in all of them.
    weights = {matrix: Int8Weight(matrix) for matrix in matrices if min(matrix.shape) >= MIN_INT8_SIZE}
    for module in modules:
        for name, parameter in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            if parameter in weights:
                setattr(module, name, weights[parameter])


def _own_modules(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the module and all modules inside it, except Hugging Face modules."""
    # These modules do not multiply with `regard.kernels.matmul`, so int8 does not apply to them.
    if type(module).__module__.startswith("transformers."):
        return
    yield module
    for child in module.children():
        yield from _own_modules(child)
