"""The layers that connect Hugging Face models to ours: attention, the source format, and an encoder.

Models of transformers call an attention function, selected by name, with the queries, keys and values of all
heads. Ours passes those of a decoder's cross-attention to the mechanism of that layer (`Attention`). All
other attention uses PyTorch's fused kernel, or computes the weights explicitly if they were requested. An
`AttentionSession`, one per call of the model, holds the mechanisms and their states.

Our source sentence consists of its tokens, then sinks, then padding. The encoder's input consists of a
prefix, the tokens, a suffix, then padding. The sinks represent the prefix and the suffix, in this order, so
attention to special symbols stays visible (`InputLayout`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from regard.attention.base import AttentionStep, Memory, State
from regard.attention.multihead import MultiHeadAttention
from regard.data.batch import PaddedSequences
from regard.extensions.hf.files import import_transformers, quiet_transformers
from regard.extensions.hf.loading import max_positions
from regard.extensions.hf.recording import (
    WeightRecorder,
    attention_weights,
    needs_explicit_attention,
    repeat_groups,
)
from regard.extensions.hf.tokenizer import PretrainedTokenizer
from regard.kernels.attention import fused_backends
from regard.layers.linear import Linear
from regard.models.base import OutputAttentions
from regard.models.transformer.model import SourceEncoder
from regard.types import Bool, Float, Int, Tensor

__all__ = [
    "ATTENTION_NAME",
    "LAYER_ATTRIBUTE",
    "AttentionSession",
    "CrossAttention",
    "CrossAttentionProbe",
    "HfEncoder",
    "InputLayout",
    "register_with_transformers",
    "scaled_embeddings",
    "use_regard_attention",
    "use_session",
]

ATTENTION_NAME = "regard"
LAYER_ATTRIBUTE = "regard_layer"
"""The attribute of a cross-attention module that stores the number of its decoder layer."""


@dataclass
class AttentionSession:
    """The inputs and outputs of the attention mechanisms in one call of a model.

    Attributes:
        mechanisms: The mechanism of each decoder layer.
        mask: [B, S], True at source tokens.
        upper: [B, S], the maximum total attention of each source token, or None.
        lower: [B, S], the minimum total attention of each source token, or None.
        output_attentions: The attention weights to return.
        is_step: Whether this is one step of search, with one query per hypothesis and with `states`.
        memories: The prepared memory of each layer. Created where missing.
        states: The attention state of each layer, used only if `is_step` is True.
        attention_steps: The attention of each layer. Filled, in training only if it was requested.
        self_attentions: The self-attention weights. Filled if all attention was requested.
    """

    mechanisms: list[MultiHeadAttention]
    mask: Bool[Tensor, "B S"]
    upper: Float[Tensor, "B S"] | None = None
    lower: Float[Tensor, "B S"] | None = None
    output_attentions: OutputAttentions = "nothing"
    is_step: bool = False
    memories: dict[int, Memory] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)
    attention_steps: dict[int, AttentionStep] = field(default_factory=dict)
    self_attentions: list[Tensor] = field(default_factory=list)

    def read(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Float[Tensor, "B T D"]:
        """Return the contexts of a layer, from queries, keys and values [B, H, T or S, E]."""
        mechanism = self.mechanisms[layer]
        if layer not in self.memories:
            key, value = (repeat_groups(x, query.shape[1]) for x in (key, value))
            # Keys and values are one memory for the mechanism, which splits them again by head.
            keys_and_values = torch.cat([_merge_heads(key), _merge_heads(value)], dim=-1)
            self.memories[layer] = mechanism.prepare(
                Memory(keys_and_values, self.mask, self.upper, self.lower)
            )
        memory, queries = self.memories[layer], _merge_heads(query)
        if self.is_step:
            attention_step = mechanism.read(queries[:, 0], memory, self.states[layer])
            self.attention_steps[layer] = attention_step
            return attention_step.contexts
        # Training: all time steps at once.
        state = mechanism.start(memory)
        if self.output_attentions == "nothing":
            contexts = mechanism.fast_context(queries, memory, state)
            if contexts is not None:
                return contexts
        self.attention_steps[layer] = mechanism.read_all(queries, memory, state)
        return self.attention_steps[layer].contexts[:, :, 0]


@dataclass
class CrossAttentionProbe:
    """Finds the cross-attention modules of a model.

    Attributes:
        source: S, a source length that no other sequence has.
        found: The modules, lowest layer first.
    """

    source: int
    found: list["CrossAttention"] = field(default_factory=list)


@dataclass(frozen=True)
class CrossAttention:
    """A cross-attention module of a model.

    Attributes:
        module: The module.
        num_heads: H, the number of query heads. Several may share keys and values.
        head_size: E.
        softcap: c, if scores z are capped to c tanh(z / c); otherwise None.
    """

    module: nn.Module
    num_heads: int
    head_size: int
    softcap: float | None = None


# A context variable, since transformers offers no way to pass objects to the attention function.
_SESSION: ContextVar[AttentionSession | CrossAttentionProbe | WeightRecorder | None] = ContextVar(
    "regard_session", default=None
)


@contextmanager
def use_session(session: AttentionSession | CrossAttentionProbe | WeightRecorder) -> Iterator[None]:
    """Return a context manager in which the attention function uses the given session."""
    token = _SESSION.set(session)
    try:
        yield
    finally:
        _SESSION.reset(token)


@contextmanager
def scaled_embeddings(
    embedding: nn.Module, ids: Int[Tensor, "B T"], factors: Float[Tensor, "B T 1"]
) -> Iterator[None]:
    """Return a context in which an embedding scales its output.

    Args:
        embedding: The embedding.
        ids: Its input, which some models transpose.
        factors: The factor of each token.
    """

    def scaled(_: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> Tensor:
        # XLNet looks up the transposed ids.
        return output * (factors if torch.equal(given[0], ids) else factors.transpose(0, 1))

    # A hook instead of `inputs_embeds`, which some encoders take before and others after their own scale.
    handle = embedding.register_forward_hook(scaled)
    try:
        yield
    finally:
        handle.remove()


def use_regard_attention(model: Any) -> None:
    """Make a model of transformers use this attention function, if it uses the attention interface."""
    register_with_transformers()
    # Models without the interface log a warning here and keep their own attention.
    with quiet_transformers():
        model.set_attn_implementation(ATTENTION_NAME)


def register_with_transformers() -> None:
    """Register the attention function with transformers."""
    transformers = import_transformers()
    from transformers.masking_utils import eager_mask

    transformers.AttentionInterface.register(ATTENTION_NAME, attention_forward)
    # Masks that are added to the scores. Some models use the interface in the decoder only, and their encoder
    # expects such a mask; others do not mark causal attention, as the fused kernel needs it without a mask.
    transformers.AttentionMaskInterface.register(ATTENTION_NAME, eager_mask)


def attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    """Compute contexts [B, T, H, E] from queries, keys and values [B, H, T or S, E]."""
    session, softcap = _SESSION.get(), others.get("softcap")
    # Our mechanisms use unscaled dot products here, so queries are scaled first.
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if isinstance(session, WeightRecorder) and (session.requested or needs_explicit_attention(others)):
        return session.attend(module, query, key, value, attention_mask, scale, others)
    # Cross-attention is recognized by the length of its keys.
    if isinstance(session, CrossAttentionProbe) and key.shape[2] == session.source:
        session.found.append(CrossAttention(module, query.shape[1], query.shape[3], softcap))
    if isinstance(session, AttentionSession):
        layer = getattr(module, LAYER_ATTRIBUTE, None)
        if layer is not None:
            contexts = session.read(layer, query * scale, key, value)  # (B, T, H E)
            return contexts.unflatten(-1, (query.shape[1], -1)), None
        if session.output_attentions == "all":
            output = _explicit_attention(query * scale, key, value, attention_mask, others)
            session.self_attentions.append(output[1])
            return output
    if softcap is not None:  # which the fused kernel does not have
        return _explicit_attention(query * scale, key, value, attention_mask, others)
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    with fused_backends(query.device):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **others)


def _merge_heads(x: Tensor) -> Tensor:
    """Concatenate the heads, from [B, H, T, E] to [B, T, H E]."""
    return x.transpose(1, 2).flatten(2)


def _explicit_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, others: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Compute the contexts and weights, [B, H, T, S], of softmax attention from scaled queries."""
    weights = attention_weights(query, key, mask, others)
    values = repeat_groups(value, query.shape[1])
    return (weights.to(value.dtype) @ values).transpose(1, 2), weights


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
        input_ids = self.token_ids[source.tokens]
        if self.num_special:
            positions = torch.arange(source.tokens.shape[1], device=input_ids.device)
            # Number of the sink at each position, negative before the first one.
            sink = positions - (source.lengths - self.num_special).unsqueeze(1)  # (B, S)
            # Sinks follow the tokens directly; padding follows the sinks.
            special = (sink >= 0) & (sink < self.num_special)
            input_ids = torch.where(special, self.special_ids[sink.clamp(0, self.num_special - 1)], input_ids)
        return input_ids.gather(1, self._to_encoder_order(source)) if self.prefix_length else input_ids

    def _to_encoder_order(self, source: PaddedSequences) -> Int[Tensor, "B S"]:
        """Return our position for each position of the encoder's order."""
        positions = torch.arange(source.tokens.shape[1], device=source.tokens.device).expand_as(source.tokens)
        words = (source.lengths - self.num_special).unsqueeze(1)
        # The prefix comes from the first sinks, the tokens move right by its length.
        moved = torch.where(positions < self.prefix_length, words + positions, positions - self.prefix_length)
        return torch.where(positions < self.prefix_length + words, moved, positions)

    def from_encoder_order(self, source: PaddedSequences) -> Int[Tensor, "B S"]:
        """Return the encoder's position for each position of our order."""
        positions = torch.arange(source.tokens.shape[1], device=source.tokens.device).expand_as(source.tokens)
        words = (source.lengths - self.num_special).unsqueeze(1)
        # In the encoder's order, tokens follow the prefix; the first sinks represent the prefix.
        moved = torch.where(positions < words, positions + self.prefix_length, positions - words)
        return torch.where(positions < self.prefix_length + words, moved, positions)

    @contextmanager
    def _scaled_embeddings(self, encoder: Any, source: PaddedSequences) -> Iterator[None]:
        """Return a context in which the encoder scales its embeddings; see `PaddedSequences`."""
        scale = source.embedding_scale
        if scale is None:
            yield
            return
        factors = scale.gather(1, self._to_encoder_order(source)).unsqueeze(-1)
        with scaled_embeddings(encoder.get_input_embeddings(), self.ids(source), factors):
            yield

    def encode(self, encoder: Callable[..., Any], source: PaddedSequences) -> Float[Tensor, "B S D"]:
        """Encode sentences, and return the states in our order."""
        with self._scaled_embeddings(encoder, source):
            states = encoder(input_ids=self.ids(source), attention_mask=source.mask.long()).last_hidden_state
        if not self.prefix_length:
            return states
        return states.gather(1, self.from_encoder_order(source).unsqueeze(-1).expand_as(states))

    def reorder_attention(
        self, source: PaddedSequences, weights: Float[Tensor, "B H S S"]
    ) -> Float[Tensor, "B H S S"]:
        """Return an encoder's self-attention in our order; zero in the rows of padding."""
        real = source.mask[:, None, :, None]
        if self.prefix_length:
            order = self.from_encoder_order(source)[:, None]
            weights = weights.gather(2, order.unsqueeze(-1).expand_as(weights))
            weights = weights.gather(3, order.unsqueeze(-2).expand_as(weights))
        return weights.masked_fill(~real, 0.0)


