"""The surroundings of a training run: its directory and processes, and the callbacks that follow it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.models.base import TranslationModel
from regard.training.distributed import SINGLE_PROCESS, ProcessGroup

__all__ = ["Callback", "RunContext", "StepStatistics"]


@dataclass(frozen=True)
class RunContext:
    """The directory, the random seed and the processes of a run.

    Attributes:
        output_dir: The model directory; it exists, and the first process has locked it
            (`regard.data.directories`).
        seed: The random seed of the run.
        processes: The processes of the run.
        identity: Values that must not change when the run is resumed, by name, such as the checksum of the
            data.
        file_checksums: The checksums of the files that the weights depend on; see
            `regard.training.resume.file_checksums`.
        translation_metric: A function that returns the validation metric of the model's translations, if the
            metric is not perplexity. The first process calls it.
    """

    output_dir: Path
    seed: int = 0
    processes: ProcessGroup = SINGLE_PROCESS
    identity: Mapping[str, Any] = field(default_factory=dict)
    file_checksums: Mapping[str, str] = field(default_factory=dict)
    translation_metric: Callable[[TranslationModel], float] | None = None


@dataclass(frozen=True)
class StepStatistics:
    """The statistics of one step, over all processes; losses are sums in nats.

    Attributes:
        step: The number of the step, from 1.
        loss: The minimized loss.
        nll: -log p of the references.
        grad_norm: The norm of the gradient per token or sentence, before clipping.
        tokens: The number of target tokens.
        flops: The number of floating-point operations.
        seconds: The time of the first process since its last step.
        stop_requested: Whether any process received a signal to stop.
        learning_rate: The learning rate.
        applied: Whether the optimizer changed the parameters; it does not if the loss or the gradient is not
            finite.
    """

    step: int
    loss: float
    nll: float
    grad_norm: float
    tokens: int
    flops: float
    seconds: float
    stop_requested: bool
    learning_rate: float
    applied: bool


class Callback:
    """Base class of callbacks, whose methods the first process of a run calls during training.

    An exception ends the training; the last checkpoint remains.
    """

    def on_step(self, statistics: StepStatistics) -> None:
        """Handle the end of an optimizer step."""

    def on_validation(self, entry: Mapping[str, Any]) -> None:
        """Handle the end of a validation.

        Args:
            entry: The line of the metrics log; see `regard.training.metrics_logger`.
        """

    def on_checkpoint(self, path: Path) -> None:
        """Handle a new checkpoint.

        Args:
            path: The file of the training state.
        """
