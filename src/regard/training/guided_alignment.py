"""Guided alignment: attention is supervised by the links of a word aligner (Chen et al. 2016).

Let G_ts be 1/n if target token t is linked to n source tokens and s is one of them, else 0, and let a_ts be
the attention weight. The cross-entropy

    - lambda sum_t sum_s G_ts log a_ts

is added to the loss. Target tokens without links, EOS among them, do not contribute. Sparse transformations
give weights of or near zero, where the logarithm and its gradient are unbounded. The logarithm is therefore
replaced by its tangent at 0.01 for weights below 0.01. A source token whose weight is exactly zero under a
sparse transformation receives no gradient, because the transformation has none there.
"""

import math
from typing import Annotated

import torch
from pydantic import Field

from regard.config import configclass, option
from regard.data.guided_alignment import LinkUnit
from regard.errors import ConfigError
from regard.models.base import ForwardOutput
from regard.types import Float, Tensor

__all__ = ["GuidedAlignmentConfig", "guided_alignment_loss"]

_LINEAR_BELOW = 0.01  # the weight below which the tangent replaces the logarithm


@configclass
class GuidedAlignmentConfig:
    """The options of guided alignment."""

    links: str | None = option(
        default=None,
        help="File of word links (i-j, from 0) as written by `regard align`, one line per pair of all "
        "training corpora in their order. Default: the tokens of the training text are aligned with "
        "the aligner `bayes`.",
    )
    units: LinkUnit = option(
        default="words",
        help="Unit of the indices in the file: words of the tokenizer, whose links apply to each of their "
        "tokens (Moses tokens for moses and bpe, words between spaces for sentencepiece), or tokens of "
        "the model.",
    )
    weight: float = option(
        default=1.0,
        help="Lambda: weight of the attention cross-entropy relative to the translation loss.",
        gt=0,
        le=1e6,
    )
    layer: int = option(
        default=-1,
        help="Index of the supervised layer among those that attend to the source, from 0. -1 is the last.",
        ge=-256,
        le=255,
    )
    heads: tuple[Annotated[int, Field(ge=-256, le=255)], ...] = option(
        default=(),
        help="Indices of the heads whose mean weights are supervised, from 0. -1 is the last. "
        "Default: all heads.",
    )


def guided_alignment_loss(
    outcome: ForwardOutput, links: Float[Tensor, "B T S"], config: GuidedAlignmentConfig
) -> Float[Tensor, ""]:
    """Return lambda times the cross-entropy of attention and links, summed over target tokens, in nats.

    Args:
        outcome: The result of teacher forcing with attention weights.
        links: G_ts; see `Batch.links`.
        config: The layer, the heads and lambda.

    Raises:
        ConfigError: if the model has no such layer or head, or its attention weights have no gradient.
    """
    layers = len(outcome.cross_attentions)
    if not -layers <= config.layer < layers:
        raise ConfigError(
            f"guided_alignment.layer = {config.layer}: the layers that attend to the source are 0 to "
            f"{layers - 1}; -1 is the last"
        )
    weights = outcome.cross_attentions[config.layer]  # (B, T, H, S)
    if config.heads:
        heads = weights.shape[2]
        if not all(-heads <= head < heads for head in config.heads):
            raise ConfigError(
                f"guided_alignment.heads = {list(config.heads)}: the layer has heads 0 to {heads - 1}; -1 "
                "is the last"
            )
        weights = weights[:, :, list(config.heads)]
    if torch.is_grad_enabled() and not weights.requires_grad:
        raise ConfigError(
            "guided_alignment: the attention weights of the model have no gradient; remove the table "
            "[guided_alignment] or use another attention mechanism"
        )
    mean = weights.mean(2)  # (B, T, S)
    tangent = mean / _LINEAR_BELOW - 1 + math.log(_LINEAR_BELOW)
    log = torch.where(mean < _LINEAR_BELOW, tangent, mean.clamp_min(_LINEAR_BELOW).log())
    return -config.weight * (links * log).sum()
