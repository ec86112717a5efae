"""How our sentences become those that a model of the library reads, and what it made of them ours again.

Our source sentence is its tokens, then sinks, then padding. The library's is what comes before every line,
the tokens, what comes after, then padding: the sinks stand for both. All of it is attended to.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from regard.data.batch import Sequences
from regard.data.text import Side
from regard.data.tokenizers.pretrained import PretrainedTokenizer
from regard.errors import ConfigError
from regard.types import Float, Int, Tensor

__all__ = ["Layout", "pretrained_side"]


def pretrained_side(side: Side, name: str) -> PretrainedTokenizer:
    """The tokenizer of a side whose model needs a pre-trained one.

    Raises:
        ConfigError: if it is another.
    """
    if not isinstance(side.tokenizer, PretrainedTokenizer):
        raise ConfigError(
            f"the model's {name} side was pre-trained with a tokenizer of its own: set "
            f"data.{name}_tokenizer = {{kind = 'pretrained', folder = ...}}"
        )
    return side.tokenizer


class Layout(nn.Module):
    """The source side of a model of the library.

    Args:
        places: For each of our ids the library's.
        before: The library's ids that stand before every line.
        after: Those that stand after it.
    """

    places: Tensor
    around: Tensor

    def __init__(self, places: Sequence[int], before: Sequence[int], after: Sequence[int]) -> None:
        """Keep the numbers: they are none of the weights."""
        super().__init__()
        self.before, self.count = len(before), len(before) + len(after)
        self.register_buffer("places", torch.tensor(places), persistent=False)
        self.register_buffer("around", torch.tensor([*before, *after], dtype=torch.long), persistent=False)

    @classmethod
    def of(cls, tokenizer: PretrainedTokenizer) -> "Layout":
        """That of a source tokenizer."""
        return cls(tokenizer.places, tokenizer.before, tokenizer.after)

    def ids(self, source: Sequences) -> Int[Tensor, "B S"]:
        """The library's ids, in the library's order."""
        found = self.places[source.tokens]
        if self.count:
            where = torch.arange(source.tokens.shape[1], device=found.device)
            sink = where - (source.lengths - self.count).unsqueeze(1)  # which sink a place is: (B, S)
            special = (sink >= 0) & (sink < self.count)
            found = torch.where(special, self.around[sink.clamp(0, self.count - 1)], found)
        return found.gather(1, self._theirs(source)) if self.before else found

    def _theirs(self, source: Sequences) -> Int[Tensor, "B S"]:
        """For each place of the library's order ours."""
        place = torch.arange(source.tokens.shape[1], device=source.tokens.device).expand_as(source.tokens)
        words = (source.lengths - self.count).unsqueeze(1)
        moved = torch.where(place < self.before, words + place, place - self.before)
        return torch.where(place < self.before + words, moved, place)

    def _ours(self, source: Sequences) -> Int[Tensor, "B S"]:
        """For each place of our order the library's."""
        place = torch.arange(source.tokens.shape[1], device=source.tokens.device).expand_as(source.tokens)
        words = (source.lengths - self.count).unsqueeze(1)
        moved = torch.where(place < words, place + self.before, place - words)
        return torch.where(place < self.before + words, moved, place)

    def states(self, encoder: Callable[..., Any], source: Sequences) -> Float[Tensor, "B S D"]:
        """What an encoder of the library makes of sentences, in our order."""
        made = encoder(input_ids=self.ids(source), attention_mask=source.mask.long())
        states = made.last_hidden_state
        if not self.before:
            return states
        return states.gather(1, self._ours(source).unsqueeze(-1).expand_as(states))

    def maps(self, source: Sequences, weights: Float[Tensor, "B H S S"]) -> Float[Tensor, "B H S S"]:
        """An encoder's attention in our order, padding attending to nothing."""
        real = source.mask[:, None, :, None]
        if self.before:
            order = self._ours(source)[:, None]
            weights = weights.gather(2, order.unsqueeze(-1).expand_as(weights))
            weights = weights.gather(3, order.unsqueeze(-2).expand_as(weights))
        return weights.masked_fill(~real, 0.0)
