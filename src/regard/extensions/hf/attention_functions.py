"""Attention functions of transformers with other transformations than softmax: the public module `regard.hf`.

A model of transformers calls the function that `attn_implementation` names with the queries, keys and values
of all heads and a mask. Ours compute

    weights = dropout(normalizer(scaling Q K^T + bias)),   context = weights V

for a normalizer of `regard.functional`, directly on scores [B, H, T, S]. This is the plain ("eager")
attention of the library with another transformation, except for masks: a masked position gets exactly 0
instead of a very low score, and a query without attendable positions gets the context 0.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention.registry import BUILT_IN_NORMALIZERS
from regard.errors import UsageError
from regard.extensions.hf.attention_bounds import (
    CONSTRAINED,
    attention_bounds,
    attention_budget,
    constrained_weights,
)
from regard.extensions.hf.files import import_transformers
from regard.kernels.dropout import fused_dropout, supports_dropout
from regard.types import Bool, Float, Tensor

__all__ = ["ATTENTION_NAMES", "attention_bounds", "attention_budget", "register_attention_function"]

_NORMALIZERS = {name: each for name, each in BUILT_IN_NORMALIZERS.items() if name != "softmax"}

ATTENTION_NAMES = (*_NORMALIZERS, *CONSTRAINED)
"""The values of `attn_implementation` that `import regard.hf` registers."""

Normalize = Callable[[nn.Module, Tensor, Tensor | None], Tensor]
"""A function of the attention module, scores [B, H, T, S] and a mask, which returns the weights."""


def register_attention_function(name: str, normalizer: Callable[..., Tensor]) -> None:
    """Register a transformation with transformers, as a value of `attn_implementation`.

    Args:
        name: The value.
        normalizer: A function of scores [..., S] and the keyword argument `mask`, such as
            `functools.partial(regard.functional.entmax, alpha=1.3)`.

    Raises:
        UsageError: transformers is not installed.
    """

    def normalize(module: nn.Module, scores: Tensor, mask: Tensor | None) -> Tensor:
        return normalizer(scores, mask=mask)

    _register(name, normalize)


def _register(name: str, normalize: Normalize) -> None:
    """Register an attention function and its kind of mask."""
    transformers = import_transformers()
    transformers.AttentionInterface.register(name, partial(normalized_attention, normalize))
    transformers.AttentionMaskInterface.register(name, _boolean_mask)


def _boolean_mask(*args: Any, **kwargs: Any) -> Bool[Tensor, "B 1 T S"] | None:
    """Return the mask of `sdpa_mask`, always explicit for causal attention."""
    from transformers.masking_utils import sdpa_mask

    # Otherwise no mask would mean causal attention in some models and unmasked attention in others.
    return sdpa_mask(*args, **{**kwargs, "allow_is_causal_skip": False})


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
    if sinks is None:
        weights = normalize(module, scores, mask)
    else:
        weights = _with_sinks(partial(normalize, module), scores, mask, sinks)
    dropout = others.get("dropout", 0.0)
    dropped = _dropout(weights, dropout) if dropout and module.training else weights
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


def _with_sinks(
    normalize: Callable[[Tensor, Tensor | None], Tensor],
    scores: Float[Tensor, "B H T S"],
    mask: Bool[Tensor, "..."] | None,
    sinks: Float[Tensor, "H"],
) -> Float[Tensor, "B H T S"]:
    """Return the weights of the keys where each head has one more position, with a learned score."""
    column = sinks.to(scores.dtype).view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    if mask is not None:
        mask = F.pad(mask.expand(*mask.shape[:-1], scores.shape[-1]), (0, 1), value=True)
    return normalize(torch.cat([scores, column], -1), mask)[..., :-1]


def _dropout(weights: Tensor, probability: float) -> Tensor:
    """Return the weights after dropout."""
    if supports_dropout(weights) and probability < 1:
        return fused_dropout(weights, probability)
    return F.dropout(weights, probability)


for constrained_name in CONSTRAINED:
    _register(constrained_name, partial(constrained_weights, constrained_name))
for unconstrained_name, unconstrained in _NORMALIZERS.items():
    register_attention_function(unconstrained_name, unconstrained)
