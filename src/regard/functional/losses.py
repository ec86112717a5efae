"""Losses of sparse output distributions, which reach their minimum (Blondel, Martins & Niculae, 2020).

A transformation p(z) = argmax over the simplex of p . z + H(p) has a matching Fenchel-Young loss (Eq. 8),

    L(z, y) = p . z + H(p) - z_y = sum_j p_j (z_j - z_y) + H(p) >= 0,   dL/dz = p - onehot(y).

For alpha-entmax, H(p) = (1 - sum_j p_j^alpha) / (alpha (alpha - 1)) (Peters et al. (2019), Section 3). The
sparsemax loss has alpha = 2 (Martins & Astudillo (2016), Section 3). The loss is exactly 0 if p is one-hot
at y, that is if z_y exceeds every other score by at least 1 / (alpha - 1). For normmax, H(p) = 1 - |p|_alpha
(Blondel, Martins & Niculae (2020), Section 4.3), and the margin is 1.

The forward pass saves p only. It returns p as a second output, so that double backward, which passes through
p, uses the gradient of this output.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch

from regard.functional.dispatch import accumulation_dtype, check_scores
from regard.functional.entmax import entmax, entmax_backward
from regard.functional.normmax import normmax, normmax_backward
from regard.kernels.backend import apply
from regard.kernels.normalizers import normalizer_backward
from regard.types import Float, Int, Tensor

__all__ = ["Reduction", "entmax15_loss", "entmax_loss", "normmax_loss", "sparsemax_loss"]

Reduction = Literal["mean", "sum", "none"]


@dataclass(frozen=True)
class _Prediction:
    """A transformation with its entropy.

    Attributes:
        predict: p, from the scores.
        entropy: H, from p.
        pull_back: The gradient of the scores, from that of p and p, in differentiable operations.
    """

    predict: Callable[[Tensor], Tensor]
    entropy: Callable[[Tensor], Tensor]
    pull_back: Callable[[Tensor, Tensor], Tensor]


def _entmax_prediction(alpha: float) -> _Prediction:
    """Return alpha-entmax with its entropy."""

    def entropy(p: Tensor) -> Tensor:
        powers = p * p if alpha == 2 else p * p.sqrt() if alpha == 1.5 else p**alpha
        return (1 - powers.sum(-1)) / (alpha * (alpha - 1))

    def pull_back(gradient: Tensor, p: Tensor) -> Tensor:
        if alpha in (1.5, 2):
            return normalizer_backward("entmax15" if alpha == 1.5 else "sparsemax", gradient, p, None)[0]
        return entmax_backward(alpha - 1, gradient, p)

    return _Prediction(partial(entmax, alpha=alpha), entropy, pull_back)


def _normmax_prediction(alpha: float) -> _Prediction:
    """Return alpha-normmax with its entropy."""

    def entropy(p: Tensor) -> Tensor:
        # The largest weight is factored out, because its power underflows for a large alpha.
        top = p.amax(-1, keepdim=True).clamp_min(torch.finfo(p.dtype).tiny)
        return 1 - top.squeeze(-1) * ((p / top) ** alpha).sum(-1) ** (1 / alpha)

    return _Prediction(partial(normmax, alpha=alpha), entropy, partial(normmax_backward, alpha - 1))


class _FenchelYoung(torch.autograd.Function):
    """Compute the loss of each row, 0 for ignored rows, and p."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        prediction: _Prediction, scores: Tensor, targets: Tensor, counted: Tensor
    ) -> tuple[Tensor, Tensor]:
        p = prediction.predict(scores)
        above = scores - scores.gather(-1, targets.unsqueeze(-1))
        # A score of -inf has p = 0; masking prevents the product 0 * inf = NaN.
        loss = (p * above.masked_fill(p == 0, 0)).sum(-1) + prediction.entropy(p)
        return loss.clamp_min(0).masked_fill(~counted, 0), p

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.prediction, _, targets, counted = inputs
        ctx.save_for_backward(output[1], targets, counted)
        ctx.save_for_forward(output[1], targets, counted)
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
            through = ctx.prediction.pull_back(by_p, p)
            scores = through if scores is None else scores + through
        return None, scores, None, None


class _ForwardFenchelYoung(_FenchelYoung):
    """The same with forward mode, which prevents the compilation by `torch.compile`."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> tuple[Tensor, Tensor]:
        p, targets, counted = ctx.saved_tensors
        change = tangents[1]
        loss = (p * change).sum(-1) - change.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        # The Jacobian of p is symmetric.
        return loss.masked_fill(~counted, 0), ctx.prediction.pull_back(change, p)


def _loss(
    prediction: _Prediction, scores: Tensor, targets: Tensor, ignore_index: int, reduction: Reduction
) -> Tensor:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is {reduction!r}, but must be 'mean', 'sum' or 'none'")
    check_scores(scores)
    counted = targets != ignore_index
    classes = targets.to(torch.int64).masked_fill(~counted, 0)
    function = _FenchelYoung if torch.compiler.is_compiling() else _ForwardFenchelYoung
    losses, _ = apply(function, prediction, scores.to(accumulation_dtype(scores.dtype)), classes, counted)
    if reduction == "none":
        return losses
    total = losses.sum()
    return total if reduction == "sum" else total / counted.sum().clamp_min(1)


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
    return _loss(_entmax_prediction(alpha), scores, targets, ignore_index, reduction)


def normmax_loss(
    scores: Float[Tensor, "*N V"],
    targets: Int[Tensor, "*N"],
    alpha: float = 2.0,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*#N"]:
    """Compute the loss that matches `normmax` with the same alpha, in (1, 10,000].

    The other arguments, the result and further errors are those of `sparsemax_loss`.

    Raises:
        ValueError: Alpha is out of range.
    """
    return _loss(_normmax_prediction(alpha), scores, targets, ignore_index, reduction)
