"""The layers of a decoder without recurrence: their interface, and the choice of their attention mechanisms.

A mechanism with several contexts, or one that samples, is allowed only in the last layer. Tokens are scored
for each of its contexts, so all computation above it is repeated per context.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.attention.base import Attention
from regard.attention.registry import AttentionConfig, attention_class
from regard.attention.soft import SoftAttentionConfig
from regard.errors import ConfigError
from regard.layers.batched_state import BatchedState
from regard.text.vocabulary import PAD
from regard.types import Float, Tensor

ATTENTION_HELP = (
    "Attention mechanism of every decoder layer. `posterior`, `variational` and `hard` are used only in the "
    "last layer, with soft attention in the layers below."
)
LAYER_ATTENTION_HELP = (
    "Attention mechanisms of the decoder layers, lowest first, with exactly one table per layer, instead of "
    "[model.attention]."
)


@dataclass(frozen=True)
class LayerQuery:
    """The first half of a layer, before cross-attention.

    Attributes:
        residual: The residual input of `finish`.
        queries: The queries of the mechanism.
        finish: A function that computes the layer's output from `residual` (whose leading axes may be 1) and
            the contexts.
        self_attention: The layer's self-attention weights, if it has any and they were requested.
    """

    residual: Float[Tensor, "*B D"]
    queries: Float[Tensor, "*B Q"]
    finish: Callable[[Tensor, Tensor], Tensor]
    self_attention: Float[Tensor, "B _ T T"] | None = None


class StackLayer(nn.Module, ABC):
    """A decoder layer with attention to the source.

    The argument `prepared` of its methods is the result of `prepare`.
    """

    cross_attention: Attention

    def prepare(self) -> Any:
        """Compute the weights that one forward pass or one search shares."""

    @abstractmethod
    def query(self, x: Tensor, embedded: Tensor, prepared: Any, output_attentions: bool) -> LayerQuery:
        """Compute the first half of the layer for a whole target.

        Args:
            x: [B, T, D], the output of the layer below.
            embedded: [B, T, E], the embeddings of the previous tokens.
            prepared: The result of `prepare`.
            output_attentions: Whether to return the self-attention.
        """

    @abstractmethod
    def step(
        self, x: Tensor, cache: BatchedState, embedded: Tensor, prepared: Any
    ) -> tuple[LayerQuery, BatchedState]:
        """Compute the first half of the layer for one more token, from [B, D], and the updated cache."""

    @abstractmethod
    def empty_cache(self, batch: int, prepared: Any) -> BatchedState:
        """Return the cache of `batch` rows before the first token."""


def layer_mechanisms(config: Any) -> tuple[AttentionConfig, ...]:
    """Return the mechanism of each decoder layer, lowest first, of a config of a stack of layers.

    In layers below the last, soft attention replaces a mechanism that is allowed only in the last layer.
    """
    if config.layer_attention:
        return config.layer_attention
    kind = attention_class(config.attention)
    only_last = kind.observes_tokens or kind.objective != "marginal"
    lower = SoftAttentionConfig() if only_last else config.attention
    return (*(lower,) * (config.decoder.num_layers - 1), config.attention)


def check_exclusive(config: Any) -> None:
    """Raise ValueError if `attention` and `layer_attention` of a config are both set."""
    # An explicit default cannot be distinguished from an absent table, so it is accepted.
    if config.layer_attention and config.attention != SoftAttentionConfig():
        raise ValueError("attention and layer_attention are both set: remove one of them")


def check_stack(config: Any) -> None:
    """Check that the mechanisms of a config fit its decoder layers.

    Raises:
        ConfigError: if parts are incompatible. The message names the options and their values.
    """
    mechanisms, num_layers = layer_mechanisms(config), config.decoder.num_layers
    if len(mechanisms) != num_layers:
        raise ConfigError(
            f"model.layer_attention has {len(mechanisms)} mechanisms, but the decoder has {num_layers} "
            "layers: list one mechanism per layer"
        )
    for number, mechanism in enumerate(mechanisms):
        kind = attention_class(mechanism)
        if number < num_layers - 1 and (kind.observes_tokens or kind.objective != "marginal"):
            raise ConfigError(
                f"model.layer_attention: {mechanism.kind!r} is in layer {number}, but it is allowed only in "
                f"the last layer ({num_layers - 1}, counted from 0)"
            )
        if kind.needs_advance:
            raise ConfigError(
                f"attention {mechanism.kind!r} needs a recurrent decoder: set model.kind = 'rnn'"
            )


def normal_embedding(size: int, width: int, std: float) -> nn.Embedding:
    """Return embeddings from N(0, std^2), with zeros for padding."""
    embedding = nn.Embedding(size, width, padding_idx=PAD)
    nn.init.normal_(embedding.weight, 0, std)
    with torch.no_grad():
        # `normal_` also overwrites the zero vector of the padding symbol.
        embedding.weight[PAD] = 0
    return embedding
