"""Optimizers and learning-rate schedules: their options, their construction, and their state.

PyTorch's fused implementations are used. They make one pass over the parameters without temporary copies, and
a step is a function of parameters, gradients and optimizer state alone, so that a resumed run is bitwise
identical.
"""

import fnmatch
import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import torch
from torch import nn

from regard.config import TaggedUnion, configclass, option
from regard.errors import CheckpointError, ConfigError
from regard.models.base import TranslationModel
from regard.types import Tensor

LR_FACTOR_KEY = "scale"
"""The key of an optimizer's parameter group that holds the factor of its learning rate."""

LossNormalization = Literal["tokens", "sentences"]


def _max_grad_norm_option() -> Any:
    return option(
        default=5.0,
        help="Maximum norm of the gradient; larger gradients are scaled down. 0 disables clipping.",
        ge=0,
        le=1e38,
    )


def _normalization_option(default: LossNormalization) -> Any:
    return option(
        default=default,
        help="Unit whose number the loss of a step is divided by; it determines the scale of the learning "
        "rate and of the maximum gradient norm.",
    )


@configclass
class AdamConfig:
    """Adam (Kingma & Ba 2015) with decoupled weight decay (Loshchilov & Hutter 2019)."""

    kind: Literal["adam"] = option(default="adam", help="Adam (Kingma & Ba, 2015).")
    learning_rate: float = option(
        default=1e-3, help="Learning rate, multiplied by the factor of the schedule.", gt=0, le=1e38
    )
    beta1: float = option(default=0.9, help="Decay rate of the gradient average.", ge=0, lt=1)
    beta2: float = option(default=0.999, help="Decay rate of the squared-gradient average.", ge=0, lt=1)
    epsilon: float = option(
        default=1e-8, help="Constant added to the denominator for numerical stability.", gt=0, le=1e6
    )
    weight_decay: float = option(
        default=0.0, help="Decoupled weight decay, multiplied by the learning rate.", ge=0, le=1e6
    )
    max_grad_norm: float = _max_grad_norm_option()
    loss_normalization: LossNormalization = _normalization_option("tokens")


@configclass
class SgdConfig:
    """Stochastic gradient descent; the defaults are those of Malaviya et al. (2018)."""

    kind: Literal["sgd"] = option(default="sgd", help="Stochastic gradient descent.")
    learning_rate: float = option(
        default=1.0, help="Learning rate, multiplied by the factor of the schedule.", gt=0, le=1e38
    )
    max_grad_norm: float = _max_grad_norm_option()
    loss_normalization: LossNormalization = _normalization_option("sentences")


OptimizerConfig = Annotated[AdamConfig | SgdConfig, TaggedUnion("adam")]


def _warmup_option(default: int) -> Any:
    """Return the option of the warm-up; a schedule without warm-up by default also permits 0 steps."""
    text = "Number of warm-up steps, in which the learning rate rises linearly from 0 to `learning_rate`."
    text += "" if default else " 0 disables warm-up."
    return option(default=default, help=text, ge=1 if default else 0, le=1_000_000_000)


@configclass
class ConstantConfig:
    """A constant learning rate after an optional linear warm-up."""

    kind: Literal["constant"] = option(default="constant", help="A constant learning rate.")
    warmup_steps: int = _warmup_option(0)


@configclass
class InverseSqrtConfig:
    """Linear warm-up to the learning rate, then inverse square root of the step (Vaswani et al. 2017)."""

    kind: Literal["inverse_sqrt"] = option(
        default="inverse_sqrt", help="A linear warm-up, then the inverse square root of the step."
    )
    warmup_steps: int = _warmup_option(4000)


@configclass
class PlateauConfig:
    """A learning rate that is reduced when the validation metric stops improving."""

    kind: Literal["plateau"] = option(
        default="plateau", help="A reduction of the learning rate when validation stops improving."
    )
    factor: float = option(
        default=0.5, help="Factor by which the learning rate is reduced, in (0, 1).", gt=0, lt=1
    )
    patience: int = option(
        default=1,
        help="Number of validations in a row without improvement after which the learning rate is reduced. "
        "1: at the first.",
        ge=1,
        le=1_000_000,
    )
    warmup_steps: int = _warmup_option(0)
    min_factor: float = option(
        default=1e-3,
        help="Minimum learning rate as a fraction of `learning_rate`; training continues at the minimum. 0: "
        "no minimum.",
        ge=0,
        le=1,
    )


