"""Dropout (Srivastava et al. 2014), with its noise drawn four numbers at a time.

On a CPU PyTorch draws one Bernoulli number after another; here one 64-bit number gives four 16-bit ones, in
an eighth of the time. The probability is rounded to a multiple of 2^-16, and the scale is made to fit.
"""

import torch
from torch.nn import functional as F

from regard.types import Float, Tensor

__all__ = ["dropout"]

LEVELS = 1 << 16


def dropout(x: Float[Tensor, "*B"], probability: float, training: bool) -> Float[Tensor, "*B"]:
    """Drop each number with a probability and scale the rest, so that the expectation stays.

    Noise comes from PyTorch's global generator.

    Args:
        x: Any shape.
        probability: Of dropping a number, in [0, 1).
        training: Where False, `x` comes back as it is.
    """
    if not training or probability == 0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, probability, True)
    dropped = round(probability * LEVELS)
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    kept = draws.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - LEVELS // 2
    return x * kept.to(x.dtype).mul_(LEVELS / (LEVELS - dropped))
