"""The most probable tokens of each row of a large vocabulary.

`torch.topk` on a CPU looks at every token twice and copies it with its index. Here one fast pass takes the
maximum of every block of 64 tokens; the k best tokens lie in the k blocks of the largest maxima, and only
those are looked through. `torch.topk` is the reference that tests compare with.
"""

import torch

from regard.types import Float, Int, Tensor

__all__ = ["best_tokens"]

_BLOCK = 64  # the fastest of 16 to 128 for vocabularies of 6,000 to 32,000 words
_WORTH = 4  # blocks for each token wanted, below which looking at all tokens is as fast


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
    rows, size = log_probs.shape
    blocks = size // _BLOCK
    fast = log_probs.device.type == "cpu" and log_probs.is_contiguous() and blocks >= _WORTH * count
    if not fast:
        return log_probs.topk(min(count, size), dim=1)
    whole = log_probs.as_strided((rows, blocks, _BLOCK), (size, _BLOCK, 1), log_probs.storage_offset())
    chosen = whole.amax(dim=2).topk(count, dim=1).indices
    starts = chosen * _BLOCK + torch.arange(rows).unsqueeze(1) * size  # in the flat tensor
    windows = log_probs.view(-1).unfold(0, _BLOCK, 1)
    found = windows.index_select(0, starts.flatten()).view(rows, -1)
    rest = log_probs[:, blocks * _BLOCK :]
    values, places = torch.cat([found, rest], dim=1).topk(count, dim=1)
    inside = chosen.gather(1, (places // _BLOCK).clamp_max(count - 1)) * _BLOCK + places % _BLOCK
    beyond = places - count * _BLOCK + blocks * _BLOCK
    return values, torch.where(places < count * _BLOCK, inside, beyond)