@configclass
class ExponentialConfig:
    """The schedule of Malaviya et al. (2018).

    By default, the learning rate is halved after every epoch, from epoch 8 or from the first increase of the
    validation perplexity, whichever comes first.
    """

    kind: Literal["exponential"] = option(
        default="exponential", help="A reduction of the learning rate after every epoch from some epoch on."
    )
    factor: float = option(
        default=0.5, help="Factor by which the learning rate is reduced, in (0, 1).", gt=0, lt=1
    )
    start_epoch: int = option(
        default=8,
        help="First epoch, from 1, after which the learning rate is reduced even if the validation "
        "perplexity has not increased. Once it has been reduced, it is reduced after every epoch.",
        ge=1,
        le=1_000_000_000,
    )
    warmup_steps: int = _warmup_option(0)


ScheduleConfig = Annotated[
    ConstantConfig | InverseSqrtConfig | PlateauConfig | ExponentialConfig, TaggedUnion("plateau")
]


class LRScheduler:
    """A learning-rate schedule: the factor of the learning rate in each step.

    The trainer calls `factor` before every step, `on_validation` after every validation and `on_epoch_end`
    after every epoch.

    Args:
        config: The kind of the schedule and its options.
    """

    def __init__(self, config: ScheduleConfig) -> None:
        """Create the schedule before the first step."""
        self.config = config
        self.scale = 1.0
        self.validations_since_best = 0
        self.is_decaying = False
        self.last_perplexity: float | None = None

    def factor(self, step: int) -> float:
        """Return the factor of the learning rate in a step, counted from 1."""
        warmup_steps = self.config.warmup_steps
        if isinstance(self.config, InverseSqrtConfig):
            # Vaswani et al. (2017), Equation 3, scaled so that its maximum is 1, at the end of the warm-up.
            return min(step / warmup_steps, (warmup_steps / step) ** 0.5)
        return self.scale * min(1.0, step / warmup_steps if warmup_steps else 1.0)

    def on_validation(self, improved: bool) -> None:
        """Receive whether a validation was the best so far."""
        if not isinstance(self.config, PlateauConfig):
            return
        self.validations_since_best = 0 if improved else self.validations_since_best + 1
        if self.validations_since_best >= self.config.patience:
            self.scale = max(self.config.min_factor, self.scale * self.config.factor)
            # After a reduction, the next one needs `patience` further validations without improvement.
            self.validations_since_best = 0

    def on_epoch_end(self, epoch: int, perplexity: float | None) -> None:
        """Receive the number of a finished epoch, from 1, and its validation perplexity, if any."""
        if not isinstance(self.config, ExponentialConfig):
            return
        # An epoch without a validation does not count as an increase.
        rose = (
            perplexity is not None and self.last_perplexity is not None and perplexity > self.last_perplexity
        )
        self.is_decaying = self.is_decaying or epoch >= self.config.start_epoch or rose
        # The comparison is with the previous epoch, not with the best one.
        self.last_perplexity = perplexity
        if self.is_decaying:
            self.scale *= self.config.factor

    def state_dict(self) -> dict[str, Any]:
        """Return the state for the checkpoint."""
        return {name: value for name, value in vars(self).items() if name != "config"}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        vars(self).update(state)


