"""The most probable tokens of each row of a large vocabulary."""

from regard.kernels.largest import fits, largest
from regard.types import Float, Int, Tensor

__all__ = ["best_tokens"]

MANY = 128
"""The kernel's time grows with the vocabulary times the count; for more than these PyTorch's is faster."""


def best_tokens(
    log_probs: Float[Tensor, "R V"], count: int
) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """The `count` best tokens of each row, best first, or all where the vocabulary is smaller.

    Of equal ones any may come, but always the same for the same row.

    Args:
        log_probs: A number for each token.
        count: How many are wanted.

    Returns:
        Their log-probabilities, and the tokens.
    """
    count = min(count, log_probs.shape[1])
    kernel = count <= MANY and fits(log_probs)
    return largest(log_probs, count) if kernel else log_probs.topk(count, dim=1)
