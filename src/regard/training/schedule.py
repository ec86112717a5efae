"""Learning-rate schedules: state machines that return a factor of the optimizer's learning rate.

The trainer calls `factor` before every step, `validated` after every validation and `epoch_ended` after every
epoch. The state of a schedule is a dictionary that is stored in the checkpoint.
"""

from typing import Annotated, Any, Literal

from regard.config import Kinds, config, option

__all__ = [
    "ConstantConfig",
    "HalvingConfig",
    "InverseSqrtConfig",
    "PlateauConfig",
    "Schedule",
    "ScheduleConfig",
    "build_schedule",
]


@config
class ConstantConfig:
    """A constant learning rate after an optional linear warm-up."""

    kind: Literal["constant"] = option(default="constant", help="Schedule: constant learning rate.")
    warmup: int = option(
        default=0,
        help="Number of warm-up steps, in which the learning rate increases linearly from 0. 0 disables "
        "warm-up.",
        ge=0,
        le=1_000_000_000,
    )


@config
class InverseSqrtConfig:
    """Linear warm-up to the learning rate, then rate * sqrt(warmup / step) (Vaswani et al. 2017)."""

    kind: Literal["inverse_sqrt"] = option(
        default="inverse_sqrt", help="Schedule: linear warm-up, then inverse square root of the step."
    )
    warmup: int = option(
        default=4000,
        help="Number of warm-up steps, in which the learning rate increases linearly from 0.",
        ge=1,
        le=1_000_000_000,
    )


@config
class PlateauConfig:
    """A learning rate that is reduced when the validation metric stops improving."""

    kind: Literal["plateau"] = option(
        default="plateau", help="Schedule: reduce the learning rate when validation stops improving."
    )
    factor: float = option(
        default=0.5, help="Factor by which the learning rate is reduced, in (0, 1).", gt=0, lt=1
    )
    patience: int = option(
        default=1,
        help="Number of validations in a row without improvement before a reduction.",
        ge=1,
        le=1_000_000,
    )
    warmup: int = option(
        default=0,
        help="Number of warm-up steps, in which the learning rate increases linearly from 0. 0 disables "
        "warm-up.",
        ge=0,
        le=1_000_000_000,
    )
    least: float = option(
        default=1e-3, help="Minimum factor of the learning rate, in [0, 1].", ge=0, le=1
    )


@config
class HalvingConfig:
    """The schedule of Malaviya et al. (2018).

    The learning rate is halved after every epoch, from epoch 8 or from the first increase of the validation
    perplexity, whichever comes first.
    """

    kind: Literal["exponential"] = option(
        default="exponential", help="Schedule: reduce the learning rate after every epoch from some epoch on."
    )
    factor: float = option(
        default=0.5, help="Factor by which the learning rate is reduced, in (0, 1).", gt=0, lt=1
    )
    start: int = option(
        default=8,
        help="First epoch, from 1, after which the learning rate is reduced even if the validation "
        "perplexity has not increased.",
        ge=1,
        le=1_000_000_000,
    )
    warmup: int = option(
        default=0,
        help="Number of warm-up steps, in which the learning rate increases linearly from 0. 0 disables "
        "warm-up.",
        ge=0,
        le=1_000_000_000,
    )


ScheduleConfig = Annotated[
    ConstantConfig | InverseSqrtConfig | PlateauConfig | HalvingConfig, Kinds("plateau")
]


class Schedule:
    """A learning-rate schedule; the base class has a linear warm-up and then the constant factor 1."""

    def __init__(self, warmup: int = 0) -> None:
        """Create the schedule before the first step."""
        self.warmup = warmup
        self.scale = 1.0

    def factor(self, update: int) -> float:
        """Return the factor of the learning rate in a step, counted from 1."""
        return self.scale * min(1.0, update / self.warmup if self.warmup else 1.0)

    def validated(self, improved: bool) -> None:
        """Receive whether a validation was the best so far."""

    def epoch_ended(self, epoch: int, perplexity: float | None) -> None:
        """Receive the number of a finished epoch, from 1, and its validation perplexity, if any."""

    def state(self) -> dict[str, Any]:
        """Return the state for the checkpoint."""
        return {"scale": self.scale}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
        for name, value in state.items():
            setattr(self, name, value)


class _InverseSqrt(Schedule):
    def factor(self, update: int) -> float:
        return min(update / self.warmup, (self.warmup / update) ** 0.5)


class _Plateau(Schedule):
    def __init__(self, config: PlateauConfig) -> None:
        super().__init__(config.warmup)
        self.config = config
        self.waited = 0

    def validated(self, improved: bool) -> None:
        self.waited = 0 if improved else self.waited + 1
        if self.waited >= self.config.patience:
            self.scale = max(self.config.least, self.scale * self.config.factor)
            self.waited = 0

    def state(self) -> dict[str, Any]:
        return {"scale": self.scale, "waited": self.waited}


class _Halving(Schedule):
    def __init__(self, config: HalvingConfig) -> None:
        super().__init__(config.warmup)
        self.config = config
        self.falling = False
        self.last: float | None = None

    def epoch_ended(self, epoch: int, perplexity: float | None) -> None:
        rose = perplexity is not None and self.last is not None and perplexity > self.last
        self.falling = self.falling or epoch >= self.config.start or rose
        self.last = perplexity
        if self.falling:
            self.scale *= self.config.factor

    def state(self) -> dict[str, Any]:
        return {"scale": self.scale, "falling": self.falling, "last": self.last}


def build_schedule(config: ScheduleConfig) -> Schedule:
    """Return the schedule that a config describes."""
    match config:
        case ConstantConfig():
            return Schedule(config.warmup)
        case InverseSqrtConfig():
            return _InverseSqrt(config.warmup)
        case PlateauConfig():
            return _Plateau(config)
        case HalvingConfig():
            return _Halving(config)
