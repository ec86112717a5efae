"""Dropout (Srivastava et al., 2014), alone and fused with a ReLU or a residual addition.

For float32 and bfloat16 on a CPU, one kernel does everything in one pass over memory; the noise is generated
where it is used and not stored. It supports first-order gradients only. All other cases use PyTorch's
dropout. On a CPU, PyTorch samples one Bernoulli variable after another and takes 25 times as long
(`benchmarks/RESULTS.md`).

Element i is dropped if the (i % 4)-th group of 16 bits, from the lowest, of the random 64-bit number i // 4
is below a threshold. The random numbers are those of SplitMix64 (`compilation.splitmix64`). Each depends only
on the seed and its index. The backward pass generates the same numbers again, for any number of threads.
"""

from typing import Any

import torch
from torch.nn import functional as F

from regard.kernels.backend import apply, backend_module, first_order, use_numba
from regard.types import Float, Tensor

DROPOUT_RESOLUTION = 1 << 16
"""The dropout probability is a multiple of 1 / DROPOUT_RESOLUTION."""

_FLOATS = (torch.float32, torch.bfloat16)


class _Dropout(torch.autograd.Function):
    """residual + dropout(relu(x)) by the kernel, differentiable once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, residual: Tensor | None, threshold: int, relu: bool) -> Tensor:
        # All that the backward pass needs to reproduce the noise.
        ctx.seed = int(torch.empty((), dtype=torch.int64).random_(-(2**63), None))
        ctx.threshold, ctx.dtype = threshold, x.dtype
        dtype = x.dtype if residual is None else residual.dtype
        added = None if residual is None else residual.detach().float().contiguous()
        run = backend_module("numba", "dropout").run_dropout
        exact = x.detach().float().contiguous()
        out = run(exact, threshold, ctx.seed, relu=relu, residual=added).to(dtype)
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
            run = backend_module("numba", "dropout").run_dropout
            gate = None if gate is None else gate.float().contiguous()
            x_grad = run(grad.float().contiguous(), ctx.threshold, ctx.seed, gate=gate).to(ctx.dtype)
        return x_grad, grad if needs_residual else None, None, None


def supports_dropout(x: Tensor, residual: Tensor | None = None) -> bool:
    """Return whether the kernel supports these operands on this machine."""
    return (
        use_numba(x, x if residual is None else residual)
        and x.dtype in _FLOATS
        and x.numel() > 0
        and (residual is None or (residual.dtype in _FLOATS and residual.shape == x.shape))
    )


def dropout(
    x: Float[Tensor, "*B"],
    probability: float,
    training: bool,
    *,
    relu: bool = False,
    residual: Float[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """Zero each element with a probability and scale the others to keep the expectation.

    The result is dropout(x) or, on request, dropout(relu(x)) or residual + dropout(x). The noise comes from
    PyTorch's global generator.

    Args:
        x: Any shape.
        probability: Probability of zeroing an element, in [0, 1]. Below 1, the kernel rounds it to a
            multiple of 2^-16 below 1.
        training: If False, no element is zeroed.
        relu: Whether to apply ReLU before dropout. Cannot be combined with a residual.
        residual: A tensor to add, which broadcasts with `x`. The result has the wider of their dtypes.
            Default: nothing is added.
    """
    assert residual is None or not relu
    active = training and probability > 0
    # The kernel writes in the dtype of the residual.
    wide = residual is None or torch.promote_types(residual.dtype, x.dtype) == residual.dtype
    if active and probability < 1 and wide and supports_dropout(x, residual):
        threshold = min(round(probability * DROPOUT_RESOLUTION), DROPOUT_RESOLUTION - 1)
        return apply(_Dropout, x, residual, threshold, relu)
    if residual is not None:
        return residual + dropout(x, probability, training)
    x = torch.relu(x) if relu else x
    return F.dropout(x, probability) if active else x
