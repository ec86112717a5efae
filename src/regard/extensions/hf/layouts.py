"""The formats of sentences: between our tokens and sinks, and the inputs and outputs of Hugging Face models.

Our source sentence consists of its tokens, then sinks, then padding. The sinks represent the other tokens, so
that attention to them stays visible:

- The input of an encoder consists of a prefix, the tokens, a suffix, then padding. The sinks represent the
  prefix and the suffix, in this order (`InputLayout`).
- The prompt of a decoder-only model consists of the template before the source, the source, and the template
  after it. The first sink receives the attention to all tokens of the template, the second one that to the
  generated tokens (`PromptLayout`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from regard.data.batch import PaddedSequences
from regard.extensions.hf.attention_session import AttentionSession, use_session
from regard.extensions.hf.language_model import score_logits
from regard.extensions.hf.tokenizer import PretrainedTokenizer
from regard.layers.batched_state import BatchedState
from regard.text.vocabulary import BOS, EOS, PAD, SINK, UNK
from regard.types import Bool, Float, Int, Tensor

NUM_SINKS = 2
"""Number of sinks of the source of a decoder-only model."""


@contextmanager
def scaled_embeddings(
    embedding: nn.Module, ids: Int[Tensor, "B T"], factors: Float[Tensor, "B T"] | None
) -> Iterator[None]:
    """Return a context in which an embedding scales its output by the factors of its input, or by 1."""
    if factors is None:
        yield
        return

    def scaled(_: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> Tensor:
        # XLNet looks up the transposed ids.
        return output * (factors if torch.equal(given[0], ids) else factors.T).unsqueeze(-1)

    # A hook instead of `inputs_embeds`, which some encoders take before and others after their own scale.
    handle = embedding.register_forward_hook(scaled)
    try:
        yield
    finally:
        handle.remove()


@dataclass(frozen=True)
class KeysValues(BatchedState):
    """The keys and values of a layer at consecutive positions; G groups of heads share them."""

    keys: Float[Tensor, "B G T E"]
    values: Float[Tensor, "B G T F"]


class TargetVocabulary(nn.Module):
    """Our target vocabulary of size V, and the output layer of a model of transformers with W tokens.

    Args:
        tokenizer: The target tokenizer.
        start: The library's id of our start symbol.
        end_ids: The library's ids that end a translation. The end has the highest probability among them.

    Attributes:
        token_ids: [V], the library's id of each of our tokens.
        generatable: [V], True at our tokens that the model can generate, the end symbol apart.
    """

    token_ids: Tensor
    generatable: Tensor
    end_ids: Tensor

    def __init__(self, tokenizer: PretrainedTokenizer, start: int, end_ids: Sequence[int]) -> None:
        """Store the ids as buffers that are not saved."""
        super().__init__()
        ids = tokenizer.library_ids
        token_ids, ends = torch.tensor(ids), torch.tensor(sorted(set(end_ids)))
        token_ids[BOS] = start
        # Another end symbol ends a translation, so it is never a token of one.
        generatable = ~torch.isin(token_ids, ends)
        generatable[[PAD, BOS, SINK]] = False
        # Some tokenizers have no unknown symbol and map it to another special one.
        generatable[UNK] &= ids[UNK] not in (ids[EOS], ids[PAD])
        self.register_buffer("token_ids", token_ids, persistent=False)
        self.register_buffer("generatable", generatable, persistent=False)
        self.register_buffer("end_ids", ends, persistent=False)

    def log_probs(self, logits: Float[Tensor, "B W"]) -> Float[Tensor, "B V"]:
        """Return the log-probabilities of our tokens."""
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        ours = log_probs[:, self.token_ids].masked_fill(~self.generatable, -torch.inf)
        ours[:, EOS] = log_probs[:, self.end_ids].amax(dim=1)
        return ours

    def score(
        self, logits: Float[Tensor, "B T W"], target: PaddedSequences, mean_log_probs: bool
    ) -> tuple[Float[Tensor, "B T 1"], Float[Tensor, "B T 1"] | None]:
        """Return the log-likelihoods of target tokens; see `score_logits`."""
        real, tokens = logits[target.mask].float(), target.tokens[target.mask]  # (N, W), (N,)
        ends = self.end_ids[real.detach()[:, self.end_ids].argmax(dim=1)]
        ids = torch.where(tokens == EOS, ends, self.token_ids[tokens])
        return score_logits(real, ids, target.mask, mean_log_probs)


class InputLayout(nn.Module):
    """The source format of a Hugging Face model."""

    token_ids: Tensor
    special_ids: Tensor

    def __init__(self, tokenizer: PretrainedTokenizer) -> None:
        """Store the ids of transformers as buffers that are not saved."""
        super().__init__()
        special = (*tokenizer.prefix_ids, *tokenizer.suffix_ids)
        self.prefix_length, self.num_special = len(tokenizer.prefix_ids), len(special)
        self.register_buffer("token_ids", torch.tensor(tokenizer.library_ids), persistent=False)
        self.register_buffer("special_ids", torch.tensor(special, dtype=torch.long), persistent=False)

    def ids(self, source: PaddedSequences) -> Int[Tensor, "B S"]:
        """Return the encoder's input ids, in the encoder's order."""
        input_ids = self.token_ids[source.tokens]
        if self.num_special:
            positions = torch.arange(source.tokens.shape[1], device=input_ids.device)
            # Number of the sink at each position, negative before the first one.
            sink = positions - (source.lengths - self.num_special).unsqueeze(1)  # (B, S)
            # Sinks follow the tokens directly; padding follows the sinks.
            special = (sink >= 0) & (sink < self.num_special)
            input_ids = torch.where(special, self.special_ids[sink.clamp(0, self.num_special - 1)], input_ids)
        return input_ids.gather(1, self.from_encoder_order(source).argsort(1))

    def from_encoder_order(self, source: PaddedSequences) -> Int[Tensor, "B S"]:
        """Return the encoder's position for each position of our order."""
        positions = torch.arange(source.tokens.shape[1], device=source.tokens.device).expand_as(source.tokens)
        words = (source.lengths - self.num_special).unsqueeze(1)
        # In the encoder's order, tokens follow the prefix; the first sinks represent the prefix.
        moved = torch.where(positions < words, positions + self.prefix_length, positions - words)
        return torch.where(positions < self.prefix_length + words, moved, positions)

    def encode(
        self, encoder: Any, source: PaddedSequences, output_attentions: bool = False
    ) -> tuple[Float[Tensor, "B S D"], list[Float[Tensor, "B H S S"]]]:
        """Encode sentences by an encoder of transformers.

        Returns:
            The states, and the self-attention of all layers if requested, in our order; zero in the rows of
            padding.
        """
        ids, factors, order = self.ids(source), source.embedding_scale, self.from_encoder_order(source)
        if factors is not None:
            factors = factors.gather(1, order.argsort(1))
        session = AttentionSession(
            [], source.mask, output_attentions="all" if output_attentions else "nothing"
        )
        with use_session(session), scaled_embeddings(encoder.get_input_embeddings(), ids, factors):
            states = encoder(input_ids=ids, attention_mask=source.mask.long()).last_hidden_state
        attentions: list[Tensor] = []
        for weights in session.self_attentions:
            rows = weights.gather(2, order[:, None, :, None].expand_as(weights))
            reordered = rows.gather(3, order[:, None, None].expand_as(weights))
            attentions.append(reordered.masked_fill(~source.mask[:, None, :, None], 0.0))
        return states.gather(1, order.unsqueeze(-1).expand_as(states)), attentions


