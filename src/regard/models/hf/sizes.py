"""How long a text a part of a model of the library can read, and how much work it is."""

from typing import Any

from torch import nn

from regard.types import Int, Tensor

__all__ = ["multiply_adds", "positions"]

_LIMITS = ("max_position_embeddings", "n_positions")
_TABLES = ("position", "wpe")


def positions(part: Any) -> int | None:
    """The most tokens that an encoder or decoder can read; none: any number.

    Of a table of positions the rows up to the padding's are not counted (RoBERTa). A part without a table
    knows how far words stand from each other, whatever its configuration says.
    """
    limit = next((found for name in _LIMITS if (found := getattr(part.config, name, None))), None)
    for name, module in part.named_modules():
        if isinstance(module, nn.Embedding) and any(sign in name.rpartition(".")[2] for sign in _TABLES):
            skipped = module.padding_idx is not None and name.endswith("position_embeddings")
            return limit if limit is None or not skipped else limit - module.padding_idx - 1
    return None


def multiply_adds(part: Any, lengths: Int[Tensor, "B"], causal: bool) -> int:
    """Multiply-adds of an encoder or decoder over sentences: of its weights, and of attention to the texts.

    Args:
        part: The encoder or decoder; embeddings are looked up and make none.
        lengths: Of the sentences.
        causal: Whether a token attends to those before it alone.
    """
    tables = {id(module.weight) for module in part.modules() if isinstance(module, nn.Embedding)}
    weights = sum(p.numel() for p in part.parameters() if p.dim() > 1 and id(p) not in tables)
    exact = lengths.double()
    layers, width = part.config.num_hidden_layers, part.config.hidden_size
    attended = int((exact**2).sum()) * width * (1 if causal else 2)
    return int(exact.sum()) * weights + layers * attended
