"""The entmax family: softmax, sparsemax, 1.5-entmax and entmax (Peters et al., 2019).

Softmax is the limit alpha = 1 and sparsemax has alpha = 2. By Eq. 9 and 10,

    p = argmax over the simplex of p . z + H_alpha(p),
    H_alpha(p) = sum_j (p_j - p_j^alpha) / (alpha (alpha - 1)),
    p = max(0, (alpha - 1) z - tau)^(1 / (alpha - 1)),   tau such that p sums to 1.

Sparsemax is the Euclidean projection of the scores onto the simplex (Martins & Astudillo (2016), Eq. 1 to 3):

    p = argmin over {p >= 0 : sum p = 1} of |p - z|^2 = max(0, z - tau).

Its threshold is found by sorting (ibid., Algorithm 1): with z_(1) >= z_(2) >= ..., k = max{k : 1 + k z_(k) >
sum_{j<=k} z_(j)} and tau = (sum_{j<=k} z_(j) - 1) / k. Gradient (ibid., Eq. 12 and 14), with A the support
and m the mean of g over it: dz_j = 1(j in A) (g_j - m).

For alpha = 1.5, tau has a closed form on the support A, which is found by sorting (Peters et al. (2019),
Algorithm 2). With x = z / 2, k = |A|, M the mean of x over A and Q = sum_A (x_j - M)^2,

    tau = M - sqrt((1 - Q) / k).

For other values of alpha there is no finite algorithm. With c = alpha - 1 and t = (tau + 1) / c,

    p = max(0, 1 + c (z - t))^(1 / c) = exp(log1p(c (z - t)) / c),

which is accurate even for alpha close to 1, where it approaches exp(z - t). The threshold t lies in
[max, max + (1 - S^-c) / c] and is found by bisection to full precision.

Gradient (Peters et al. (2019), Proposition 2), with s_j = p_j^(2 - alpha) on the support and 0 elsewhere, and
m = sum_j s_j g_j / sum_j s_j:

    dz_j = s_j (g_j - m).

Gradient with respect to alpha (Correia et al. (2019), Proposition 1), with q = s / sum s and h_j = -p_j log
p_j:

    dp_j / dalpha = (p_j - q_j) / (alpha - 1)^2 + (h_j - q_j sum_i h_i) / (alpha - 1).
"""

from typing import Any

import torch

from regard.functional.dispatch import (
    accumulation_dtype,
    apply_to_largest,
    check_mask,
    check_scores,
    check_shape,
    mask_scores,
    normalize,
    poison_rows,
    shift_to_zero_max,
    usable_positions,
)
from regard.kernels.backend import apply, in_transform
from regard.types import Bool, Float, Tensor

MAX_ALPHA = 4.0
NUM_LARGEST = 128  # number of largest scores of a row that are transformed first
ALPHA_ERROR = (
    "alpha is {}, but entmax requires alpha in (1, 4]: use softmax for alpha = 1; below 1 no weight would "
    "be 0, so the result would not be sparse"
)


def softmax(
    scores: Float[Tensor, "*B"], dim: int = -1, *, mask: Bool[Tensor, "*#B"] | None = None
) -> Float[Tensor, "*B"]:
    """Compute the softmax of `scores` along `dim`.

    Arguments, result and errors are those of `sparsemax`, but only masked positions get exactly 0; they have
    no gradient.
    """
    check_scores(scores)
    check_mask(mask, scores.shape)
    usable = usable_positions(scores, mask)
    weights = torch.softmax(mask_scores(scores.to(accumulation_dtype(scores.dtype)), usable, dim), dim)
    return weights.masked_fill(~usable, 0).to(scores.dtype)


