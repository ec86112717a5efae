"""The prompts of a batch, and attention to them in the order of our source tokens.

Our source sentence consists of its tokens, two sinks, then padding. The prompt of the model consists of the
template before the source, the source, and the template after it; prompts of a batch are padded on the left,
so that the generated tokens of all rows follow at the same positions. The first sink receives the attention
to all tokens of the template, the second one that to the generated tokens.
"""

from dataclasses import dataclass

import torch

from regard.data.batch import PaddedSequences
from regard.types import Bool, Float, Int, Tensor

__all__ = ["PromptLayout", "Prompts"]

NUM_SINKS = 2


@dataclass(frozen=True)
class Prompts:
    """The padded prompts of a batch.

    Attributes:
        ids: [B, P], ids of the library, padded on the left.
        mask: [B, P], True at tokens.
    """

    ids: Int[Tensor, "B P"]
    mask: Bool[Tensor, "B P"]


@dataclass(frozen=True)
class PromptLayout:
    """The tokens around the source, and the place of the source in a prompt.

    Attributes:
        before: The library's ids before the source.
        after: The library's ids after the source.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def num_tokens(self) -> int:
        """The number of tokens of the template."""
        return len(self.before) + len(self.after)

    def width(self, source_width: int) -> int:
        """Return P, the padded length of the prompts, for a padded length S of the source."""
        return source_width - NUM_SINKS + self.num_tokens

    def prompts(self, source: PaddedSequences, token_ids: Int[Tensor, "V"], pad: int) -> Prompts:
        """Return the prompts of a batch.

        Args:
            source: The source sentences, in our ids, with their sinks.
            token_ids: For each of our ids, the id of the library.
            pad: The library's id at padding.
        """
        device, start, width = source.tokens.device, len(self.before), source.tokens.shape[1]
        words = (source.lengths - NUM_SINKS).unsqueeze(1)  # (B, 1)
        # Place of each column within its prompt, negative at padding.
        place = torch.arange(self.width(width), device=device) - (width - NUM_SINKS - words)  # (B, P)
        template = torch.tensor([*self.before, *self.after, pad], dtype=torch.long, device=device)
        behind = place - words
        at = torch.where(place < start, place, behind).clamp(0, self.num_tokens)
        words_at = token_ids[source.tokens].gather(1, (place - start).clamp(0, width - 1))
        ids = torch.where((place >= start) & (behind < start), words_at, template[at])
        mask = place >= 0
        return Prompts(ids.masked_fill(~mask, pad), mask)

    def prompt_scales(self, source: PaddedSequences, scale: Float[Tensor, "B S"]) -> Float[Tensor, "B P"]:
        """Return the factor of each embedding of the prompts, 1 outside the source.

        Args:
            source: The source sentences, with their sinks.
            scale: The factors of the source tokens, without an effect at the sinks.
        """
        width = source.tokens.shape[1]
        words = (source.lengths - NUM_SINKS).unsqueeze(1)
        columns = torch.arange(self.width(width), device=scale.device)
        place = columns - (width - NUM_SINKS - words) - len(self.before)  # (B, P), within the source
        factors = scale.gather(1, place.clamp(0, width - 1))
        return torch.where((place >= 0) & (place < words), factors, 1.0)

    def source_attention(
        self,
        weights: Float[Tensor, "B H T K"],
        lengths: Int[Tensor, "B"],
        width: int,
    ) -> Float[Tensor, "B T H S"]:
        """Return the attention to the source tokens and to the sinks.

        Args:
            weights: The attention of each query to the K keys: the padded prompt, then generated tokens.
            lengths: The lengths of the source sentences, with their sinks.
            width: S, the padded length of the source.
        """
        positions = torch.arange(width, device=weights.device)
        words = (lengths - NUM_SINKS).view(-1, 1)
        is_word = positions < words  # (B, S)
        columns = width - NUM_SINKS - words + len(self.before) + positions
        columns = columns.clamp(0, self.width(width) - 1)[:, None, None].expand(-1, *weights.shape[1:3], -1)
        to_words = weights.gather(3, columns).masked_fill(~is_word[:, None, None], 0.0)  # (B, H, T, S)
        prompt, generated = (
            part.sum(dim=-1, keepdim=True)
            for part in (weights[..., : self.width(width)], weights[..., self.width(width) :])
        )
        template = (prompt - to_words.sum(dim=-1, keepdim=True)).clamp_min(0.0)
        first, second = ((positions == words + i)[:, None, None] for i in range(NUM_SINKS))
        return (to_words + template * first + generated * second).transpose(1, 2)
