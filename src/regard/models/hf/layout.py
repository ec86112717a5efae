"""Conversion between our source sentences and the input of a Hugging Face encoder.

Our source sentence consists of its tokens, then sinks, then padding. The encoder's input consists of a
prefix, the tokens, a suffix, then padding. The sinks represent the prefix and the suffix, in this order, so
attention to special symbols stays visible.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from regard.data.batch import PaddedSequences
from regard.data.text import TextSide
from regard.data.tokenizers.pretrained import PretrainedTokenizer
from regard.errors import ConfigError
from regard.types import Float, Int, Tensor

__all__ = ["InputLayout", "pretrained_side"]


def pretrained_side(side: TextSide, name: str) -> PretrainedTokenizer:
    """Return the pre-trained tokenizer of a side.

    Raises:
        ConfigError: if the side has another kind of tokenizer.
    """
    if not isinstance(side.tokenizer, PretrainedTokenizer):
        raise ConfigError(
            f"the model's {name} side needs the tokenizer that it was pre-trained with: set "
            f"data.{name}_tokenizer = {{kind = 'pretrained', path = ...}}"
        )
    return side.tokenizer


class InputLayout(nn.Module):
    """The source format of a Hugging Face model.

    Args:
        token_ids: For each of our ids, the id in transformers.
        prefix: The prefix of every sentence, as ids of transformers.
        suffix: The suffix of every sentence.
    """

    token_ids: Tensor
    special_ids: Tensor

    def __init__(self, token_ids: Sequence[int], prefix: Sequence[int], suffix: Sequence[int]) -> None:
        """Store the ids as buffers that are not saved."""
        super().__init__()
        self.prefix_length, self.num_special = len(prefix), len(prefix) + len(suffix)
        self.register_buffer("token_ids", torch.tensor(token_ids), persistent=False)
        self.register_buffer(
            "special_ids", torch.tensor([*prefix, *suffix], dtype=torch.long), persistent=False
        )

    @classmethod
    def of(cls, tokenizer: PretrainedTokenizer) -> "InputLayout":
        """Return the layout of a source tokenizer."""
        return cls(tokenizer.library_ids, tokenizer.prefix_ids, tokenizer.suffix_ids)

    def ids(self, source: PaddedSequences) -> Int[Tensor, "B S"]:
        """Return the encoder's input ids, in the encoder's order."""
        found = self.token_ids[source.tokens]
        if self.num_special:
            positions = torch.arange(source.tokens.shape[1], device=found.device)
            # Number of the sink at each position, negative before the first one.
            sink = positions - (source.lengths - self.num_special).unsqueeze(1)  # (B, S)
            # Sinks follow the tokens directly; padding follows the sinks.
            special = (sink >= 0) & (sink < self.num_special)
            found = torch.where(special, self.special_ids[sink.clamp(0, self.num_special - 1)], found)
        return found.gather(1, self._to_encoder_order(source)) if self.prefix_length else found

    def _to_encoder_order(self, source: PaddedSequences) -> Int[Tensor, "B S"]:
        """Return our position for each position of the encoder's order."""
        positions = torch.arange(source.tokens.shape[1], device=source.tokens.device).expand_as(source.tokens)
        words = (source.lengths - self.num_special).unsqueeze(1)
        # The prefix comes from the first sinks, the tokens move right by its length.
        moved = torch.where(positions < self.prefix_length, words + positions, positions - self.prefix_length)
        return torch.where(positions < self.prefix_length + words, moved, positions)

    def _from_encoder_order(self, source: PaddedSequences) -> Int[Tensor, "B S"]:
        """Return the encoder's position for each position of our order."""
        positions = torch.arange(source.tokens.shape[1], device=source.tokens.device).expand_as(source.tokens)
        words = (source.lengths - self.num_special).unsqueeze(1)
        # In the encoder's order, tokens follow the prefix; the first sinks represent the prefix.
        moved = torch.where(positions < words, positions + self.prefix_length, positions - words)
        return torch.where(positions < self.prefix_length + words, moved, positions)

    def encode(self, encoder: Callable[..., Any], source: PaddedSequences) -> Float[Tensor, "B S D"]:
        """Encode sentences, and return the states in our order."""
        output = encoder(input_ids=self.ids(source), attention_mask=source.mask.long())
        states = output.last_hidden_state
        if not self.prefix_length:
            return states
        return states.gather(1, self._from_encoder_order(source).unsqueeze(-1).expand_as(states))

    def reorder_attention(
        self, source: PaddedSequences, weights: Float[Tensor, "B H S S"]
    ) -> Float[Tensor, "B H S S"]:
        """Return an encoder's self-attention in our order; zero in the rows of padding."""
        real = source.mask[:, None, :, None]
        if self.prefix_length:
            order = self._from_encoder_order(source)[:, None]
            weights = weights.gather(2, order.unsqueeze(-1).expand_as(weights))
            weights = weights.gather(3, order.unsqueeze(-2).expand_as(weights))
        return weights.masked_fill(~real, 0.0)
