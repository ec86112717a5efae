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
from regard.kernels.pool import CHUNK_SIZE, load_kernel, run_kernel
from regard.kernels.versions import in_functorch_transform, use_numba
from regard.types import Tensor

__all__ = ["fused_dropout", "supports_dropout"]

DROPOUT_RESOLUTION = 1 << 16
_MIN_PARALLEL_SIZE = 1 << 14  # elements below which a single thread is faster; see `run_kernel`

# Layout of the kernel's argument block: indices into an array of int64.
DROPOUT_TICKET = 0  # counter of the shares of chunks that have been claimed; see `pool`
DROPOUT_COUNT = 1  # number of elements
DROPOUT_CHUNKS_PER_TICKET = 2  # number of chunks per ticket
DROPOUT_SEED = 3
DROPOUT_THRESHOLD = 4  # threshold, from 0 to DROPOUT_RESOLUTION - 1
DROPOUT_RELU = 5  # whether ReLU is applied before dropout
DROPOUT_INPUT, DROPOUT_OUTPUT = 6, 7  # addresses of input and output
DROPOUT_RESIDUAL = 8  # address of a tensor to add to the result, in the precision of the output; 0 for none
DROPOUT_GATE = 9  # address of a tensor that is positive where an element is kept; 0 to use random numbers
# 1 if these tensors are bfloat16, 0 if they are float32.
DROPOUT_INPUT_IS_BFLOAT16, DROPOUT_OUTPUT_IS_BFLOAT16, DROPOUT_GATE_IS_BFLOAT16 = 10, 11, 12
DROPOUT_NUM_ARGS = 13

_Block = ctypes.c_int64 * DROPOUT_NUM_ARGS
_FLOATS = (torch.float32, torch.bfloat16)


def _run_dropout(
    x: Tensor,
    out: Tensor,
    threshold: int,
    seed: int,
    *,
    relu: bool,
    residual: Tensor | None,
    gate: Tensor | None,
) -> Tensor:
    """Run the kernel from `x` to `out`; all tensors must be contiguous."""
    block = _Block()
    block[DROPOUT_COUNT], block[DROPOUT_SEED], block[DROPOUT_THRESHOLD], block[DROPOUT_RELU] = (
        x.numel(),
        seed,
        threshold,
        relu,
    )
    block[DROPOUT_INPUT], block[DROPOUT_INPUT_IS_BFLOAT16] = x.data_ptr(), x.dtype == torch.bfloat16
    block[DROPOUT_OUTPUT], block[DROPOUT_OUTPUT_IS_BFLOAT16] = out.data_ptr(), out.dtype == torch.bfloat16
    if residual is not None:
        block[DROPOUT_RESIDUAL] = residual.data_ptr()
    if gate is not None:
        block[DROPOUT_GATE], block[DROPOUT_GATE_IS_BFLOAT16] = gate.data_ptr(), gate.dtype == torch.bfloat16
    chunks = (x.numel() + CHUNK_SIZE - 1) // CHUNK_SIZE
    run_kernel(
        load_kernel("dropping", "dropout_kernel"),
        block,
        DROPOUT_CHUNKS_PER_TICKET,
        chunks,
        x.numel() < _MIN_PARALLEL_SIZE,
    )
    return out


class _Dropout(torch.autograd.Function):
    """The autograd function of `fused_dropout`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, residual: Tensor | None, threshold: int, relu: bool) -> Tensor:
        # All that the backward pass needs to reproduce the noise.
        ctx.seed = int(torch.empty((), dtype=torch.int64).random_(-(2**63), None))
        ctx.threshold, ctx.dtype = threshold, x.dtype
        x, residual = x.contiguous(), None if residual is None else residual.contiguous()
        out = torch.empty_like(x if residual is None else residual)
        _run_dropout(x, out, threshold, ctx.seed, relu=relu, residual=residual, gate=None)
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
            grad = grad.contiguous()
            x_grad = torch.empty_like(grad, dtype=ctx.dtype)
            _run_dropout(grad, x_grad, ctx.threshold, ctx.seed, relu=False, residual=None, gate=gate)
        return x_grad, grad if needs_residual else None, None, None


def supports_dropout(x: Tensor, residual: Tensor | None = None) -> bool:
    """Return whether `fused_dropout` supports these operands on this machine."""
    return (
        use_numba(x, x if residual is None else residual)
        and not in_functorch_transform()
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
