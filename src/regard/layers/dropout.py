"""Dropout (Srivastava et al., 2014), alone and fused with a ReLU or a residual addition.

For float32 and bfloat16 on a CPU, one kernel does everything in one pass over memory
(`regard.kernels.dropout`); it supports first-order gradients only. All other cases use PyTorch's dropout. On
a CPU, PyTorch samples one Bernoulli variable after another and takes 25 times as long
(`benchmarks/RESULTS.md`).
"""

import torch
from torch.nn import functional as F

from regard.kernels.dropout import fused_dropout, supports_dropout
from regard.types import Float, Tensor

__all__ = ["add_dropout", "dropout", "relu_dropout"]


def dropout(x: Float[Tensor, "*B"], probability: float, training: bool) -> Float[Tensor, "*B"]:
    """Zero each element with a probability and scale the others to keep the expectation.

    The noise comes from PyTorch's global generator.

    Args:
        x: Any shape.
        probability: Probability of zeroing an element, in [0, 1). The kernel rounds it to a multiple of
            2^-16.
        training: If False, `x` is returned unchanged.
    """
    if not training or probability == 0:
        return x
    return fused_dropout(x, probability) if supports_dropout(x) else F.dropout(x, probability)


def relu_dropout(x: Float[Tensor, "*B"], probability: float, training: bool) -> Float[Tensor, "*B"]:
    """Compute dropout(relu(x)); see `dropout`."""
    if not training or probability == 0:
        return torch.relu(x)
    return (
        fused_dropout(x, probability, relu=True)
        if supports_dropout(x)
        else F.dropout(torch.relu(x), probability)
    )


def add_dropout(
    residual: Float[Tensor, "*#B"], x: Float[Tensor, "*B"], probability: float, training: bool
) -> Float[Tensor, "*B"]:
    """Compute residual + dropout(x), in the wider of the two dtypes; see `dropout`.

    Args:
        residual: Broadcasts with `x`.
        x: The tensor to which dropout is applied.
        probability: Probability of zeroing an element.
        training: If False, no element is zeroed.
    """
    if not training or probability == 0:
        return residual + x
    # The kernel writes in the dtype of `residual`.
    wide = torch.promote_types(residual.dtype, x.dtype) == residual.dtype
    return (
        fused_dropout(x, probability, residual)
        if wide and supports_dropout(x, residual)
        else residual + dropout(x, probability, True)
    )
