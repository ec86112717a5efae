"""The attention function of Hugging Face models in regard.

Models of transformers call an attention function, selected by name, with the queries, keys and values of all
heads. Ours passes those of a decoder's cross-attention to the mechanism of that layer (`Attention`). An
`AttentionSession`, one per call of the model, holds the mechanisms and their states. All other attention
uses PyTorch's fused kernel, or `normalized_attention` if weights are requested.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention.base import AttentionStep, Memory, State
from regard.attention.multihead import MultiHeadAttention
from regard.errors import UsageError
from regard.extensions.hf.files import import_transformers, quiet_transformers
from regard.functional import softmax
from regard.kernels.attention import fused_backends
from regard.kernels.dropout import dropout
from regard.models.base import OutputAttentions
from regard.types import Bool, Float, Tensor

ATTENTION_NAME = "regard"
LAYER_ATTRIBUTE = "regard_layer"
"""The attribute of a cross-attention module that stores the number of its decoder layer."""
Normalize = Callable[[nn.Module, Tensor, Tensor | None], Tensor]
"""A function of the attention module, scores [B, H, T, S] and a mask, which returns the weights."""


def normalized_attention(
    normalize: Normalize,
    module: nn.Module,
    query: Float[Tensor, "B H T E"],
    key: Float[Tensor, "B G S E"],
    value: Float[Tensor, "B G S V"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "B H T S"]]:
    """Compute contexts and attention weights, as an attention function of transformers.

    Args:
        normalize: The transformation.
        module: The attention module that calls.
        query: The queries.
        key: The keys. With fewer heads than the queries (G < H), consecutive H / G heads share their keys and
            values (grouped queries).
        value: The values.
        attention_mask: Broadcastable to [B, H, T, S], boolean (True = may be attended), or values that are
            added to the scores. It may be longer than the keys. Without a mask (None), all are attended.
        scaling: Factor of the scores. Default: 1 / sqrt(E).
        others: Further arguments of the library, of which `dropout` (of the weights in training),
            `position_bias` (T5), `softcap` (Gemma), `s_aux` (attention sinks) and `is_causal` are used.

    Returns:
        The contexts, and the weights before dropout.

    Raises:
        UsageError: The library asks for attention over a paged cache (continuous batching).
    """
    if others.get("cache") is not None:
        raise UsageError(
            "continuous batching has its own attention: use `generate`, or attn_implementation = 'sdpa'"
        )
    heads, groups = query.shape[1], key.shape[1]
    # The heads of a group are further queries of one head, so that keys and values need no copy.
    grouped = (query * (query.shape[-1] ** -0.5 if scaling is None else scaling)).unflatten(
        1, (groups, heads // groups)
    )
    scores = (grouped.flatten(2, 3) @ key.transpose(-2, -1)).view(*query.shape[:3], key.shape[-2])
    if others.get("softcap") is not None:
        scores = torch.tanh(scores / others["softcap"]) * others["softcap"]
    scores, mask = _add_biases(scores, attention_mask, others)
    sinks = others.get("s_aux")
    if sinks is not None:  # each head has one more position, with a learned score
        column = sinks.to(scores.dtype).view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, column], -1)
        if mask is not None:
            mask = F.pad(mask.expand(*mask.shape[:-1], key.shape[-2]), (0, 1), value=True)
    weights = normalize(module, scores, mask)[..., : key.shape[-2]]
    dropped = dropout(weights, others.get("dropout", 0.0), module.training)
    dropped = dropped.to(value.dtype).unflatten(1, (groups, heads // groups)).flatten(2, 3)
    contexts = (dropped @ value).view(*query.shape[:3], value.shape[-1])  # (B, H, T, V)
    return contexts.transpose(1, 2).contiguous(), weights


def _add_biases(
    scores: Float[Tensor, "B H T S"], mask: Tensor | None, others: dict[str, Any]
) -> tuple[Float[Tensor, "B H T S"], Bool[Tensor, "..."] | None]:
    """Return the scores with all biases, and a boolean mask or None."""
    if others.get("position_bias") is not None:
        scores = scores + others["position_bias"]
    if mask is None:
        if not others.get("is_causal") or scores.shape[-2] == 1:
            return scores, None
        return scores, torch.ones_like(scores[0, 0], dtype=torch.bool).tril()
    mask = mask[..., : scores.shape[-1]]  # a cache of fixed size has a longer mask
    if mask.dtype == torch.bool:
        return scores, mask
    # Masks of older code have a very low value at masked positions, and may have a bias elsewhere.
    keep = mask > torch.finfo(mask.dtype).min / 2
    return scores + mask.masked_fill(~keep, 0).to(scores.dtype), keep


@dataclass
class AttentionSession:
    """The inputs and outputs of the attention mechanisms in one call of a model.

    Attributes:
        mechanisms: The mechanism of each decoder layer with cross-attention.
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
            repeats = query.shape[1] // key.shape[1]  # each group of query heads shares keys and values
            heads = [x.repeat_interleave(repeats, dim=1) for x in (key, value)]
            merged = torch.cat([x.transpose(1, 2).flatten(2) for x in heads], dim=-1)
            self.memories[layer] = mechanism.prepare(Memory(merged, self.mask, self.upper, self.lower))
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
    """Finds the cross-attention modules, lowest layer first, by a unique source length."""

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


def _softmax(_: nn.Module, scores: Tensor, mask: Tensor | None) -> Tensor:
    # Recorded weights have at least the precision of float32.
    return softmax(scores.to(torch.promote_types(scores.dtype, torch.float32)), mask=mask)


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
    # Cross-attention is recognized by the length of its keys.
    if isinstance(session, CrossAttentionProbe) and key.shape[2] == session.source:
        session.found.append(CrossAttention(module, query.shape[1], query.shape[3], softcap))
    recorded = False
    if isinstance(session, AttentionSession):
        layer = getattr(module, LAYER_ATTRIBUTE, None)
        if layer is not None:
            # Our mechanisms use unscaled dot products here, so queries are scaled first.
            scale = query.shape[-1] ** -0.5 if scaling is None else scaling
            contexts = session.read(layer, query * scale, key, value)  # (B, T, H E)
            return contexts.unflatten(-1, (query.shape[1], -1)), None
        recorded = session.output_attentions == "all"
    # The fused kernel has neither weights nor a cap nor sinks.
    if recorded or softcap is not None or others.get("s_aux") is not None:
        contexts, weights = normalized_attention(
            _softmax, module, query, key, value, attention_mask, scaling, **others
        )
        if recorded and isinstance(session, AttentionSession):
            session.self_attentions.append(weights)
        return contexts, weights
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    with fused_backends(query.device):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **others)