@dataclass(frozen=True)
class PromptLayout:
    """The tokens around the source, and the place of the source in a prompt.

    The lengths of source sentences include their sinks. S is their padded length, and P that of the prompts.

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

    def _offsets(self, lengths: Int[Tensor, "B"], width: int) -> Int[Tensor, "B P"]:
        """Return the position of each column of the prompts relative to the first source token, given S."""
        columns = torch.arange(width - NUM_SINKS + self.num_tokens, device=lengths.device)
        return columns - (width - lengths).unsqueeze(1) - len(self.before)

    def prompts(
        self, source: PaddedSequences, token_ids: Int[Tensor, "V"]
    ) -> tuple[Int[Tensor, "B P"], Bool[Tensor, "B P"]]:
        """Return the library's ids of prompts, padded on the left, and a mask that is True at tokens."""
        start, width = len(self.before), source.tokens.shape[1]
        offsets = self._offsets(source.lengths, width)
        behind = offsets - (source.lengths - NUM_SINKS).unsqueeze(1)
        pad = int(token_ids[PAD])
        template = torch.tensor([*self.before, *self.after, pad], dtype=torch.long, device=offsets.device)
        template_at = (torch.where(offsets < 0, offsets, behind) + start).clamp(0, self.num_tokens)
        words = token_ids[source.tokens].gather(1, offsets.clamp(0, width - 1))
        ids = torch.where((offsets >= 0) & (behind < 0), words, template[template_at])
        mask = offsets >= -start
        return ids.masked_fill(~mask, pad), mask

    def prompt_scales(self, source: PaddedSequences, length: int) -> Float[Tensor, "B T"] | None:
        """Return the factors of the T embeddings of prompts and targets, 1 outside the source, or None."""
        scale = source.embedding_scale
        if scale is None:
            return None
        offsets = self._offsets(source.lengths, scale.shape[1])
        factors = scale.gather(1, offsets.clamp(0, scale.shape[1] - 1))
        in_source = (offsets >= 0) & (offsets < (source.lengths - NUM_SINKS).unsqueeze(1))
        factors = torch.where(in_source, factors, 1.0)
        return F.pad(factors, (0, length - factors.shape[1]), value=1.0)

    def source_attention(
        self,
        weights: Float[Tensor, "B H T K"],
        lengths: Int[Tensor, "B"],
        width: int,
    ) -> Float[Tensor, "B T H S"]:
        """Return the attention to the source tokens and to the sinks.

        Args:
            weights: The attention of each query to the K keys: the padded prompt, then generated tokens.
            lengths: The lengths of the source sentences.
            width: S.
        """
        positions = torch.arange(width, device=weights.device)
        words = (lengths - NUM_SINKS).view(-1, 1)
        is_word = positions < words  # (B, S)
        prompt_width = width - NUM_SINKS + self.num_tokens
        columns = width - NUM_SINKS - words + len(self.before) + positions
        columns = columns.clamp(0, prompt_width - 1)[:, None, None].expand(-1, *weights.shape[1:3], -1)
        to_words = weights.gather(3, columns).masked_fill(~is_word[:, None, None], 0.0)  # (B, H, T, S)
        prompt, generated = (
            part.sum(dim=-1, keepdim=True)
            for part in (weights[..., :prompt_width], weights[..., prompt_width:])
        )
        template = (prompt - to_words.sum(dim=-1, keepdim=True)).clamp_min(0.0)
        first, second = ((positions == words + i)[:, None, None] for i in range(NUM_SINKS))
        return (to_words + template * first + generated * second).transpose(1, 2)
