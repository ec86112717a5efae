"""Dropout on a CPU in one pass over memory: noise is drawn where it is used and not stored.

Number i is dropped where 16 of the 64 bits of word i // 4, the (i % 4)-th from below, are under a level. The
words are those of SplitMix64 (Steele et al. 2014, "Fast splittable pseudorandom number generators"), each a
function of seed and place alone: the gradient draws again what the forward pass drew, whatever the number of
threads.
"""

import ctypes
from typing import Any

import torch

from regard.kernels.autograd import apply, first_order
from regard.kernels.pool import CHUNK, load, run
from regard.kernels.versions import on_cpu, transforming
from regard.types import Tensor

__all__ = ["dropped", "fits"]

LEVELS = 1 << 16
FEW = 1 << 14  # numbers; see `run`

# The kernel's arguments: int64 in one block of memory.
TICKET = 0  # the next share of the chunks
COUNT = 1  # of numbers
SHARE = 2  # how many chunks go with a ticket
SEED = 3
LEVEL = 4  # of LEVELS
RELU = 5  # whether negative numbers count as 0
X, OUT = 6, 7  # addresses
ONTO = 8  # of what is added in the end, in the precision of the output; 0: nothing
GATE = 9  # of numbers that are positive where none was dropped, instead of noise; 0: noise
HALF_X, HALF_OUT, HALF_GATE = 10, 11, 12  # whether they are bfloat16, else float32
LENGTH = 13

_Block = ctypes.c_int64 * LENGTH
_FLOATS = (torch.float32, torch.bfloat16)


def _drop(
    x: Tensor, out: Tensor, level: int, seed: int, *, relu: bool, onto: Tensor | None, gate: Tensor | None
) -> Tensor:
    """Write to `out` what is left of `x`; all are contiguous."""
    block = _Block()
    block[COUNT], block[SEED], block[LEVEL], block[RELU] = x.numel(), seed, level, relu
    block[X], block[HALF_X] = x.data_ptr(), x.dtype == torch.bfloat16
    block[OUT], block[HALF_OUT] = out.data_ptr(), out.dtype == torch.bfloat16
    if onto is not None:
        block[ONTO] = onto.data_ptr()
    if gate is not None:
        block[GATE], block[HALF_GATE] = gate.data_ptr(), gate.dtype == torch.bfloat16
    chunks = (x.numel() + CHUNK - 1) // CHUNK
    run(load("dropping", "drop"), block, SHARE, chunks, x.numel() < FEW)
    return out


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, onto: Tensor | None, level: int, relu: bool) -> Tensor:
        ctx.seed = int(torch.empty((), dtype=torch.int64).random_(-(2**63), None))
        ctx.level, ctx.dtype = level, x.dtype
        x, onto = x.contiguous(), None if onto is None else onto.contiguous()
        out = torch.empty_like(x if onto is None else onto)
        _drop(x, out, level, ctx.seed, relu=relu, onto=onto, gate=None)
        ctx.save_for_backward(out if relu else None)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (grad,) = grads
        (gate,) = ctx.saved_tensors
        needs_x, needs_onto, *_ = ctx.needs_input_grad
        found = None
        if needs_x:
            grad = grad.contiguous()
            found = torch.empty_like(grad, dtype=ctx.dtype)
            _drop(grad, found, ctx.level, ctx.seed, relu=False, onto=None, gate=gate)
        return found, grad if needs_onto else None, None, None


def fits(x: Tensor, onto: Tensor | None = None) -> bool:
    """Whether `dropped` takes these operands on this machine."""
    return (
        on_cpu(x, x if onto is None else onto)
        and not transforming()
        and x.dtype in _FLOATS
        and x.numel() > 0
        and (onto is None or (onto.dtype in _FLOATS and onto.shape == x.shape))
    )


def dropped(x: Tensor, probability: float, onto: Tensor | None = None, relu: bool = False) -> Tensor:
    """Onto + dropout(relu(x)), with its gradient (of the first order).

    PyTorch's global generator seeds the noise.

    Args:
        x: Float32 or bfloat16, on a CPU.
        probability: Of dropping a number, in [0, 1); rounded to a multiple of 2^-16 below 1.
        onto: Of the shape of `x`; the result is in its precision. Not with `relu`.
        relu: Whether negative numbers are 0.
    """
    assert onto is None or not relu
    return apply(_Dropped, x, onto, min(round(probability * LEVELS), LEVELS - 1), relu)