class HfEncoder(SourceEncoder):
    """The encoder, with a linear projection to the decoder's dimension if the dimensions differ.

    Args:
        model: The encoder of transformers.
        tokenizer: The source tokenizer.
        width: The decoder's dimension.
    """

    def __init__(self, model: Any, tokenizer: PretrainedTokenizer, width: int) -> None:
        """Combine the parts."""
        super().__init__()
        use_regard_attention(model)
        self.model, self.layout = model, InputLayout.of(tokenizer)
        hidden_size = model.config.hidden_size
        # The projection is new, so it is not among the pre-trained layers.
        self.output_proj = nn.Identity() if hidden_size == width else Linear(hidden_size, width)

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens, given by the position embeddings; see `SourceEncoder.max_length`."""
        limit = max_positions(self.model)
        # `max_length` includes one sink or end symbol; the other special symbols take positions too.
        return None if limit is None else limit - max(0, self.layout.num_special - 1)

    def forward(
        self, source: PaddedSequences, output_attentions: bool
    ) -> tuple[Float[Tensor, "B S D"], list[Tensor]]:
        """Return the states in the order of our tokens; see `SourceEncoder.forward`."""
        session = AttentionSession(
            [], source.mask, output_attentions="all" if output_attentions else "nothing"
        )
        with use_session(session):
            states = self.layout.encode(self.model, source)
        return self.output_proj(states), [
            self.layout.reorder_attention(source, weights) for weights in session.self_attentions
        ]

    def pretrained_parameters(self) -> tuple[str, ...]:
        """Return those of the library's encoder; see `SourceEncoder.pretrained_parameters`."""
        return tuple(name for name, _ in self.named_parameters() if not name.startswith("output_proj."))
