"""Dropout on a CPU in one pass over memory; the noise is generated where it is used and not stored.

Element i is dropped if the (i % 4)-th group of 16 bits, from the lowest, of the random 64-bit number i // 4
is below a threshold. The random numbers are those of SplitMix64 (Steele et al., 2014, "Fast splittable
pseudorandom number generators"). Each depends only on the seed and its index. The backward pass generates the
same numbers again, for any number of threads. Where Numba cannot be used, the caller uses PyTorch's dropout.
"""

from typing import Any

import torch

from regard.kernels.backend import apply, backend_module, first_order, use_numba
from regard.types import Tensor

__all__ = ["DROPOUT_RESOLUTION", "fused_dropout", "supports_dropout"]

DROPOUT_RESOLUTION = 1 << 16
"""The dropout probability is a multiple of 1 / DROPOUT_RESOLUTION."""

_FLOATS = (torch.float32, torch.bfloat16)


class _Dropout(torch.autograd.Function):
    """The autograd function of `fused_dropout`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, residual: Tensor | None, threshold: int, relu: bool) -> Tensor:
        # All that the backward pass needs to reproduce the noise.
        ctx.seed = int(torch.empty((), dtype=torch.int64).random_(-(2**63), None))
        ctx.threshold, ctx.dtype = threshold, x.dtype
        dtype = x.dtype if residual is None else residual.dtype
        added = None if residual is None else residual.detach().float().contiguous()
        out = (
            backend_module("numba", "dropout")
            .run_dropout(x.detach().float().contiguous(), threshold, ctx.seed, relu=relu, residual=added)
            .to(dtype)
        )
        # After ReLU the output is positive exactly where a positive element was kept, so it is the gate.
        ctx.save_for_backward(out if relu else None)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (grad,) = grads
        (gate,) = ctx.saved_tensors
        needs_x, needs_residual, *_ = ctx.needs_input_grad
        x_grad = None
        if needs_x:
            x_grad = (
                backend_module("numba", "dropout")
                .run_dropout(
                    grad.float().contiguous(),
                    ctx.threshold,
                    ctx.seed,
                    gate=None if gate is None else gate.float().contiguous(),
                )
                .to(ctx.dtype)
            )
        return x_grad, grad if needs_residual else None, None, None


def supports_dropout(x: Tensor, residual: Tensor | None = None) -> bool:
    """Return whether `fused_dropout` supports these operands on this machine."""
    return (
        use_numba(x, x if residual is None else residual)
        and x.dtype in _FLOATS
        and x.numel() > 0
        and (residual is None or (residual.dtype in _FLOATS and residual.shape == x.shape))
    )


def fused_dropout(x: Tensor, p: float, residual: Tensor | None = None, relu: bool = False) -> Tensor:
    """Return `residual + dropout(relu(x))`, differentiable once.

    The seed of the noise is sampled from PyTorch's global generator.

    Args:
        x: Float32 or bfloat16, on a CPU.
        p: Dropout probability, in [0, 1); rounded to a multiple of 2^-16 below 1.
        residual: A tensor of the shape of `x` to add, for a residual connection. The result has its dtype.
            Cannot be combined with `relu`. Default: nothing is added.
        relu: Whether to apply ReLU before dropout.
    """
    assert residual is None or not relu
    return apply(_Dropout, x, residual, min(round(p * DROPOUT_RESOLUTION), DROPOUT_RESOLUTION - 1), relu)