def reference_sparsemax(
    scores: Float[Tensor, "*B"],
    upper: None = None,
    lower: None = None,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """Compute sparsemax along the last dimension in plain PyTorch, with the gradient above."""
    usable = usable_positions(scores, mask)
    z = shift_to_zero_max(scores.to(accumulation_dtype(scores.dtype)), usable)
    with torch.no_grad():
        # The support never contains a score of max - 1 or below, so clamping is safe.
        ordered = z.masked_fill(~usable, -2).clamp_min(-2).sort(-1, descending=True).values
        ranks = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
        size = (1 + ranks * ordered > ordered.cumsum(-1)).sum(-1, keepdim=True)
        last = ordered.gather(-1, (size - 1).clamp_min(0))
        support = usable & (z >= last)
    # With the support fixed, tau is a plain mean, and autograd gives the gradient above.
    size = support.sum(-1, keepdim=True).clamp_min(1)
    tau = (torch.where(support, z, 0).sum(-1, keepdim=True) - 1) / size
    weights = torch.where(support, z - tau, 0)
    return poison_rows(weights, usable, scores).to(scores.dtype)


def sparsemax(
    scores: Float[Tensor, "*B"], dim: int = -1, *, mask: Bool[Tensor, "*#B"] | None = None
) -> Float[Tensor, "*B"]:
    """Compute the sparsemax of `scores` along `dim`.

    Args:
        scores: Any shape. Half precision is computed in float32 or better and returned in the input's dtype.
            A score of -inf masks its position.
        dim: The dimension that sums to 1.
        mask: Boolean, True = may be attended; broadcasts to `scores`.

    Returns:
        Probabilities in the shape and dtype of `scores`. Positions outside the support and masked positions
        are exactly 0. A row without attendable positions is zero. A row that contains NaN is NaN.

    Raises:
        TypeError: The scores are not floating-point numbers, or the mask is not boolean.
        ValueError: The mask does not broadcast to the scores.
    """
    return normalize("sparsemax", reference_sparsemax, scores, mask=mask, dim=dim)


def reference_entmax15(
    scores: Float[Tensor, "*B"],
    upper: None = None,
    lower: None = None,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """Compute 1.5-entmax along the last dimension in plain PyTorch."""
    usable = usable_positions(scores, mask)
    x = shift_to_zero_max(scores.to(accumulation_dtype(scores.dtype)) / 2, usable)
    with torch.no_grad():
        # The support never contains a score of max - 1 or below (in x), so clamping is safe.
        ordered = x.masked_fill(~usable, -2).clamp_min(-2).sort(-1, descending=True).values
        ranks = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)
        mean = ordered.cumsum(-1) / ranks
        spread = (ordered * ordered).cumsum(-1) - ranks * mean * mean
        tau = mean - ((1 - spread) / ranks).clamp_min(0).sqrt()
        size = (tau <= ordered).sum(-1, keepdim=True)
        # The support is found without gradient; tau is computed once more below, with gradient.
        support = usable & (x > tau.gather(-1, (size - 1).clamp_min(0)))
    size = support.sum(-1, keepdim=True).clamp_min(1)
    mean = torch.where(support, x, 0).sum(-1, keepdim=True) / size
    spread = (torch.where(support, x - mean, 0) ** 2).sum(-1, keepdim=True)
    tau = mean - ((1 - spread).clamp_min(torch.finfo(x.dtype).tiny) / size).sqrt()
    weights = torch.where(support, x - tau, 0) ** 2
    return poison_rows(weights, usable, scores).to(scores.dtype)


def entmax15(
    scores: Float[Tensor, "*B"], dim: int = -1, *, mask: Bool[Tensor, "*#B"] | None = None
) -> Float[Tensor, "*B"]:
    """Compute the 1.5-entmax of `scores` along `dim`, exactly; it lies between softmax and sparsemax.

    Arguments, result and errors are those of `sparsemax`.
    """
    return normalize("entmax15", reference_entmax15, scores, mask=mask, dim=dim)


class _Entmax(torch.autograd.Function):
    """Entmax along the last dimension; c = alpha - 1 broadcasts to [..., 1].

    The backward pass consists of plain PyTorch operations, and is differentiable in turn.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, usable: Tensor, gap: Tensor) -> Tensor:
        z = scores.masked_fill(~usable, -torch.inf)
        z = z - z.amax(-1, keepdim=True).clamp_min(torch.finfo(z.dtype).min)
        size = usable.sum(-1, keepdim=True).clamp_min(1).to(z.dtype)
        low = torch.zeros_like(z[..., :1])
        high = (-torch.expm1(-gap * size.log()) / gap).expand_as(low)

        def at(level: Tensor) -> Tensor:
            return ((gap * (z - level)).clamp_min(-1).log1p() / gap).exp()

        # One iteration per bit of precision, and some more for the initial width of the bracket.
        for _ in range(torch.finfo(z.dtype).bits + 8 if z.dtype == torch.float64 else 40):
            middle = (low + high) / 2
            over = at(middle).sum(-1, keepdim=True) >= 1
            low, high = torch.where(over, middle, low), torch.where(over, high, middle)
        weights = at(low)
        return (weights / weights.sum(-1, keepdim=True)).masked_fill(~usable, 0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, _, gap = inputs
        ctx.save_for_backward(output, gap)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weights, gap = ctx.saved_tensors
        (grad,) = grads
        by_alpha = None
        if ctx.needs_input_grad[2]:
            _, share = _slopes(gap, weights)
            entropy = -weights * torch.where(weights > 0, weights, 1).log()
            derivative = (weights - share) / gap**2
            derivative = derivative + (entropy - share * entropy.sum(-1, keepdim=True)) / gap
            by_alpha = (grad * derivative).sum_to_size(gap.shape)
        return entmax_backward(gap, grad, weights), None, by_alpha


def _slopes(gap: Tensor | float, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return s = p^(2 - alpha) on the support, and s / sum s."""
    support = weights > 0
    slope = torch.where(support, torch.where(support, weights, 1) ** (1 - gap), 0)
    return slope, slope / slope.sum(-1, keepdim=True).clamp_min(torch.finfo(slope.dtype).tiny)


def entmax_backward(gap: Tensor | float, gradient: Tensor, weights: Tensor) -> Tensor:
    """Return the gradient of the scores for alpha - 1, g and p, in differentiable operations."""
    slope, share = _slopes(gap, weights)
    return slope * (gradient - (share * gradient).sum(-1, keepdim=True))


def check_alpha(alpha: float) -> None:
    """Raise `ValueError` unless alpha is in (1, 4]."""
    if not 1 < alpha <= MAX_ALPHA:
        raise ValueError(ALPHA_ERROR.format(alpha))


def _alpha_minus_one(alpha: Tensor | float, scores: Tensor, dim: int) -> Tensor:
    """Return alpha - 1 in the dtype of the computation, with its dimensions aligned to the last one.

    The difference is computed before rounding; otherwise an alpha close to 1 would become 1. Raises
    `ValueError` if alpha is out of range, does not broadcast, or varies along a row.
    """
    dtype = accumulation_dtype(scores.dtype)
    if not isinstance(alpha, torch.Tensor):
        check_alpha(alpha)
        return torch.full((), alpha - 1, dtype=dtype, device=scores.device)
    check_shape("alpha", alpha, scores.shape)
    aligned = alpha.reshape((1,) * (scores.dim() - alpha.dim()) + alpha.shape)
    if aligned.shape[dim] != 1:
        raise ValueError(
            f"alpha has {aligned.shape[dim]} values along dim {dim}, but must have one value per row: "
            f"give it size 1 along dim {dim}"
        )
    aligned = aligned.to(torch.promote_types(alpha.dtype, dtype))
    inside = (aligned > 1) & (aligned <= MAX_ALPHA)
    if alpha.device.type == "cpu" and not in_transform():
        if not bool(inside.all()):
            raise ValueError(ALPHA_ERROR.format(float(aligned[~inside][0].detach())))
    else:
        aligned = aligned.masked_fill(~inside, torch.nan)
    return (aligned - 1).to(scores.device, dtype).movedim(dim, -1)


def entmax(
    scores: Float[Tensor, "*B"],
    alpha: Float[Tensor, "*#B"] | float = 1.5,
    dim: int = -1,
    *,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """Compute the alpha-entmax of `scores` along `dim`.

    Args:
        scores: As for `sparsemax`.
        alpha: A value in (1, 4]; larger values give sparser results. A tensor is differentiable, broadcasts
            to `scores`, and has size 1 along `dim` or no dimensions at all.
        dim: The dimension that sums to 1.
        mask: Boolean, True = may be attended; broadcasts to `scores`.

    Returns:
        Probabilities as for `sparsemax`.

    Raises:
        TypeError: The scores are not floating-point numbers, or the mask is not boolean.
        ValueError: Alpha is not in (1, 4] or varies along `dim`, or an argument does not broadcast to the
            scores. For a tensor on an accelerator, in compiled code and under `torch.func`,
            rows with an alpha out of range become NaN instead.
    """
    check_scores(scores)
    check_mask(mask, scores.shape)
    if not scores.dim():
        return entmax(scores.unsqueeze(0), alpha, dim, mask=mask).squeeze(0)
    gap = _alpha_minus_one(alpha, scores, dim)
    if not isinstance(alpha, torch.Tensor) and alpha in (1.5, 2):
        return (entmax15 if alpha == 1.5 else sparsemax)(scores, dim, mask=mask)
    if not scores.numel():
        return scores.clone()
    usable = usable_positions(scores, mask).movedim(dim, -1)
    z = scores.to(accumulation_dtype(scores.dtype)).movedim(dim, -1)

    def bisect(scores: Tensor, usable: Tensor) -> Tensor:
        return apply(_Entmax, scores.masked_fill(~usable, 0), usable, gap)

    if gap.dim():
        weights = bisect(z, usable)
    else:
        # In a long row, such as the scores of a vocabulary, most scores are below the support.
        masked = z.masked_fill(~usable, -torch.inf)
        weights = apply_to_largest(lambda top: bisect(top, top != -torch.inf), masked, NUM_LARGEST)
    return poison_rows(weights, usable, z).movedim(-1, dim).to(scores.dtype)
