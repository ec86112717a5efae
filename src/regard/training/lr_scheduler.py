"""Learning-rate schedules: state machines that return a factor of the optimizer's learning rate.

The trainer calls `factor` before every step, `on_validation` after every validation and `on_epoch_end` after
every epoch. The state of a schedule is a dictionary that is stored in the checkpoint.
"""

from typing import Annotated, Any, Literal

from regard.config import TaggedUnion, configclass, option

__all__ = [
    "ConstantConfig",
    "ExponentialConfig",
    "InverseSqrtConfig",
    "LRScheduler",
    "PlateauConfig",
    "ScheduleConfig",
    "build_lr_scheduler",
]


def _warmup_option(default: int) -> Any:
    """Return the option of the warm-up; a schedule without warm-up by default also permits 0 steps."""
    text = "Number of warm-up steps, in which the learning rate rises linearly from 0 to `learning_rate`."
    text += "" if default else " 0 disables warm-up."
    return option(default=default, help=text, ge=1 if default else 0, le=1_000_000_000)


def _factor_option() -> Any:
    return option(default=0.5, help="Factor by which the learning rate is reduced, in (0, 1).", gt=0, lt=1)


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
    factor: float = _factor_option()
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
    factor: float = _factor_option()
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
    """A learning-rate schedule; the base class has a linear warm-up and then the constant factor 1."""

    def __init__(self, warmup_steps: int = 0) -> None:
        """Create the schedule before the first step."""
        self.warmup_steps = warmup_steps
        self.scale = 1.0

    def factor(self, step: int) -> float:
        """Return the factor of the learning rate in a step, counted from 1."""
        return self.scale * min(1.0, step / self.warmup_steps if self.warmup_steps else 1.0)

    def on_validation(self, improved: bool) -> None:
        """Receive whether a validation was the best so far."""

    def on_epoch_end(self, epoch: int, perplexity: float | None) -> None:
        """Receive the number of a finished epoch, from 1, and its validation perplexity, if any."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state for the checkpoint."""
        return {name: value for name, value in vars(self).items() if name not in ("config", "warmup_steps")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        for name, value in state.items():
            setattr(self, name, value)


class _InverseSqrt(LRScheduler):
    def factor(self, step: int) -> float:
        # Vaswani et al. (2017), Equation 3, scaled so that its maximum is 1, at the end of the warm-up.
        return min(step / self.warmup_steps, (self.warmup_steps / step) ** 0.5)


class _Plateau(LRScheduler):
    def __init__(self, config: PlateauConfig) -> None:
        super().__init__(config.warmup_steps)
        self.config = config
        self.validations_since_best = 0

    def on_validation(self, improved: bool) -> None:
        self.validations_since_best = 0 if improved else self.validations_since_best + 1
        if self.validations_since_best >= self.config.patience:
            self.scale = max(self.config.min_factor, self.scale * self.config.factor)
            # After a reduction, the next one needs `patience` further validations without improvement.
            self.validations_since_best = 0


class _Exponential(LRScheduler):
    def __init__(self, config: ExponentialConfig) -> None:
        super().__init__(config.warmup_steps)
        self.config = config
        self.is_decaying = False
        self.last_perplexity: float | None = None

    def on_epoch_end(self, epoch: int, perplexity: float | None) -> None:
        # An epoch without a validation does not count as an increase.
        rose = (
            perplexity is not None and self.last_perplexity is not None and perplexity > self.last_perplexity
        )
        self.is_decaying = self.is_decaying or epoch >= self.config.start_epoch or rose
        # The comparison is with the previous epoch, not with the best one.
        self.last_perplexity = perplexity
        if self.is_decaying:
            self.scale *= self.config.factor


def build_lr_scheduler(config: ScheduleConfig) -> LRScheduler:
    """Return the schedule that a config describes."""
    match config:
        case ConstantConfig():
            return LRScheduler(config.warmup_steps)
        case InverseSqrtConfig():
            return _InverseSqrt(config.warmup_steps)
        case PlateauConfig():
            return _Plateau(config)
        case ExponentialConfig():
            return _Exponential(config)
