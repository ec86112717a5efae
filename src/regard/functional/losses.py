"""Losses of sparse output distributions, which reach their minimum (Blondel, Martins & Niculae, 2020).

A transformation p(z) = argmax over the simplex of p . z + H(p) has a matching Fenchel-Young loss (Eq. 8),

    L(z, y) = p . z + H(p) - z_y = sum_j p_j (z_j - z_y) + H(p) >= 0,   dL/dz = p - onehot(y).

For alpha-entmax, H(p) = (1 - sum_j p_j^alpha) / (alpha (alpha - 1)) (Peters et al. (2019), Section 3). The
sparsemax loss has alpha = 2 (Martins & Astudillo (2016), Section 3). The loss is exactly 0 if p is one-hot
at y, that is if z_y exceeds every other score by at least 1 / (alpha - 1).

The forward pass saves p only. It returns p as a second output, so that double backward, which passes through
p, uses the gradient of this output.
"""

from typing import Any, Literal

import torch

from regard.functional.dispatch import accumulation_dtype, check_scores
from regard.functional.entmax import entmax, entmax_backward
from regard.kernels.backend import apply
from regard.kernels.normalizers import normalizer_backward
from regard.types import Float, Int, Tensor

Reduction = Literal["mean", "sum", "none"]


class _FenchelYoung(torch.autograd.Function):
    """Compute the loss of each row, 0 for ignored rows, and p."""

    generate_vmap_rule = True

    @staticmethod
    def forward(alpha: float, scores: Tensor, targets: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
        p = entmax(scores, alpha)
        above = scores - scores.gather(-1, targets.unsqueeze(-1))
        powers = p * p if alpha == 2 else p * p.sqrt() if alpha == 1.5 else p**alpha
        entropy = (1 - powers.sum(-1)) / (alpha * (alpha - 1))
        # A score of -inf has p = 0; masking prevents the product 0 * inf = NaN.
        loss = (p * above.masked_fill(p == 0, 0)).sum(-1) + entropy
        return loss.clamp_min(0).masked_fill(~counted, 0), p

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.alpha, _, targets, counted = inputs
        ctx.save_for_backward(output[1], targets, counted)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        p, targets, counted = ctx.saved_tensors
        by_loss, by_p = grads
        scores = None
        if by_loss is not None:
            upstream = by_loss.masked_fill(~counted, 0).unsqueeze(-1)
            scores = (p * upstream).scatter_add(-1, targets.unsqueeze(-1), -upstream)
            # An ignored row has no gradient even if its p is NaN, which 0 * NaN would not achieve.
            scores = scores.masked_fill(~counted.unsqueeze(-1), 0)
        if by_p is not None:
            name = {1.5: "entmax15", 2: "sparsemax"}.get(ctx.alpha)
            through = (
                entmax_backward(ctx.alpha - 1, by_p, p)
                if name is None
                else normalizer_backward(name, by_p, p, None)[0]
            )
            scores = through if scores is None else scores + through
        return None, scores, None, None


def sparsemax_loss(
    scores: Float[Tensor, "*N V"],
    targets: Int[Tensor, "*N"],
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*#N"]:
    """Compute the loss that matches `sparsemax`, as cross entropy matches softmax.

    Args:
        scores: The score of each class; half precision is computed in float32.
        targets: The correct class, in [0, V), or `ignore_index`.
        ignore_index: Target of ignored positions, whose loss and gradient are 0.
        reduction: "mean" over the targets that are not ignored (0 if there are none), "sum", or "none" for
            the loss of each target.

    Returns:
        The loss, at least 0, in float32 or better.

    Raises:
        TypeError: The scores are not floating-point numbers.
        ValueError: `reduction` is not one of these values.
    """
    return entmax_loss(scores, targets, 2.0, ignore_index=ignore_index, reduction=reduction)


def entmax15_loss(
    scores: Float[Tensor, "*N V"],
    targets: Int[Tensor, "*N"],
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*#N"]:
    """Compute the loss that matches `entmax15`: sparse, but smoother than `sparsemax_loss`.

    Arguments, result and errors are those of `sparsemax_loss`.
    """
    return entmax_loss(scores, targets, 1.5, ignore_index=ignore_index, reduction=reduction)


def entmax_loss(
    scores: Float[Tensor, "*N V"],
    targets: Int[Tensor, "*N"],
    alpha: float = 1.5,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*#N"]:
    """Compute the loss that matches `entmax` with the same alpha, in (1, 4].

    The other arguments, the result and further errors are those of `sparsemax_loss`.

    Raises:
        ValueError: Alpha is out of range.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is {reduction!r}, but must be 'mean', 'sum' or 'none'")
    check_scores(scores)
    counted = targets != ignore_index
    classes = targets.to(torch.int64).masked_fill(~counted, 0)
    losses, _ = apply(_FenchelYoung, alpha, scores.to(accumulation_dtype(scores.dtype)), classes, counted)
    if reduction == "none":
        return losses
    total = losses.sum()
    return total if reduction == "sum" else total / counted.sum().clamp_min(1)
