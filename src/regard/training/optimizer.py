"""Optimizers: their settings, how they are built, and their state as plain tensors.

Both are PyTorch's fused ones: one pass over the parameters, no temporary copies of them, and an update that
is a function of parameters, gradients and state alone, so that a resumed run goes on to the bit.
"""

import fnmatch
import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import torch
from torch import nn

from regard.config import Kinds, config, option
from regard.errors import CheckpointError, ConfigError
from regard.types import Tensor

__all__ = [
    "AdamConfig",
    "OptimizerConfig",
    "SgdConfig",
    "build_optimizer",
    "clip_gradients",
    "freeze",
    "load_optimizer",
    "optimizer_tensors",
]


Normalize = Literal["tokens", "sentences"]


@config
class AdamConfig:
    """Adam (Kingma & Ba 2015); weight decay is decoupled (Loshchilov & Hutter 2019)."""

    kind: Literal["adam"] = option(default="adam", help="The optimizer: Adam.")
    rate: float = option(default=1e-3, help="The learning rate, which the schedule scales.", gt=0, le=1e38)
    beta1: float = option(default=0.9, help="Decay of the mean of the gradient.", ge=0, lt=1)
    beta2: float = option(default=0.999, help="Decay of the mean of its square.", ge=0, lt=1)
    epsilon: float = option(default=1e-8, help="Added to the root of the mean square.", gt=0, le=1e6)
    weight_decay: float = option(
        default=0.0, help="How much of a parameter is taken away in an update, times the rate.", ge=0, le=1e6
    )
    clip: float = option(
        default=5.0,
        help="The largest norm of the gradient; a larger one is scaled down; 0: any.",
        ge=0,
        le=1e38,
    )
    normalize: Normalize = option(
        default="tokens", help="What an update's loss is divided by, which rate and clip go by."
    )


@config
class SgdConfig:
    """Stochastic gradient descent; the defaults are those of Malaviya et al. (2018)."""

    kind: Literal["sgd"] = option(default="sgd", help="The optimizer: stochastic gradient descent.")
    rate: float = option(default=1.0, help="The learning rate, which the schedule scales.", gt=0, le=1e38)
    momentum: float = option(default=0.0, help="Momentum.", ge=0, lt=1)
    weight_decay: float = option(default=0.0, help="L2 penalty.", ge=0, le=1e6)
    clip: float = option(
        default=5.0,
        help="The largest norm of the gradient; a larger one is scaled down; 0: any.",
        ge=0,
        le=1e38,
    )
    normalize: Normalize = option(
        default="sentences", help="What an update's loss is divided by, which rate and clip go by."
    )


OptimizerConfig = Annotated[AdamConfig | SgdConfig, Kinds("adam")]


def freeze(model: nn.Module, patterns: Iterable[str]) -> None:
    """Keep parameters as they are.

    Args:
        model: Its parameters stop requiring a gradient where their name fits.
        patterns: Names with wildcards, as `encoder.*`.

    Raises:
        ConfigError: if a pattern fits no parameter, or nothing is left to train.
    """
    named = dict(model.named_parameters())
    for pattern in patterns:
        found = fnmatch.filter(named, pattern)
        if not found:
            raise ConfigError(
                f"training.freeze: {pattern!r} fits no parameter; there are: {', '.join(sorted(named))}"
            )
        for name in found:
            named[name].requires_grad_(False)
    if not any(parameter.requires_grad for parameter in named.values()):
        raise ConfigError("training.freeze: every parameter is frozen, nothing is left to train")


def build_optimizer(
    config: OptimizerConfig, parameters: Iterable[Tensor] | Iterable[dict[str, Any]]
) -> torch.optim.Optimizer:
    """The optimizer a config describes.

    Args:
        config: The config.
        parameters: What is trained, or groups of it.
    """
    match config:
        case AdamConfig():
            # Without decay Adam and AdamW are one.
            return torch.optim.AdamW(
                parameters,
                lr=config.rate,
                betas=(config.beta1, config.beta2),
                eps=config.epsilon,
                weight_decay=config.weight_decay,
                fused=True,
            )
        case SgdConfig():
            return torch.optim.SGD(
                parameters,
                lr=config.rate,
                momentum=config.momentum,
                weight_decay=config.weight_decay,
                fused=True,
            )


def clip_gradients(parameters: Iterable[Tensor], limit: float, norm: float) -> None:
    """Scale gradients down, in place, so that their norm, now `norm`, is at most `limit` (0: no limit)."""
    if limit and norm > limit and math.isfinite(norm):
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(limit / norm)


def optimizer_tensors(optimizer: torch.optim.Optimizer, names: list[str]) -> dict[str, Tensor]:
    """The optimizer's state by `PARAMETER/KIND`.

    Args:
        optimizer: Built over parameters in the order of `names`.
        names: Their names.
    """
    state = optimizer.state_dict()["state"]
    return {
        f"{names[number]}/{kind}": value
        for number, values in state.items()
        for kind, value in values.items()
        if isinstance(value, torch.Tensor)
    }


def load_optimizer(optimizer: torch.optim.Optimizer, names: list[str], tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` took.

    Raises:
        CheckpointError: if the state is of other parameters.
    """
    numbers = {name: number for number, name in enumerate(names)}
    state: dict[int, dict[str, Any]] = {}
    for key, value in tensors.items():
        name, _, kind = key.rpartition("/")
        if name not in numbers:
            raise CheckpointError(f"the optimizer's state is of a parameter {name!r} that is not trained")
        state.setdefault(numbers[name], {})[kind] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
