"""The settings of a training run: what an update is, when to validate, to save and to stop."""

from typing import Literal

from regard.config import config, option
from regard.data.batch import BatchConfig
from regard.training.device import Precision
from regard.training.optimizer import AdamConfig, OptimizerConfig
from regard.training.schedule import HalvingConfig, PlateauConfig, ScheduleConfig

__all__ = ["CheckpointConfig", "RecordConfig", "StopConfig", "TrainingConfig", "ValidationConfig"]


@config
class ValidationConfig:
    """When the model is tried on the validation split, and by what it is judged."""

    every: int | None = option(
        default=None,
        help="Updates between validations; none: at the end of every epoch.",
        ge=1,
        le=1_000_000_000,
    )
    metric: Literal["perplexity", "bleu", "accuracy"] = option(
        default="perplexity", help="What the best model is chosen by, and early stopping and plateaus go by."
    )
    patience: int | None = option(
        default=None,
        help="Stop after this many validations in a row without improvement; none: go on.",
        ge=1,
        le=1_000_000,
    )


@config
class StopConfig:
    """When training ends: at whichever limit comes first."""

    epochs: int = option(
        default=20, help="Passes over the training text; 0: no limit.", ge=0, le=1_000_000_000
    )
    updates: int = option(default=0, help="Updates of the parameters; 0: no limit.", ge=0, le=1_000_000_000)
    minutes: float = option(
        default=0.0,
        help="Minutes by the clock, validation included, over all resumes; 0: no limit.",
        ge=0,
        le=1e7,
    )

    def __post_init__(self) -> None:
        """Refuse a run without an end."""
        if not (self.epochs or self.updates or self.minutes):
            raise ValueError("one of epochs, updates and minutes must be above 0, or training would not end")


@config
class CheckpointConfig:
    """When the state of training is saved, beside the end of every epoch and every validation."""

    every: int | None = option(
        default=None,
        help="Updates between checkpoints; none: no more than the other rules ask.",
        ge=1,
        le=1_000_000_000,
    )
    minutes: float = option(default=10.0, help="Minutes between checkpoints.", gt=0, le=1e6)
    keep: int = option(
        default=0,
        help="Keep the weights at the end of this many last epochs, to average them.",
        ge=0,
        le=1_000_000,
    )


@config
class RecordConfig:
    """What is written down of a run."""

    every: int = option(default=50, help="Updates between lines of record.jsonl.", ge=1, le=1_000_000_000)
    tensorboard: bool = option(
        default=False, help="Write TensorBoard's files too, into the folder `tensorboard`."
    )


@config
class TrainingConfig:
    """How a model is trained."""

    batch: BatchConfig = option(default=BatchConfig, help="What goes into a batch; all processes together.")
    accumulate: int = option(default=1, help="Batches in an update.", ge=1, le=100_000)
    optimizer: OptimizerConfig = option(default=AdamConfig, help="The optimizer.")
    schedule: ScheduleConfig = option(default=PlateauConfig, help="The learning-rate schedule.")
    label_smoothing: float = option(
        default=0.0,
        help="Share of the probability spread over the whole vocabulary (Szegedy et al. 2016).",
        ge=0,
        lt=1,
    )
    precision: Precision = option(
        default="float32", help="What products are made in; parameters stay in float32."
    )
    freeze: tuple[str, ...] = option(
        default=(), help="Parameters that stay as they are, by names with wildcards: `encoder.*`."
    )
    start: str | None = option(
        default=None,
        help="The model folder, or file of weights, whose weights to start from; attention may be another.",
    )
    validation: ValidationConfig = option(default=ValidationConfig, help="When to validate.")
    stop: StopConfig = option(default=StopConfig, help="When to stop.")
    checkpoint: CheckpointConfig = option(default=CheckpointConfig, help="When to save.")
    record: RecordConfig = option(default=RecordConfig, help="What to write down.")

    def __post_init__(self) -> None:
        """Refuse settings that do not fit together."""
        if isinstance(self.schedule, HalvingConfig) and self.validation.every is not None:
            raise ValueError("schedule 'halving' goes by epochs: leave validation.every out")
