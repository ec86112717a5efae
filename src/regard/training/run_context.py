"""The surroundings of a training run: its directory, processes, callbacks, and signals that stop it.

In data-parallel training under `torchrun`, the batch size is that of all processes together: with N
processes, each takes every N-th sentence of a batch. The order and the sizes of the batches are functions of
the seed, so that every process computes the number of tokens of a step without communication.
"""

import gc
import importlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from regard.models.base import Precision, TranslationModel


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[Any]:
    """Return a context in which matrix multiplications are computed in the given precision."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


TIMEOUT = timedelta(hours=1)
"""Maximum time that a process waits for the others; the first one alone translates the validation split."""


@dataclass(frozen=True)
class ProcessGroup:
    """The rank of this process, the number of processes and the device.

    Attributes:
        rank: The number of this process, from 0.
        world_size: The number of processes of the run.
        device: The device of this process.
    """

    rank: int = 0
    world_size: int = 1
    device: torch.device = torch.device("cpu")  # noqa: RUF009 - immutable

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and logs."""
        return self.rank == 0

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the sums over all processes, bitwise identical in each."""
        if self.world_size == 1:
            return list(values)
        # In float64, numbers of tokens are exact up to 2**53.
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def broadcast_from_main(self, value: float) -> float:
        """Return the value of the first process."""
        # A sum with zeros is exact, so all processes receive the same value bit for bit.
        return self.sum([value if self.is_main else 0.0])[0]

    def barrier(self) -> None:
        """Wait until every process has called this method."""
        # The reduction ends only when every process has contributed to it.
        self.sum([0.0])


SINGLE_PROCESS = ProcessGroup()


@contextmanager
def init_process_group(device: torch.device) -> Iterator[ProcessGroup]:
    """Initialize the process group under `torchrun`, and destroy it at the end of the context.

    Args:
        device: The device of this process; the backend is gloo for CPUs and NCCL for GPUs.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield ProcessGroup(device=device)
        return
    if device.type == "cuda":
        # Otherwise the first GPU would be the current device of every process.
        torch.cuda.set_device(device)
    # `DistributedDataParallel` imports this module, whose functions have the current default group as default
    # argument: imported later, they would keep the group, and with it its threads, to the end of the program.
    importlib.import_module("torch.distributed.nn.functional")
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)
    try:
        yield ProcessGroup(dist.get_rank(), dist.get_world_size(), device)
    finally:
        # The threads of a process group are joined only when the last reference to it is gone. A thread that
        # still frees a tensor while the interpreter exits aborts the process.
        gc.collect()
        dist.destroy_process_group()


@dataclass(frozen=True)
class RunContext:
    """The directory, the random seed and the processes of a run.

    Attributes:
        output_dir: The model directory; it exists, and the first process has locked it
            (`regard.text.files`).
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
        """Handle the end of a validation; `entry` is the line of `regard.training.metrics_logger`."""

    def on_checkpoint(self, path: Path) -> None:
        """Handle a new checkpoint; `path` is the file of the training state."""


@contextmanager
def record_signals() -> Iterator[list[int]]:
    """Record the first Ctrl-C or SIGTERM in the context; the second one has its usual effect.

    Signals are caught only in the main thread.

    Yields:
        A list that is empty until a signal is received, and then contains its number.
    """
    received: list[int] = []
    with ExitStack() as previous_handlers:

        def record(number: int, frame: FrameType | None) -> None:
            # The handler only records the signal, because it may run in the middle of a step or a write.
            received.append(number)
            previous_handlers.close()

        # Python raises ValueError if another thread installs a signal handler.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                previous_handlers.callback(signal.signal, number, signal.signal(number, record))
        yield received
