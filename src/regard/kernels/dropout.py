"""Dropout on a CPU in one pass over memory; the noise is generated where it is used and not stored.

Element i is dropped if the (i % 4)-th group of 16 bits, from the lowest, of the random 64-bit number i // 4
is below a threshold. The random numbers are those of SplitMix64 (Steele et al., 2014, "Fast splittable
pseudorandom number generators"). Each depends only on the seed and its index. The backward pass generates the
same numbers again, for any number of threads.
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
FEW = 1 << 14  # elements below which a single thread is faster; see `run`

# Layout of the kernel's argument block: indices into an array of int64.
TICKET = 0  # counter of the shares of chunks that have been claimed; see `pool`
COUNT = 1  # number of elements
SHARE = 2  # number of chunks per ticket
SEED = 3
LEVEL = 4  # threshold, from 0 to LEVELS - 1
RELU = 5  # whether ReLU is applied before dropout
X, OUT = 6, 7  # addresses of input and output
ONTO = 8  # address of a tensor to add to the result, in the precision of the output; 0 for none
GATE = 9  # address of a tensor that is positive where an element is kept; 0 to use random numbers
HALF_X, HALF_OUT, HALF_GATE = 10, 11, 12  # 1 if these tensors are bfloat16, 0 if they are float32
LENGTH = 13

_Block = ctypes.c_int64 * LENGTH
_FLOATS = (torch.float32, torch.bfloat16)


def _drop(
    x: Tensor, out: Tensor, level: int, seed: int, *, relu: bool, onto: Tensor | None, gate: Tensor | None
) -> Tensor:
    """Run the kernel from `x` to `out`; all tensors must be contiguous."""
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
    """The autograd function of `dropped`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, onto: Tensor | None, level: int, relu: bool) -> Tensor:
        # All that the backward pass needs to reproduce the noise.
        ctx.seed = int(torch.empty((), dtype=torch.int64).random_(-(2**63), None))
        ctx.level, ctx.dtype = level, x.dtype
        x, onto = x.contiguous(), None if onto is None else onto.contiguous()
        out = torch.empty_like(x if onto is None else onto)
        _drop(x, out, level, ctx.seed, relu=relu, onto=onto, gate=None)
        # After ReLU the output is positive exactly where a positive element was kept, so it is the gate.
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
    """Return whether `dropped` supports these operands on this machine."""
    return (
        on_cpu(x, x if onto is None else onto)
        and not transforming()
        and x.dtype in _FLOATS
        and x.numel() > 0
        and (onto is None or (onto.dtype in _FLOATS and onto.shape == x.shape))
    )


def dropped(x: Tensor, probability: float, onto: Tensor | None = None, relu: bool = False) -> Tensor:
    """Return `onto + dropout(relu(x))`, differentiable once.

    The seed of the noise is sampled from PyTorch's global generator.

    Args:
        x: Float32 or bfloat16, on a CPU.
        probability: Dropout probability, in [0, 1); rounded to a multiple of 2^-16 below 1.
        onto: A tensor of the shape of `x` to add, for a residual connection. The result has its dtype. Cannot
            be combined with `relu`. Default: nothing is added.
        relu: Whether to apply ReLU before dropout.
    """
    assert onto is None or not relu
    return apply(_Dropped, x, onto, min(round(probability * LEVELS), LEVELS - 1), relu)
