"""The attention weights of a Hugging Face model without an encoder, layer by layer.

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

__all__ = ["WeightRecorder", "needs_explicit_attention"]

# Arguments of attention functions that PyTorch's fused kernel does not have.
_UNFUSED = ("softcap", "s_aux")


def needs_explicit_attention(others: Mapping[str, Any]) -> bool:
    """Return whether the arguments of an attention function have no equivalent in PyTorch's fused kernel."""
    return any(others.get(name) is not None for name in _UNFUSED)


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
        """Compute the attention of a layer, with its weights.

        Args:
            module: The attention module of the library.
            query: The queries.
            key: The keys of G groups of heads; H is a multiple of G (Ainslie et al., 2023).
            value: The values.
            mask: True where a key may be attended, or a bias that is added to the scores. None is causal.
            scale: Factor of the scores.
            others: Further arguments of the library's attention functions.
        """
        groups = query.shape[1] // key.shape[1]
        if groups > 1:
            key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
        scores = query @ key.transpose(2, 3) * scale
        if (cap := others.get("softcap")) is not None:
            scores = cap * torch.tanh(scores / cap)
        if others.get("position_bias") is not None:
            scores = scores + others["position_bias"]
        if mask is None and query.shape[2] > 1:
            # Queries are at the last positions of the keys.
            mask = torch.ones_like(scores[0, 0], dtype=torch.bool).tril(key.shape[2] - query.shape[2])
        if mask is not None:
            mask = mask[..., : key.shape[2]]
            low = torch.finfo(scores.dtype).min
            scores = scores.masked_fill(~mask, low) if mask.dtype == torch.bool else scores + mask
        sinks = others.get("s_aux")
        if sinks is not None:
            extra = sinks.view(1, -1, 1, 1).expand(len(scores), -1, scores.shape[2], 1)
            weights = torch.softmax(torch.cat([scores, extra], dim=-1).float(), dim=-1)[..., :-1]
        else:
            weights = torch.softmax(scores.float(), dim=-1)
        if self.requested:
            self.weights.append(weights)
        used = torch.dropout(weights, others.get("dropout") or 0.0, module.training)
        return (used.to(value.dtype) @ value).transpose(1, 2).contiguous(), weights
