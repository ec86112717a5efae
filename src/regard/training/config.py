"""Options of a training run: batches, optimizer, validation, checkpoints and stopping."""

from typing import Annotated

from regard.config import configclass, option
from regard.data.batch import BatchConfig
from regard.metrics.base import METRICS
from regard.models.base import Precision
from regard.training.losses.base import LossConfig
from regard.training.optimizer import (
    AdamConfig,
    ExponentialConfig,
    OptimizerConfig,
    PlateauConfig,
    ScheduleConfig,
)


@configclass
class RunOptions:
    """The options of every training run: its directory, seed, device and threads."""

    output_dir: str | None = option(
        default=None,
        help="Output directory of the run. Default: `runs/NAME` in the current directory for a config file "
        "`NAME.toml`.",
    )
    seed: int = option(
        default=1,
        help="Random seed of the initial weights, the order of the data, dropout and, in pre-training, "
        "masked positions.",
        ge=0,
        le=2**32 - 1,
    )
    device: str = option(
        default="auto", help="Device: auto (a GPU if available, else the CPU), cpu, cuda or cuda:N."
    )
    num_threads: int = option(
        default=0,
        help="Number of CPU threads for matrix multiplications. 0 uses all available processors.",
        ge=0,
        le=1_024,
    )


@configclass
class ValidationConfig:
    """The validation interval, the metric and early stopping."""

    every_steps: int | None = option(
        default=None,
        help="Interval between validations in steps, instead of a validation at the end of every epoch. "
        "Default: at the end of every epoch.",
        ge=1,
        le=1_000_000_000,
    )
    metric: Annotated[str, METRICS] = option(
        default="perplexity",
        help="Metric that selects the best model and drives early stopping and the plateau schedule: "
        "perplexity per token, or a metric of `regard evaluate` on greedy translations, such as "
        "bleu or accuracy. DROP needs word links and is not supported.",
    )
    early_stopping_patience: int | None = option(
        default=None,
        help="Number of validations in a row without improvement after which training stops. "
        "Default: no early stopping.",
        ge=1,
        le=1_000_000,
    )

    def __post_init__(self) -> None:
        """Reject a metric that translations alone do not determine."""
        metric = METRICS.get(self.metric)
        if metric is not None and metric.needs_links:
            raise ValueError(f"metric = {self.metric!r} needs word links: use another metric")


@configclass
class StopConfig:
    """The limits of a training run; the run ends at the first limit that is reached."""

    max_epochs: int = option(
        default=20, help="Maximum number of epochs. 0 means no limit.", ge=0, le=1_000_000_000
    )
    max_steps: int = option(
        default=0, help="Maximum number of optimizer steps. 0 means no limit.", ge=0, le=1_000_000_000
    )
    max_minutes: float = option(
        default=0.0,
        help="Maximum wall-clock time in minutes, including validation and earlier parts of a resumed run. "
        "0 means no limit.",
        ge=0,
        le=1e7,
    )

    def __post_init__(self) -> None:
        """Reject a run without a limit."""
        if not (self.max_epochs or self.max_steps or self.max_minutes):
            raise ValueError(
                "training would never end: set one of max_epochs, max_steps and max_minutes above 0"
            )


@configclass
class CheckpointConfig:
    """When checkpoints are written, in addition to the end of every epoch and every validation."""

    every_steps: int | None = option(
        default=None,
        help="Interval between checkpoints in steps. Default: no checkpoints by number of steps.",
        ge=1,
        le=1_000_000_000,
    )
    every_minutes: float = option(default=10.0, help="Interval between checkpoints in minutes.", gt=0, le=1e6)
    keep_last_epochs: int = option(
        default=0,
        help="Number of last epochs whose final weights are kept, for averaging. 0 keeps none.",
        ge=0,
        le=1_000_000,
    )


@configclass
class LoggingConfig:
    """The logging of training metrics."""

    every_steps: int = option(
        default=50, help="Interval between lines of record.jsonl in steps.", ge=1, le=1_000_000_000
    )
    tensorboard: bool = option(
        default=False, help="Whether to write TensorBoard event files to the directory `tensorboard` as well."
    )


@configclass
class TrainingConfig(BatchConfig, StopConfig):
    """The options of training, with those of batches and of the limits of the run."""

    gradient_accumulation: int = option(
        default=1,
        help="Number of batches of `batch_size` whose gradients are accumulated in a step. 1: no "
        "accumulation.",
        ge=1,
        le=100_000,
    )
    optimizer: OptimizerConfig = option(default=AdamConfig, help="The optimizer.")
    lr_scheduler: ScheduleConfig = option(default=PlateauConfig, help="The learning-rate schedule.")
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
    losses: tuple[LossConfig, ...] = option(
        default=(),
        help="Loss terms in addition to the model's own objective, applied in the order of the list. "
        "Default: none.",
    )
    pretrained_lr_factor: float = option(
        default=1.0,
        help="Factor of the learning rate of the pre-trained parameters of a model of kind hf or pretrained. "
        "Weights of training.init_from do not count as pre-trained.",
        gt=0,
        le=1e6,
    )
    freeze: tuple[str, ...] = option(
        default=(),
        help="Parameters that are not trained, as shell patterns of their names, such as `encoder.*`. A "
        "pattern without a match gives an error that lists all names. Default: none.",
    )
    init_from: str | None = option(
        default=None,
        help="Model directory or weight file that initializes the model; vocabularies and sizes must be "
        "equal. Attention parameters that it lacks or that have another shape there are random. "
        "Default: random initialization.",
    )
    validation: ValidationConfig = option(default=ValidationConfig, help="Validation and early stopping.")
    checkpoint: CheckpointConfig = option(default=CheckpointConfig, help="Checkpoint intervals.")
    logging: LoggingConfig = option(default=LoggingConfig, help="Logging of training metrics.")

    def __post_init__(self) -> None:
        """Reject options that contradict each other."""
        super().__post_init__()
        # The schedule compares the perplexities of consecutive epochs, so each epoch must have one.
        if isinstance(self.lr_scheduler, ExponentialConfig) and self.validation.every_steps is not None:
            raise ValueError(
                "lr_scheduler.kind = 'exponential' needs a validation at the end of every epoch: remove "
                "validation.every_steps"
            )
