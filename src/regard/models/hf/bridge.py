"""Where the library's attention asks ours: one attention function, registered with the library by name.

The models of the library call an attention function with the queries, keys and values of all heads. Ours
hands those of a decoder layer that looks at the source to the mechanism of this layer, through the contract,
and leaves all others to PyTorch's fused attention, or makes their weights where they are looked at. Which
mechanisms there are and what they remember is said by a `Session`, one for each call of the model.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from regard.attention.base import Memory, Reading, State
from regard.attention.multihead import MultiHeadAttention
from regard.data.hf import import_transformers
from regard.models.base import Look
from regard.types import Bool, Float, Tensor

__all__ = ["NAME", "Probe", "Session", "asking", "own_attention", "register"]

NAME = "regard"
LAYER = "regard_layer"
"""The attribute of a module of the library that says which attending layer of the decoder it is."""


@dataclass
class Session:
    """What one call of a model is to read, and what it found.

    Attributes:
        sources: The mechanism of each attending layer.
        mask: [B, S], True at source tokens.
        upper: [B, S], what each may receive; or none.
        lower: [B, S], the least it should; or none.
        look: Which attention is wanted.
        stepping: Whether there is one query a sentence, and states to go on with.
        memories: Of each layer, prepared; filled where they are absent.
        states: Of each layer, where it steps.
        readings: Of each layer, where somebody looks; filled.
        contexts: Whether layers read at all; else memories alone are made.
        seen: The attention of texts to themselves; filled where all is looked at.
    """

    sources: list[MultiHeadAttention]
    mask: Bool[Tensor, "B S"]
    upper: Float[Tensor, "B S"] | None = None
    lower: Float[Tensor, "B S"] | None = None
    look: Look = "nothing"
    stepping: bool = False
    memories: dict[int, Memory] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)
    readings: dict[int, Reading] = field(default_factory=dict)
    seen: list[Tensor] = field(default_factory=list)

    def read(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Float[Tensor, "B T D"]:
        """What a layer reads of the source: from queries, keys and values [B, H, T or S, E]."""
        source = self.sources[layer]
        if layer not in self.memories:
            made = torch.cat([_flat(key), _flat(value)], dim=-1)
            self.memories[layer] = source.prepare(Memory(made, self.mask, self.upper, self.lower))
        memory, asked = self.memories[layer], _flat(query)
        if self.stepping:
            reading = source.read(asked[:, 0], memory, self.states[layer])
            self.readings[layer] = reading
            return reading.contexts
        state = source.start(memory)
        if self.look == "nothing":
            found = source.glance(asked, memory, state)
            if found is not None:
                return found
        self.readings[layer] = source.read_all(asked, memory, state)
        return self.readings[layer].contexts[:, :, 0]


@dataclass
class Probe:
    """Finds the modules that attend to the source.

    Attributes:
        source: S, that of no other text.
        found: Each module with its number of heads and their width.
    """

    source: int
    found: list[tuple[nn.Module, int, int]] = field(default_factory=list)


_SESSION: ContextVar[Session | Probe | None] = ContextVar("regard_session", default=None)


@contextmanager
def asking(session: Session | Probe) -> Iterator[None]:
    """A context in which the library's attention asks a session."""
    token = _SESSION.set(session)
    try:
        yield
    finally:
        _SESSION.reset(token)


def own_attention(model: Any) -> None:
    """Have a model of the library use this attention."""
    register()
    model.set_attn_implementation(NAME)


def register() -> None:
    """Make it known to the library."""
    transformers = import_transformers()
    from transformers.masking_utils import sdpa_mask

    transformers.AttentionInterface.register(NAME, attend)
    transformers.AttentionMaskInterface.register(NAME, sdpa_mask)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    """The attention function: contexts [B, T, H, E] from queries, keys and values [B, H, T or S, E]."""
    session = _SESSION.get()
    if isinstance(session, Probe) and key.shape[2] == session.source and query.shape[1] == key.shape[1]:
        session.found.append((module, query.shape[1], query.shape[3]))
    if isinstance(session, Session):
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        layer = getattr(module, LAYER, None)
        if layer is not None:
            found = session.read(layer, query * scale, key, value)  # (B, T, H E)
            return found.unflatten(-1, (query.shape[1], -1)), None
        if session.look == "all":
            return _looked(session, module, query * scale, key, value, attention_mask, others)
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **others)


def _flat(x: Tensor) -> Tensor:
    """Heads side by side: [B, H, T, E] to [B, T, H E]."""
    return x.transpose(1, 2).flatten(2)


def _looked(
    session: Session,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    others: dict[str, Any],
) -> tuple[Tensor, Tensor]:
    """Attention of a text to itself, its weights [B, H, T, T] kept."""
    scores = query @ key.transpose(2, 3)
    if others.get("position_bias") is not None:
        scores = scores + others["position_bias"]
    if mask is None and getattr(module, "is_causal", False) and query.shape[2] > 1:
        mask = torch.ones_like(scores[0, 0], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    weights = torch.softmax(scores.float(), dim=-1)
    session.seen.append(weights)
    return (weights.to(value.dtype) @ value).transpose(1, 2), weights
