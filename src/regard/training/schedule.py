"""Learning-rate schedules: small state machines that scale the optimizer's rate.

A schedule is asked for its factor before every update, and told each validation's score and each epoch's end.
What it remembers is a dictionary of numbers that goes into the checkpoint.
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
    """The rate stays as it is, after a warm-up where one is asked for."""

    kind: Literal["constant"] = option(default="constant", help="The schedule: none.")
    warmup: int = option(
        default=0, help="Updates in which the rate rises from 0 in a line.", ge=0, le=1_000_000_000
    )


@config
class InverseSqrtConfig:
    """A linear warm-up to the optimizer's rate, then rate * sqrt(warmup / update) (Vaswani et al. 2017)."""

    kind: Literal["inverse-sqrt"] = option(
        default="inverse-sqrt", help="The schedule: warm-up, then the inverse square root."
    )
    warmup: int = option(
        default=4000, help="Updates in which the rate rises from 0 in a line.", ge=1, le=1_000_000_000
    )


@config
class PlateauConfig:
    """The rate falls whenever validation stops improving."""

    kind: Literal["plateau"] = option(
        default="plateau", help="The schedule: lower the rate when validation stops improving."
    )
    factor: float = option(default=0.5, help="What the rate is then multiplied by.", gt=0, lt=1)
    patience: int = option(
        default=1, help="Validations in a row without improvement before it falls.", ge=1, le=1_000_000
    )
    warmup: int = option(
        default=0, help="Updates in which the rate rises from 0 in a line.", ge=0, le=1_000_000_000
    )
    least: float = option(default=1e-3, help="The factor never falls below this.", ge=0, le=1)


@config
class HalvingConfig:
    """As Malaviya et al. (2018): halved after every epoch from epoch 8, or from validation's first rise."""

    kind: Literal["halving"] = option(
        default="halving", help="The schedule: halve after every epoch from some epoch on."
    )
    factor: float = option(default=0.5, help="What the rate is multiplied by.", gt=0, lt=1)
    start: int = option(
        default=8,
        help="The first epoch after which it falls, whatever validation says.",
        ge=1,
        le=1_000_000_000,
    )
    warmup: int = option(
        default=0, help="Updates in which the rate rises from 0 in a line.", ge=0, le=1_000_000_000
    )


ScheduleConfig = Annotated[
    ConstantConfig | InverseSqrtConfig | PlateauConfig | HalvingConfig, Kinds("plateau")
]


class Schedule:
    """A learning-rate schedule; this one warms up and then stays at 1."""

    def __init__(self, warmup: int = 0) -> None:
        """Start before the first update."""
        self.warmup = warmup
        self.scale = 1.0

    def factor(self, update: int) -> float:
        """What the optimizer's rate is multiplied by in an update, counted from 1."""
        return self.scale * min(1.0, update / self.warmup if self.warmup else 1.0)

    def validated(self, improved: bool) -> None:
        """Learn of a validation, and whether it was the best so far."""

    def epoch_ended(self, epoch: int, perplexity: float | None) -> None:
        """Learn that an epoch (from 1) ended, and of the perplexity of the validation at its end, if any."""

    def state(self) -> dict[str, Any]:
        """What it remembers."""
        return {"scale": self.scale}

    def load(self, state: dict[str, Any]) -> None:
        """Remember what `state` gave."""
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
    """The schedule a config describes."""
    match config:
        case ConstantConfig():
            return Schedule(config.warmup)
        case InverseSqrtConfig():
            return _InverseSqrt(config.warmup)
        case PlateauConfig():
            return _Plateau(config)
        case HalvingConfig():
            return _Halving(config)
