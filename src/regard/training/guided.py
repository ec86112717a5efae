"""Guided alignment: attention is taught the links of a word aligner while translation is learned.

With G_ts the share of source token s among those that target token t is linked to and a_ts the attention,

    - lambda sum_t sum_s G_ts log a_ts

is added to the loss (Chen et al. 2016, the cross-entropy). Target tokens without links, the end symbol among
them, add nothing. Sparse maps give weights of zero and next to it, where the logarithm has no bounds and
neither has its gradient: below 0.01 it goes on as the straight line that touches it there. A word to which a
sparse map gives zero learns nothing at that step, as the map has no gradient there.
"""

import math
from typing import Annotated

import torch
from pydantic import Field

from regard.config import config, option
from regard.data.guidance import Units
from regard.errors import ConfigError
from regard.models.base import Outcome
from regard.types import Float, Tensor

__all__ = ["GuidedConfig", "guided_loss"]

_STRAIGHT = 0.01  # below which the logarithm is a line


@config
class GuidedConfig:
    """What attention is taught, and how firmly."""

    links: str | None = option(
        default=None,
        help="A file of word links (i-j), as `regard align` writes them, a line for each training pair; "
        "none: the training text is aligned as the model reads it.",
    )
    units: Units = option(
        default="words",
        help="What the file counts: words, each of whose subwords gets the links, or the tokens that a model "
        "reads.",
    )
    weight: float = option(
        default=1.0,
        help="Lambda: what a nat of attention's cross-entropy weighs against one of translation's.",
        gt=0,
        le=1e6,
    )
    layer: int = option(
        default=-1,
        help="Which of the layers that attend to the source, from 0; -1 is the last.",
        ge=-256,
        le=255,
    )
    heads: tuple[Annotated[int, Field(ge=-256, le=255)], ...] = option(
        default=(),
        help="Which of its heads, from 0; -1 is the last: their mean is taught. None named: all of them.",
    )


def guided_loss(outcome: Outcome, links: Float[Tensor, "B T S"], config: GuidedConfig) -> Float[Tensor, ""]:
    """The cross-entropy of attention with the links, lambda times its sum over the target tokens, in nats.

    Args:
        outcome: What teacher forcing gave.
        links: See `Batch.links`.
        config: Which layer and heads, and lambda.

    Raises:
        ConfigError: if the model has no such layer or head, or its attention nothing to learn.
    """
    layers = len(outcome.weights)
    if not -layers <= config.layer < layers:
        raise ConfigError(
            f"guided.layer = {config.layer}: the model attends to the source in layers 0 to {layers - 1}; "
            "-1 is the last"
        )
    weights = outcome.weights[config.layer]  # (B, T, H, S)
    if config.heads:
        heads = weights.shape[2]
        if not all(-heads <= head < heads for head in config.heads):
            raise ConfigError(f"guided.heads = {list(config.heads)}: the layer has heads 0 to {heads - 1}")
        weights = weights[:, :, list(config.heads)]
    if torch.is_grad_enabled() and not weights.requires_grad:
        raise ConfigError("guided: the model's attention has nothing that could learn from links")
    mean = weights.mean(2)  # (B, T, S)
    line = mean / _STRAIGHT - 1 + math.log(_STRAIGHT)
    log = torch.where(mean < _STRAIGHT, line, mean.clamp_min(_STRAIGHT).log())
    return -config.weight * (links * log).sum()
