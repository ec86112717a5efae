"""Constrained attention over all time steps on a GPU.

A program processes one sentence, whose cumulative attention stays in registers. The steps run one after
another. An infeasible step and all later steps of the sentence are NaN.
"""

# Triton compiles the kernels, which a type checker cannot analyze. They are launched as `kernel[grid](...)`
# and take options that are not in their signatures.
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false, reportCallIssue=false

import torch
import triton
import triton.language as tl

from regard.kernels._triton.normalizers import (
    COUNTS,
    ELEMENTS_PER_WARP,
    device_context,
    expand_operand,
    tile_gradient,
    tile_positions,
    tile_shape,
)
from regard.kernels._triton.thresholds import FREE, INF, INVALID, UPPER, constrained_weights
from regard.kernels.normalizers import NORMALIZER_CODES
from regard.types import Tensor


@triton.jit(do_not_specialize=COUNTS)
def forward_scan(
    scores,
    fertility,
    mask,
    weights,
    status,
    steps,
    size,
    exhaustion,
    exhaustion_error,
    KIND: tl.constexpr,
    MASKED: tl.constexpr,
    LENGTH: tl.constexpr,
):
    """Write the weights and the status of all steps of a sentence.

    The scores of the next step are loaded while the current step is solved. Triton passes scalars as float32,
    so the exhaustion factor is the sum of its rounded value and the rounding error.
    """
    sentence = tl.program_id(0) + tl.zeros([1, 1, 1], tl.int64)
    first = sentence * steps
    at = tile_positions(1, LENGTH)
    here = at < size
    f = tl.load(fertility + sentence * size + at, mask=here, other=0.0)
    c = tl.zeros([1, 1, 1], f.dtype) + exhaustion + exhaustion_error
    received = tl.zeros_like(f)
    z = tl.load(scores + first * size + at, mask=here, other=-INF)
    for step in range(steps):
        row = first + step
        coming = tl.load(scores + (row + 1) * size + at, mask=here & (row + 1 < first + steps), other=-INF)
        usable = z != -INF
        if MASKED:
            usable = usable & (tl.load(mask + row * size + at, mask=here, other=0) != 0)
        u = f - received
        # Unlike `maximum`, this keeps NaN, so that an infeasible step makes all later steps NaN.
        u = tl.where(u < 0.0, 0.0, u)
        z = z + tl.where(f < INF, u * c, 0.0)
        p, where = constrained_weights(z, usable, u, tl.zeros_like(u), KIND)
        p = p.to(f.dtype)
        received += p
        tl.store(weights + row * size + at, p, mask=here)
        tl.store(status + row * size + at, where, mask=here)
        z = coming


@triton.jit(do_not_specialize=COUNTS)
def backward_scan(
    gradient,
    weights,
    status,
    by_scores,
    by_fertility,
    steps,
    size,
    KIND: tl.constexpr,
    LENGTH: tl.constexpr,
):
    """Write the gradients of the scores and the fertility of a sentence, from its last step to its first.

    The recurrence is that of `_numba.scans`. The operands of the previous step are loaded while a step is
    processed.
    """
    sentence = tl.program_id(0) + tl.zeros([1, 1, 1], tl.int64)
    at = tile_positions(1, LENGTH)
    here = at < size
    first = sentence * steps
    row = first + steps - 1
    g = tl.load(gradient + row * size + at, mask=here, other=0.0)
    p = tl.load(weights + row * size + at, mask=here, other=0.0)
    where = tl.load(status + row * size + at, mask=here, other=0)
    loosened = tl.zeros_like(g)
    for _ in range(steps):
        more = here & (row > first)
        next_g = tl.load(gradient + (row - 1) * size + at, mask=more, other=0.0)
        next_p = tl.load(weights + (row - 1) * size + at, mask=more, other=0.0)
        next_where = tl.load(status + (row - 1) * size + at, mask=more, other=0)
        scores, change = tile_gradient(g - loosened, p, where == FREE, KIND)
        loosened += tl.where((where == UPPER) | (where == INVALID), change, 0.0)
        tl.store(by_scores + row * size + at, scores, mask=here)
        g, p, where = next_g, next_p, next_where
        row = row - 1
    tl.store(by_fertility + sentence * size + at, loosened, mask=here)


def _scan_tile(size: int, batch: int) -> tuple[int, int]:
    """Return the length of a tile that holds one row, and its number of warps.

    The number of warps is twice that of `normalizers`, because the steps of a sentence run one after another.
    """
    k, _, lanes, _ = tile_shape(size, batch)
    return k * lanes, max(1, min(16, 2 * k * lanes // ELEMENTS_PER_WARP))


def forward(
    name: str,
    scores: Tensor,
    fertility: Tensor,
    exhaustion: float,
    mask: Tensor | None,
    heads_per_budget: int,
) -> tuple[Tensor, Tensor]:
    """Compute the weights and the status of all steps; see `kernels.scans`.

    Raises:
        KernelFallbackError: There are too many sentences, or they are too long.
        UsageError: The tensors are not on CUDA and Triton does not run in its interpreter.
    """
    scores, fertility = scores.contiguous(), fertility.contiguous()
    weights, status = torch.empty_like(scores), torch.empty_like(scores, dtype=torch.uint8)
    batch, steps, size = scores.shape
    length, warps = _scan_tile(size, batch)
    # Triton passes scalars as float32, so the rounding error of the factor is passed as well.
    rounded = float(torch.tensor(exhaustion, dtype=torch.float32))
    with device_context(scores):
        forward_scan[(batch,)](
            scores,
            fertility,
            expand_operand(None if mask is None else mask.view(torch.uint8), scores),
            weights,
            status,
            steps,
            size,
            rounded,
            exhaustion - rounded,
            KIND=NORMALIZER_CODES[name],
            MASKED=mask is not None,
            LENGTH=length,
            num_warps=warps,
            enable_fp_fusion=False,
        )
    return weights, status


def backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor, heads_per_budget: int
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of the scores [B, T, S] and of the fertility [B, S]; see `kernels.scans`."""
    batch, steps, size = weights.shape
    scores, fertility = torch.empty_like(weights), weights.new_zeros(batch, size)
    length, warps = _scan_tile(size, batch)
    with device_context(weights):
        backward_scan[(batch,)](
            gradient.contiguous(),
            weights,
            status,
            scores,
            fertility,
            steps,
            size,
            KIND=NORMALIZER_CODES[name],
            LENGTH=length,
            num_warps=warps,
        )
    return scores, fertility
