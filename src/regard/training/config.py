"""Options of a training run: batches, optimizer, validation, checkpoints and stopping."""

from typing import Literal

from regard.config import config, option
from regard.data.batch import BatchConfig
from regard.training.device import Precision
from regard.training.optimizer import AdamConfig, OptimizerConfig
from regard.training.schedule import HalvingConfig, PlateauConfig, ScheduleConfig

__all__ = ["CheckpointConfig", "RecordConfig", "StopConfig", "TrainingConfig", "ValidationConfig"]


@config
class ValidationConfig:
    """The validation interval, the metric and early stopping."""

    every: int | None = option(
        default=None,
        help="Interval between validations in steps. Default: validate at the end of every epoch.",
        ge=1,
        le=1_000_000_000,
    )
    metric: Literal["perplexity", "bleu", "accuracy"] = option(
        default="perplexity",
        help="Metric that selects the best model and drives early stopping and the plateau schedule.",
    )
    patience: int | None = option(
        default=None,
        help="Number of validations in a row without improvement after which training stops. "
        "Default: no early stopping.",
        ge=1,
        le=1_000_000,
    )


@config
class StopConfig:
    """The limits of a training run; the run ends at the first limit that is reached."""

    epochs: int = option(
        default=20, help="Maximum number of epochs. 0 means no limit.", ge=0, le=1_000_000_000
    )
    updates: int = option(
        default=0, help="Maximum number of optimizer steps. 0 means no limit.", ge=0, le=1_000_000_000
    )
    minutes: float = option(
        default=0.0,
        help="Maximum wall-clock time in minutes, including validation and earlier parts of a resumed run. "
        "0 means no limit.",
        ge=0,
        le=1e7,
    )

    def __post_init__(self) -> None:
        """Reject a run without a limit."""
        if not (self.epochs or self.updates or self.minutes):
            raise ValueError("training would never end: set one of epochs, updates and minutes above 0")


@config
class CheckpointConfig:
    """When checkpoints are written, in addition to the end of every epoch and every validation."""

    every: int | None = option(
        default=None,
        help="Interval between checkpoints in steps. Default: no checkpoints by number of steps.",
        ge=1,
        le=1_000_000_000,
    )
    minutes: float = option(default=10.0, help="Interval between checkpoints in minutes.", gt=0, le=1e6)
    keep: int = option(
        default=0,
        help="Number of last epochs whose final weights are kept, for averaging. 0 keeps none.",
        ge=0,
        le=1_000_000,
    )


@config
class RecordConfig:
    """The logging of training metrics."""

    every: int = option(
        default=50, help="Interval between lines of record.jsonl in steps.", ge=1, le=1_000_000_000
    )
    tensorboard: bool = option(
        default=False, help="Whether to write TensorBoard event files to the directory `tensorboard` as well."
    )


@config
class TrainingConfig(BatchConfig, StopConfig):
    """The options of training, with those of batches and of the limits of the run."""

    accumulate: int = option(
        default=1, help="Number of batches whose gradients are accumulated in a step.", ge=1, le=100_000
    )
    optimizer: OptimizerConfig = option(default=AdamConfig, help="The optimizer.")
    schedule: ScheduleConfig = option(default=PlateauConfig, help="The learning-rate schedule.")
    label_smoothing: float = option(
        default=0.0,
        help="Probability mass that is spread uniformly over the vocabulary, in [0, 1) "
        "(Szegedy et al. 2016). 0 disables label smoothing.",
        ge=0,
        lt=1,
    )
    precision: Precision = option(
        default="float32", help="Precision of matrix multiplications; parameters stay in float32."
    )
    freeze: tuple[str, ...] = option(
        default=(), help="Parameters that are not trained, as patterns of names: `encoder.*`."
    )
    start: str | None = option(
        default=None,
        help="Model directory or weight file that initializes the model; its attention mechanism may differ. "
        "Default: random initialization.",
    )
    validation: ValidationConfig = option(default=ValidationConfig, help="Validation and early stopping.")
    checkpoint: CheckpointConfig = option(default=CheckpointConfig, help="Checkpoint intervals.")
    record: RecordConfig = option(default=RecordConfig, help="Logging of training metrics.")

    def __post_init__(self) -> None:
        """Reject options that contradict each other."""
        super().__post_init__()
        if isinstance(self.schedule, HalvingConfig) and self.validation.every is not None:
            raise ValueError(
                "lr_scheduler.kind = 'exponential' needs a validation at the end of every epoch: remove validation.every"
            )
