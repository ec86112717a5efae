"""The surroundings of a training run: its directory, processes and callbacks, and signals that stop it."""

import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from regard.models.base import TranslationModel
from regard.training.processes import SINGLE_PROCESS, ProcessGroup

__all__ = ["Callback", "RunContext", "SignalHandler", "StepStatistics"]


@dataclass(frozen=True)
class RunContext:
    """The directory, the random seed and the processes of a run.

    Attributes:
        output_dir: The model directory; it exists, and the first process has locked it
            (`regard.text.directories`).
        seed: The random seed of the run.
        processes: The processes of the run.
        identity: Values that must not change when the run is resumed, by name, such as the checksum of the
            data.
        file_checksums: The checksums of the files that the weights depend on; see
            `regard.runs.checksums.file_checksums`.
        translation_metric: A function that returns the validation metric of the model's translations, if the
            metric is not perplexity. The first process calls it.
        show_progress: Whether the first process writes its progress to stderr, and not only to the log.
    """

    output_dir: Path
    seed: int = 0
    processes: ProcessGroup = SINGLE_PROCESS
    identity: Mapping[str, Any] = field(default_factory=dict)
    file_checksums: Mapping[str, str] = field(default_factory=dict)
    translation_metric: Callable[[TranslationModel], float] | None = None
    show_progress: bool = False


@dataclass(frozen=True)
class StepStatistics:
    """The statistics of one step, over all processes; losses are sums in nats.

    Attributes:
        step: The number of the step, from 1.
        loss: The minimized loss.
        nll: -log p of the references.
        grad_norm: The norm of the gradient per token or sentence, before clipping.
        tokens: The number of target tokens.
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


HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SignalHandler:
    """A context in which the first Ctrl-C or SIGTERM is recorded and the second has its usual effect.

    Attributes:
        signal_number: The number of the received signal, or None. Signals are caught only in the main thread.
    """

    def __init__(self) -> None:
        """Create the context without installing handlers."""
        self.signal_number: int | None = None
        self._before: dict[int, Any] = {}

    def stop_requested(self) -> bool:
        """Return whether a signal was received."""
        return self.signal_number is not None

    def __enter__(self) -> "SignalHandler":
        """Install the signal handlers."""
        # Python raises ValueError if another thread installs a signal handler.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in HANDLED_SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous signal handlers."""
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # The handler only records the signal, because it may run in the middle of a step or a write.
        self.signal_number = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
