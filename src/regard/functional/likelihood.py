"""The log-likelihood of target tokens under a linear output layer, with bounded memory for logits.

For hidden states x, weights W and biases b: log p(y) = (x W^T + b)_y - logsumexp_v (x W^T + b)_v. The input
contains real tokens only (no padding). On a CPU, rows are processed in chunks that stay in the cache between
the passes. Up to `MAX_LOGITS` logits, the exponentials are kept for the backward pass; above, or on request,
they are computed again in it:

    d logits = g_y (onehot(y) - p) + g_m (1/V - p),

where g_y is the gradient of log p(y) and g_m that of the mean log-probability (label smoothing, Szegedy et
al., 2016).
"""

from typing import Any

import torch

from regard.functional.dispatch import accumulation_dtype
from regard.kernels.backend import apply, first_order
from regard.kernels.matmul import linear, matmul
from regard.types import Float, Int, Tensor

MAX_LOGITS = 1 << 24  # maximum number of logits in memory: 64 MiB in float32
CHUNK_BYTES = 1 << 24  # bytes of logits per chunk on a CPU
# Minimum number of rows per chunk, if the budget allows; smaller multiplications are inefficient.
MIN_CHUNK_ROWS = 256


def _exponentials(logits: Tensor, average: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return each row's maximum, mean (if requested) and sum of exp(logits - maximum), and the exponentials.

    The exponentials have the dtype of the logits and may overwrite them.
    """
    exact = logits.to(accumulation_dtype(logits.dtype))
    top = exact.amax(-1, keepdim=True)
    mean = exact.mean(-1) if average else torch.zeros_like(top).squeeze(1)
    powers = exact.sub_(top).exp_()
    return top.squeeze(1), mean, powers.sum(-1), powers.to(logits.dtype)


def _chunk_log_likelihood(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, average: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute log p(target), mean log p, exp(logits - maximum) and its row sums, for one chunk."""
    logits = matmul(hidden, weight.t(), bias)
    picked = logits.gather(1, targets.unsqueeze(1)).squeeze(1)  # before the logits are overwritten
    top, mean, sums, powers = _exponentials(logits, average)
    normalizer = sums.log() + top
    return picked.to(normalizer.dtype) - normalizer, mean - normalizer, powers, sums


class _LinearLogLikelihood(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        average: bool,
        max_logits: int,
        keep_exponentials: bool,
    ) -> tuple[Tensor, Tensor]:
        allowed = max(1, max_logits // weight.shape[0])
        held = keep_exponentials and hidden.shape[0] <= allowed
        fitting = max(MIN_CHUNK_ROWS, CHUNK_BYTES // (weight.shape[0] * hidden.element_size()))
        rows = min(allowed, fitting) if hidden.is_cpu else allowed
        picked: list[Tensor] = []
        means: list[Tensor] = []
        exponentials: list[tuple[Tensor, Tensor]] = []
        for start in range(0, max(1, hidden.shape[0]), rows):
            part = slice(start, start + rows)
            log_p, mean, powers, sums = _chunk_log_likelihood(
                hidden[part], weight, bias, targets[part], average
            )
            picked.append(log_p)
            means.append(mean)
            if held:
                exponentials.append((powers, sums))
        ctx.rows, ctx.average = rows, average
        # Not a saved tensor, because the backward pass overwrites it; a second backward computes it again.
        ctx.exponentials = exponentials
        ctx.save_for_backward(hidden, weight, bias, targets)
        return torch.cat(picked), torch.cat(means)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, targets = ctx.saved_tensors
        exponentials, ctx.exponentials = ctx.exponentials, []
        grad_picked, grad_mean = grads
        hidden_grad = torch.empty_like(hidden)
        weight_grad: Tensor | None = None
        bias_grad: Tensor | None = None
        for start in range(0, max(1, hidden.shape[0]), ctx.rows):
            part = slice(start, start + ctx.rows)
            x, y = hidden[part], targets[part]
            if exponentials:
                powers, sums = exponentials[start // ctx.rows]
            else:
                _, _, powers, sums = _chunk_log_likelihood(x, weight, bias, y, False)
            g = grad_picked[part]
            total = g + grad_mean[part] if ctx.average else g
            powers = powers.mul_((-total / sums).unsqueeze(1).to(powers.dtype))
            if ctx.average:
                powers = powers.add_((grad_mean[part] / weight.shape[0]).unsqueeze(1).to(powers.dtype))
            powers = powers.scatter_add_(1, y.unsqueeze(1), g.unsqueeze(1).to(powers.dtype))
            delta = powers.to(x.dtype)  # under autocast the logits may have another dtype
            hidden_grad[part] = matmul(delta, weight)
            weight_part, bias_part = matmul(delta.t(), x), delta.sum(0)
            weight_grad = weight_part if weight_grad is None else weight_grad.add_(weight_part)
            bias_grad = bias_part if bias_grad is None else bias_grad.add_(bias_part)
        return hidden_grad, weight_grad, bias_grad, None, None, None, None


def linear_log_likelihood(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, "V"],
    targets: Int[Tensor, "N"],
    *,
    return_mean: bool = False,
    max_logits: int = MAX_LOGITS,
    keep_exponentials: bool = True,
) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
    """Compute log p(target) of each token, in nats.

    Args:
        hidden: Input of the output layer, one row per token.
        weight: Weights of the output layer, in the dtype of `hidden`.
        bias: Biases of the output layer, in the dtype of `hidden`.
        targets: Token ids in [0, V).
        return_mean: Whether to compute the second result.
        max_logits: Maximum number of logits in memory at a time.
        keep_exponentials: Whether to keep up to `max_logits` exponentials for the backward pass; otherwise
            they are computed again in it.

    Returns:
        log p(target), and the mean of log p(v) over the vocabulary if `return_mean` is True (otherwise
        without meaning); in float32 or better.
    """
    differentiated = torch.is_grad_enabled() and any(x.requires_grad for x in (hidden, weight, bias))
    settings = return_mean, max_logits, keep_exponentials and differentiated
    return apply(_LinearLogLikelihood, hidden, weight, bias, targets.long(), *settings)


def linear_log_softmax(
    hidden: Float[Tensor, "*B D"], weight: Float[Tensor, "V D"], bias: Float[Tensor, "V"]
) -> Float[Tensor, "*B V"]:
    """Compute the log-probability of every token of the vocabulary, in float32 or better.

    Args:
        hidden: x, in the dtype of the weights.
        weight: W.
        bias: b.
    """
    logits = linear(hidden, weight.t(), bias)
    exact = logits.to(accumulation_dtype(logits.dtype))
    # Without gradients, the result may overwrite the logits.
    return torch.log_softmax(exact, dim=-1, out=None if torch.is_grad_enabled() else exact)


def linear_exponentials(
    hidden: Float[Tensor, "*B D"], weight: Float[Tensor, "V D"], bias: Float[Tensor, "V"] | None = None
) -> tuple[Float[Tensor, "*B V"], Float[Tensor, "*B"]]:
    """Compute exp(logit - maximum of the row) and the row sums, in float32 or better; their quotient is p.

    Args:
        hidden: x, in the dtype of the weights.
        weight: W.
        bias: b. None means 0.

    Returns:
        [..., V] and [...].
    """
    logits = linear(hidden, weight.t(), bias)
    exact = logits.to(accumulation_dtype(logits.dtype))
    if torch.is_grad_enabled():
        powers = (exact - exact.amax(-1, keepdim=True)).exp()
        return powers, powers.sum(-1)
    # Without gradients, the exponentials may overwrite the logits.
    _, _, sums, powers = _exponentials(exact.view(-1, exact.shape[-1]), False)
    return powers.view(exact.shape), sums.view(exact.shape[:-1])