def freeze_parameters(model: nn.Module, patterns: Iterable[str]) -> None:
    """Freeze the parameters whose names match a pattern.

    Args:
        model: The model; `requires_grad` of its matching parameters is set to False.
        patterns: Patterns of parameter names, such as `encoder.*`.

    Raises:
        ConfigError: if a pattern matches no parameter, or all parameters would be frozen.
    """
    named = dict(model.named_parameters())
    for pattern in patterns:
        matches = fnmatch.filter(named, pattern)
        if not matches:
            raise ConfigError(
                f"training.freeze: {pattern!r} matches no parameter; the parameters are: "
                f"{', '.join(sorted(named))}"
            )
        for name in matches:
            named[name].requires_grad_(False)
    if not any(parameter.requires_grad for parameter in named.values()):
        raise ConfigError("training.freeze: every parameter is frozen; use patterns that match fewer of them")


def build_optimizer(
    config: OptimizerConfig, parameters: Iterable[Tensor] | Iterable[dict[str, Any]]
) -> torch.optim.Optimizer:
    """Return the optimizer that a config describes.

    Args:
        config: The options of the optimizer.
        parameters: The trained parameters, or parameter groups.
    """
    match config:
        case AdamConfig():
            # Without weight decay, AdamW is identical to Adam.
            return torch.optim.AdamW(
                parameters,
                lr=config.learning_rate,
                betas=(config.beta1, config.beta2),
                eps=config.epsilon,
                weight_decay=config.weight_decay,
                fused=True,
            )
        case SgdConfig():
            return torch.optim.SGD(parameters, lr=config.learning_rate, fused=True)


def clip_gradients(parameters: Iterable[Tensor], max_norm: float, norm: float) -> None:
    """Scale gradients of the total norm `norm` in place to a norm of at most `max_norm`; 0 means no limit."""
    # `torch.nn.utils.clip_grad_norm_` would compute the norm again.
    # An infinite norm gives the factor 0, which turns infinite gradients into NaN.
    if max_norm and norm > max_norm and math.isfinite(norm):
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(max_norm / norm)


def optimizer_state_tensors(optimizer: torch.optim.Optimizer, names: list[str]) -> dict[str, Tensor]:
    """Return the tensors of the optimizer's state, under keys of the form `PARAMETER/KIND`.

    Args:
        optimizer: An optimizer of parameters in the order of `names`.
        names: The names of the parameters.
    """
    # Names replace PyTorch's numbers, so that a run with other trained parameters is detected.
    state = optimizer.state_dict()["state"]
    return {
        f"{names[number]}/{kind}": value
        for number, values in state.items()
        for kind, value in values.items()
        if isinstance(value, torch.Tensor)
    }


def load_optimizer_state(
    optimizer: torch.optim.Optimizer, names: list[str], tensors: dict[str, Tensor]
) -> None:
    """Restore the optimizer's state from the tensors that `optimizer_state_tensors` returned.

    Raises:
        CheckpointError: if the state contains a parameter that is not trained.
    """
    numbers = {name: number for number, name in enumerate(names)}
    state: dict[int, dict[str, Any]] = {}
    for key, value in tensors.items():
        # A kind contains no slash, so the last slash ends the name of the parameter.
        name, _, kind = key.rpartition("/")
        if name not in numbers:
            raise CheckpointError(
                f"the optimizer's state contains the parameter {name!r}, which this run does not train"
            )
        state.setdefault(numbers[name], {})[kind] = value
    # The groups are those of this run, because each step computes the learning rates anew.
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def parameter_groups(model: TranslationModel, pretrained_factor: float) -> list[dict[str, Any]]:
    """Return the optimizer's parameter groups: new and pre-trained parameters, with their rate factors.

    Args:
        model: The model; parameters that do not require a gradient are omitted.
        pretrained_factor: The factor of the learning rate of pre-trained parameters.

    Raises:
        ConfigError: if the factor is not 1, but no parameter is pre-trained.
    """
    pretrained = frozenset[str]() if pretrained_factor == 1 else frozenset(model.pretrained_parameters())
    if pretrained_factor != 1 and not pretrained:
        raise ConfigError(
            "training.pretrained_lr_factor: the model has no pre-trained layers; to start from a trained "
            "model, use training.init_from"
        )
    groups: dict[float, list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups.setdefault(pretrained_factor if name in pretrained else 1.0, []).append(parameter)
    return [{"params": values, LR_FACTOR_KEY: factor} for factor, values in groups.items()]
