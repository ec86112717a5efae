"""The explicit attention weights of a Hugging Face model, layer by layer.

Decoder-only models attend to the prompt and to the tokens generated so far in one self-attention. Its weights
are computed explicitly where they are requested, by the definition of the library: scores times a scale,
optionally capped (`softcap`, as in Gemma 2), softmax over the unmasked keys and, in some models, over a
learned logit per head that no key has (`s_aux`, as in gpt-oss).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from regard.types import Float, Tensor

__all__ = ["WeightRecorder", "attention_weights", "needs_explicit_attention", "repeat_groups"]


def needs_explicit_attention(others: Mapping[str, Any]) -> bool:
    """Return whether arguments of an attention function have no equivalent in PyTorch's fused kernel."""
    return others.get("softcap") is not None or others.get("s_aux") is not None


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
