"""The attention function that connects Hugging Face models to our attention mechanisms.

Models of transformers call an attention function, selected by name, with the queries, keys and values of all
heads. Ours passes those of a decoder's cross-attention to the mechanism of that layer (`Attention`). All
other attention uses PyTorch's fused kernel, or computes the weights explicitly if they were requested. An
`AttentionSession`, one per call of the model, holds the mechanisms and their states.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from regard.attention.base import AttentionStep, Memory, State
from regard.attention.multihead import MultiHeadAttention
from regard.data.hf import import_transformers
from regard.models.base import OutputAttentions
from regard.types import Bool, Float, Tensor

__all__ = [
    "ATTENTION_NAME",
    "AttentionSession",
    "CrossAttentionProbe",
    "register_with_transformers",
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
        found: Each module, with its number of heads and the size of a head.
    """

    source: int
    found: list[tuple[nn.Module, int, int]] = field(default_factory=list)


# A context variable, since transformers offers no way to pass objects to the attention function.
_SESSION: ContextVar[AttentionSession | CrossAttentionProbe | None] = ContextVar(
    "regard_session", default=None
)


@contextmanager
def use_session(session: AttentionSession | CrossAttentionProbe) -> Iterator[None]:
    """Return a context manager in which the attention function uses the given session."""
    token = _SESSION.set(session)
    try:
        yield
    finally:
        _SESSION.reset(token)


def use_regard_attention(model: Any) -> None:
    """Make a model of transformers use this attention function."""
    register_with_transformers()
    model.set_attn_implementation(ATTENTION_NAME)


def register_with_transformers() -> None:
    """Register the attention function with transformers."""
    transformers = import_transformers()
    from transformers.masking_utils import sdpa_mask

    transformers.AttentionInterface.register(ATTENTION_NAME, attention_forward)
    # Masks in the format of the fused kernel, to which `attention_forward` falls back.
    transformers.AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)


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
    session = _SESSION.get()
    # Cross-attention is recognized by the length of its keys.
    if (
        isinstance(session, CrossAttentionProbe)
        and key.shape[2] == session.source
        and query.shape[1] == key.shape[1]
    ):
        session.found.append((module, query.shape[1], query.shape[3]))
    if isinstance(session, AttentionSession):
        # Our mechanisms use unscaled dot products here, so queries are scaled first.
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        layer = getattr(module, LAYER_ATTRIBUTE, None)
        if layer is not None:
            found = session.read(layer, query * scale, key, value)  # (B, T, H E)
            return found.unflatten(-1, (query.shape[1], -1)), None
        if session.output_attentions == "all":
            return _explicit_self_attention(
                session, module, query * scale, key, value, attention_mask, others
            )
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **others)


def _merge_heads(x: Tensor) -> Tensor:
    """Concatenate the heads, from [B, H, T, E] to [B, T, H E]."""
    return x.transpose(1, 2).flatten(2)


def _explicit_self_attention(
    session: AttentionSession,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    others: dict[str, Any],
) -> tuple[Tensor, Tensor]:
    """Compute self-attention and store its weights, [B, H, T, T], in the session."""
    scores = query @ key.transpose(2, 3)
    if others.get("position_bias") is not None:
        scores = scores + others["position_bias"]
    # transformers passes no mask for causal attention without padding.
    if mask is None and getattr(module, "is_causal", False) and query.shape[2] > 1:
        mask = torch.ones_like(scores[0, 0], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    weights = torch.softmax(scores.float(), dim=-1)
    session.self_attentions.append(weights)
    return (weights.to(value.dtype) @ value).transpose(1, 2), weights
