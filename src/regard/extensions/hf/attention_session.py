"""The attention function of Hugging Face models in regard.

Models of transformers call an attention function, selected by name, with the queries, keys and values of all
heads. Ours passes those of a decoder's cross-attention to the mechanism of that layer (`Attention`). An
`AttentionSession`, one per call of the model, holds the mechanisms and their states. All other attention
uses PyTorch's fused kernel. Weights that are requested are computed explicitly, by the definition of the
library: scores times a scale, optionally capped (`softcap`, as in Gemma 2), softmax over the unmasked keys
and, in some models, over a learned logit per head that no key has (`s_aux`, as in gpt-oss).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from regard.attention.base import AttentionStep, Memory, State
from regard.attention.multihead import MultiHeadAttention
from regard.extensions.hf.files import import_transformers, quiet_transformers
from regard.kernels.attention import fused_backends
from regard.models.base import OutputAttentions
from regard.types import Bool, Float, Tensor

ATTENTION_NAME = "regard"
LAYER_ATTRIBUTE = "regard_layer"
"""The attribute of a cross-attention module that stores the number of its decoder layer."""


def repeat_groups(x: Float[Tensor, "B G S E"], num_heads: int) -> Float[Tensor, "B H S E"]:
    """Repeat the keys or values of each group of query heads for all of its heads (Ainslie et al., 2023)."""
    return x if x.shape[1] == num_heads else x.repeat_interleave(num_heads // x.shape[1], dim=1)


def attention_weights(
    query: Float[Tensor, "B H T E"],
    key: Float[Tensor, "B G K E"],
    mask: Tensor | None,
    others: Mapping[str, Any],
    scale: float = 1.0,
) -> Float[Tensor, "B H T K"]:
    """Compute softmax attention by the definition of the library.

    Args:
        query: The queries.
        key: The keys of G groups of heads; H is a multiple of G.
        mask: True where a key may be attended, or a bias that is added to the scores.
        others: Further arguments of the library's attention functions.
        scale: Factor of the scores.
    """
    scores = query @ repeat_groups(key, query.shape[1]).transpose(2, 3) * scale
    if (cap := others.get("softcap")) is not None:
        scores = cap * torch.tanh(scores / cap)
    if others.get("position_bias") is not None:
        scores = scores + others["position_bias"]
    if mask is not None:
        mask = mask[..., : key.shape[2]]
        low = torch.finfo(scores.dtype).min
        scores = scores.masked_fill(~mask, low) if mask.dtype == torch.bool else scores + mask
    sinks = others.get("s_aux")
    if sinks is None:
        return torch.softmax(scores.float(), dim=-1)
    extra = sinks.view(1, -1, 1, 1).expand(len(scores), -1, scores.shape[2], 1)
    return torch.softmax(torch.cat([scores, extra], dim=-1).float(), dim=-1)[..., :-1]


@dataclass
class WeightRecorder:
    """Records the attention weights of all layers in one call of a model.

    Attributes:
        requested: Whether weights are recorded. If not, layers that PyTorch's fused kernel supports use it.
        weights: [B, H, T, K] of each layer, in the order of the layers: T queries, K keys.
    """

    requested: bool = True
    weights: list[Float[Tensor, "B H T K"]] = field(default_factory=list)

    def attend(
        self,
        module: nn.Module,
        query: Float[Tensor, "B H T E"],
        key: Float[Tensor, "B G K E"],
        value: Float[Tensor, "B G K F"],
        mask: Tensor | None,
        scale: float,
        others: Mapping[str, Any],
    ) -> tuple[Float[Tensor, "B T H F"], Float[Tensor, "B H T K"]]:
        """Compute the attention of a layer, with its weights; see `attention_weights`. No mask is causal."""
        steps, size = query.shape[2], key.shape[2]
        if mask is None and steps > 1:
            # Queries are at the last positions of the keys.
            mask = torch.ones(steps, size, dtype=torch.bool, device=query.device).tril(size - steps)
        weights = attention_weights(query, key, mask, others, scale)
        if self.requested:
            self.weights.append(weights)
        used = torch.dropout(weights, others.get("dropout") or 0.0, module.training)
        contexts = used.to(value.dtype) @ repeat_groups(value, query.shape[1])
        return contexts.transpose(1, 2).contiguous(), weights


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
            merged = [repeat_groups(x, query.shape[1]).transpose(1, 2).flatten(2) for x in (key, value)]
            keys_and_values = torch.cat(merged, dim=-1)
            self.memories[layer] = mechanism.prepare(
                Memory(keys_and_values, self.mask, self.upper, self.lower)
            )
        memory, queries = self.memories[layer], query.transpose(1, 2).flatten(2)
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


def use_regard_attention(model: Any) -> None:
    """Make a model of transformers use this attention function, if it uses the attention interface."""
    transformers = import_transformers()
    from transformers.masking_utils import eager_mask

    transformers.AttentionInterface.register(ATTENTION_NAME, attention_forward)
    # Masks that are added to the scores. Some models use the interface in the decoder only, and their encoder
    # expects such a mask; others do not mark causal attention, as the fused kernel needs it without a mask.
    transformers.AttentionMaskInterface.register(ATTENTION_NAME, eager_mask)
    # Models without the interface log a warning here and keep their own attention.
    with quiet_transformers():
        model.set_attn_implementation(ATTENTION_NAME)


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
    if isinstance(session, WeightRecorder) and (
        session.requested or softcap is not None or others.get("s_aux") is not None
    ):
        return session.attend(module, query, key, value, attention_mask, scale, others)
    # Cross-attention is recognized by the length of its keys.
    if isinstance(session, CrossAttentionProbe) and key.shape[2] == session.source:
        session.found.append(CrossAttention(module, query.shape[1], query.shape[3], softcap))
    recorded = False
    if isinstance(session, AttentionSession):
        layer = getattr(module, LAYER_ATTRIBUTE, None)
        if layer is not None:
            contexts = session.read(layer, query * scale, key, value)  # (B, T, H E)
            return contexts.unflatten(-1, (query.shape[1], -1)), None
        recorded = session.output_attentions == "all"
    if recorded or softcap is not None:  # the fused kernel has neither weights nor a cap
        weights = attention_weights(query * scale, key, attention_mask, others)
        if isinstance(session, AttentionSession) and recorded:
            session.self_attentions.append(weights)
        contexts = weights.to(value.dtype) @ repeat_groups(value, query.shape[1])
        return contexts.transpose(1, 2), weights
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    with fused_backends(query.device):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **others)
