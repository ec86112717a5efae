"""Dropout (Srivastava et al. 2014), alone and with what stands beside it in a layer.

Float32 and bfloat16 on a CPU take one pass over memory for all of it (`regard.kernels.dropout`), with a
gradient of the first order alone. PyTorch's own, which answers elsewhere, draws one Bernoulli number after
another there and takes 25 times as long (`benchmarks/RESULTS.md`).
"""

import torch
from torch.nn import functional as F

from regard.kernels.dropout import dropped, fits
from regard.types import Float, Tensor

__all__ = ["add_dropout", "dropout", "relu_dropout"]


def dropout(x: Float[Tensor, "*B"], probability: float, training: bool) -> Float[Tensor, "*B"]:
    """Drop each number with a probability and scale the rest, so that the expectation stays.

    Noise comes from PyTorch's global generator.

    Args:
        x: Any shape.
        probability: Of dropping a number, in [0, 1); the kernel rounds it to a multiple of 2^-16.
        training: Where False, `x` comes back as it is.
    """
    if not training or probability == 0:
        return x
    return dropped(x, probability) if fits(x) else F.dropout(x, probability)


def relu_dropout(x: Float[Tensor, "*B"], probability: float, training: bool) -> Float[Tensor, "*B"]:
    """dropout(relu(x)); see `dropout`."""
    if not training or probability == 0:
        return torch.relu(x)
    return dropped(x, probability, relu=True) if fits(x) else F.dropout(torch.relu(x), probability)


def add_dropout(
    onto: Float[Tensor, "*#B"], x: Float[Tensor, "*B"], probability: float, training: bool
) -> Float[Tensor, "*B"]:
    """Onto + dropout(x), in the wider precision of the two; see `dropout`.

    Args:
        onto: Broadcasts with `x`.
        x: What is dropped.
        probability: Of dropping a number.
        training: Where False, nothing is dropped.
    """
    if not training or probability == 0:
        return onto + x
    wide = torch.promote_types(onto.dtype, x.dtype) == onto.dtype
    return dropped(x, probability, onto) if wide and fits(x, onto) else onto + dropout(x, probability, True)
