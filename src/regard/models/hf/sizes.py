"""The maximum length and the computational cost of an encoder or decoder of transformers."""

from typing import Any

from torch import nn

from regard.types import Int, Tensor

__all__ = ["count_multiply_adds", "max_positions"]

_LIMITS = ("max_position_embeddings", "n_positions")
_TABLES = ("position", "wpe")


def max_positions(part: Any) -> int | None:
    """Return the maximum number of tokens of an encoder or decoder, or None if there is no maximum.

    In RoBERTa, the rows of the position table up to that of padding do not count. A model without a table has
    relative positions and no maximum, even if its configuration states one.
    """
    limit = next((found for name in _LIMITS if (found := getattr(part.config, name, None))), None)
    for name, module in part.named_modules():
        if isinstance(module, nn.Embedding) and any(sign in name.rpartition(".")[2] for sign in _TABLES):
            skipped = module.padding_idx is not None and name.endswith("position_embeddings")
            return limit if limit is None or not skipped else limit - module.padding_idx - 1
    return None


def count_multiply_adds(part: Any, lengths: Int[Tensor, "B"], causal: bool) -> int:
    """Return the multiply-adds of an encoder or decoder: those with weights, and those of self-attention.

    Args:
        part: The encoder or decoder. Embedding lookups are not counted.
        lengths: The lengths of the sentences.
        causal: Whether self-attention is causal.
    """
    tables = {id(module.weight) for module in part.modules() if isinstance(module, nn.Embedding)}
    weights = sum(p.numel() for p in part.parameters() if p.dim() > 1 and id(p) not in tables)
    exact = lengths.double()
    layers, width = part.config.num_hidden_layers, part.config.hidden_size
    # Two products (scores and weighted sum); causal attention needs half of each.
    attended = int((exact**2).sum()) * width * (1 if causal else 2)
    return int(exact.sum()) * weights + layers * attended
