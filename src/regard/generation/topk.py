"""Top-k selection of tokens over a large vocabulary."""

from regard.kernels.logits import supports_topk, topk
from regard.types import Float, Int, Tensor

__all__ = ["top_k_tokens"]

MAX_KERNEL_K = 128
"""Largest `count` for the custom kernel. Its time grows with vocabulary size times `count`; `torch.topk` is
faster for larger counts.
"""


def top_k_tokens(
    log_probs: Float[Tensor, "R V"], count: int
) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """Return the `count` top-scoring tokens of each row, best first; all if the vocabulary is smaller.

    The order of equal scores is not defined, but it is the same for equal rows.

    Args:
        log_probs: Score of each token.
        count: Number of tokens per row.

    Returns:
        Log-probabilities and token ids.
    """
    count = min(count, log_probs.shape[1])
    kernel = count <= MAX_KERNEL_K and supports_topk(log_probs)
    return topk(log_probs, count) if kernel else log_probs.topk(count, dim=1)
