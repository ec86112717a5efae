"""The numerical precision of matrix multiplications, in training and in search."""

from typing import Literal, get_args

import torch
from torch import nn

from regard.errors import UsageError

__all__ = ["Precision", "parse_precision", "set_precision"]

Precision = Literal["float32", "bfloat16"]


def parse_precision(name: str) -> Precision:
    """Return the precision with the given name.

    Raises:
        UsageError: if the name is unknown.
    """
    known = get_args(Precision)
    for precision in known:
        if name == precision:
            return precision
    raise UsageError(f"--precision {name!r}: expected {' or '.join(known)}")


def set_precision(model: nn.Module, precision: Precision) -> None:
    """Set the precision of a model's matrix multiplications. The model must not be trained afterward.

    Args:
        model: The model, on its final device.
        precision: `float32`, or `bfloat16` for all parameters.
    """
    model.to(torch.bfloat16 if precision == "bfloat16" else torch.float32)
