"""Operations on rows of logits on a CPU: exponentials, log-softmax, the gradient of the NLL, and top-k.

Each is one pass over memory. `supports_softmax` and `supports_topk` report whether the kernels can be used.
Otherwise the caller uses the PyTorch operations that the docstrings name; see `regard.functional.likelihood`.
"""

import torch

from regard.kernels.backend import backend_module, use_numba
from regard.types import Float, Int, Tensor

__all__ = ["exp_logits", "log_softmax", "nll_gradient", "supports_softmax", "supports_topk", "topk"]


def supports_softmax(logits: Tensor) -> bool:
    """Return whether the kernels support these logits on this machine."""
    return use_numba(logits) and logits.dtype in (torch.float32, torch.bfloat16) and logits.is_contiguous()


def exp_logits(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Replace the logits of each row, in place, by exp(logit - max).

    Args:
        logits: [N, V], float32 or bfloat16, contiguous.

    Returns:
        For each row the maximum of the logits, their mean, and the sum of the exponentials: [N], float32.
    """
    return backend_module("numba", "logits").exp_logits(logits)


def nll_gradient(
    exp_values: Tensor, factors: Tensor, shifts: Tensor | None, gains: Tensor, targets: Tensor
) -> None:
    """Replace each row, in place, by factor * exp_values + shift + gain * onehot(target).

    With suitable coefficients this is the gradient of a (label-smoothed) negative log-likelihood.

    Args:
        exp_values: The exponentials, [N, V], float32 or bfloat16, contiguous.
        factors: Factor of each row, [N].
        shifts: Term added to all elements of a row, [N]. Default: 0.
        gains: Term added at the target, [N].
        targets: Index of the target, [N], in [0, V).
    """
    backend_module("numba", "logits").nll_gradient(exp_values, factors, shifts, gains, targets)


def log_softmax(logits: Tensor, bias: Tensor) -> Tensor:
    """Compute the log-softmax of logits + bias.

    Args:
        logits: [N, V], float32 or bfloat16, contiguous. float32 logits are overwritten with the result.
        bias: [V].

    Returns:
        The log-probabilities, [N, V], float32.
    """
    return backend_module("numba", "logits").log_softmax(logits, bias)


def supports_topk(values: Tensor) -> bool:
    """Return whether the kernel supports these values; they must not require gradients."""
    # The kernel bypasses autograd, so a recorded operation would lose its gradient.
    recorded = torch.is_grad_enabled() and values.requires_grad
    return use_numba(values) and values.dtype == torch.float32 and values.is_contiguous() and not recorded


def topk(values: Float[Tensor, "N V"], k: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
    """Return the k largest values of each row and their positions, in descending order.

    Unlike `torch.topk`, ties are resolved in favor of lower positions. NaN counts as larger than any number.

    Args:
        values: Values that satisfy `supports_topk`.
        k: k, at most V.
    """
    return backend_module("numba", "logits").topk(values, k)
