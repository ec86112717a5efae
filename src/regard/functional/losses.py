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
from regard.functional.entmax import entmax15, sparsemax
from regard.kernels.backend import apply
from regard.kernels.normalizers import normalizer_backward
from regard.types import Float, Int, Tensor

__all__ = ["Reduction", "entmax15_loss", "sparsemax_loss"]

Reduction = Literal["mean", "sum", "none"]


class _FenchelYoung(torch.autograd.Function):
    """Compute the loss of each row, 0 for ignored rows, and p."""

    generate_vmap_rule = True

    @staticmethod
    def forward(name: str, scores: Tensor, targets: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
        sparse = name == "sparsemax"
        p = sparsemax(scores) if sparse else entmax15(scores)
        alpha = 2.0 if sparse else 1.5
        above = scores - scores.gather(-1, targets.unsqueeze(-1))
        powers = p * p if sparse else p * p.sqrt()  # p^alpha
        entropy = (1 - powers.sum(-1)) / (alpha * (alpha - 1))
        # A score of -inf has p = 0; masking prevents the product 0 * inf = NaN.
        loss = (p * above.masked_fill(p == 0, 0)).sum(-1) + entropy
        return loss.clamp_min(0).masked_fill(~kept, 0), p

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.name, _, targets, kept = inputs
        ctx.save_for_backward(output[1], targets, kept)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        p, targets, kept = ctx.saved_tensors
        by_loss, by_p = grads
        scores = None
        if by_loss is not None:
            upstream = by_loss.masked_fill(~kept, 0).unsqueeze(-1)
            scores = (p * upstream).scatter_add(-1, targets.unsqueeze(-1), -upstream)
            # An ignored row has no gradient even if its p is NaN, which 0 * NaN would not achieve.
            scores = scores.masked_fill(~kept.unsqueeze(-1), 0)
        if by_p is not None:
            through = normalizer_backward(ctx.name, by_p, p, None)[0]
            scores = through if scores is None else scores + through
        return None, scores, None, None


def _loss(name: str, scores: Tensor, targets: Tensor, ignore_index: int, reduction: Reduction) -> Tensor:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is {reduction!r}, but must be 'mean', 'sum' or 'none'")
    check_scores(scores)
    kept = targets != ignore_index
    classes = targets.to(torch.int64).masked_fill(~kept, 0)
    losses, _ = apply(_FenchelYoung, name, scores.to(accumulation_dtype(scores.dtype)), classes, kept)
    if reduction == "none":
        return losses
    total = losses.sum()
    return total if reduction == "sum" else total / kept.sum().clamp_min(1)


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
    return _loss("sparsemax", scores, targets, ignore_index, reduction)


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
    return _loss("entmax15", scores, targets, ignore_index, reduction)
