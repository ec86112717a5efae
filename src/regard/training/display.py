"""The display of a run: a banner, a progress bar on a terminal, and lines at growing intervals in a log."""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from regard.models.base import TranslationModel
    from regard.training.config import TrainingConfig
    from regard.training.evaluate import TrainingExamples
    from regard.training.progress import TrainingProgress
    from regard.training.run_context import ProcessGroup, StepStatistics

__all__ = ["LogClock", "ProgressDisplay", "banner", "preparation_progress"]

_log = logging.getLogger(__name__)

FIRST_LINE = 5.0
"""Seconds after which the first line is written to a log."""
MIN_INTERVAL, MAX_INTERVAL = 10.0, 300.0
"""Limits of the interval between two lines of a log in seconds; it is a tenth of the time of the run."""
WINDOW = 50
"""Number of recent steps whose mean loss and speed are shown."""


class LogClock:
    """Decides when a line of a log is due: after 5 seconds, and then at intervals of 10 seconds to 5 minutes.

    Args:
        now: Returns the time in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Start the clock."""
        self._now, self._start = now, now()
        self._next = self._start + FIRST_LINE

    def due(self) -> bool:
        """Return whether a line is due; the next one is then due after an interval."""
        now = self._now()
        if now < self._next:
            return False
        self._next = now + min(MAX_INTERVAL, max(MIN_INTERVAL, (now - self._start) / 10))
        return True


def _bars(*columns: Any) -> tuple[Console, Progress | None]:
    """Return the console of stderr, and progress bars if it is a terminal or a notebook."""
    console = Console(stderr=True, highlight=False)
    if not (console.is_terminal or console.is_jupyter):
        return console, None
    return console, Progress(*columns, console=console, transient=True)


@contextmanager
def preparation_progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show the progress of `regard.data.dataset.prepare_data`: a bar per stage, or lines if it takes long.

    Yields:
        A callback that receives the name of a stage, the number of finished items, and their total or None.
    """
    console, bars = _bars(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    )
    stages: dict[str, TaskID] = {}
    clock = LogClock()

    def report(stage: str, done: int, total: int | None) -> None:
        if bars is None:
            if clock.due():
                of = "" if total is None else f" of {total:,}"
                console.print(f"preparing the text: {stage}: {done:,}{of}", markup=False, soft_wrap=True)
            return
        # The stages are not known in advance, so bars are added when a stage begins.
        if stage not in stages:
            stages[stage] = bars.add_task(stage, total=total)
        bars.update(stages[stage], completed=done, total=total)

    if bars is None:
        yield report
        return
    with bars:
        yield report


def banner(
    model: "TranslationModel",
    data: tuple["TrainingExamples", "TrainingExamples"],
    config: "TrainingConfig",
    processes: "ProcessGroup",
    num_batches: int,
    output_dir: Path,
) -> list[str]:
    """Return the lines that describe a run before its first step.

    Args:
        model: The model on its device.
        data: The training and the validation split.
        config: The options of training.
        processes: The processes of the run.
        num_batches: The number of batches of an epoch.
        output_dir: The model directory.
    """
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    total, trained = sum(size for size, _ in sizes), sum(size for size, grad in sizes if grad)
    fixed = "" if total == trained else f", of which {trained:,} are trained"
    train, valid = (len(split.lengths[0]) for split in data)
    tokens = int(data[0].lengths[1].sum())
    limits = {
        f"{config.max_epochs:,} epochs": config.max_epochs,
        f"{config.max_steps:,} steps": config.max_steps,
        f"{config.max_minutes:g} minute{'' if config.max_minutes == 1 else 's'}": config.max_minutes,
    }
    at_most = " or ".join(text for text, value in limits.items() if value)
    accumulated = f" x {config.gradient_accumulation}" if config.gradient_accumulation > 1 else ""
    steps = math.ceil(num_batches / config.gradient_accumulation)
    rows = {
        "device": f"{_describe_device(processes)}, {config.precision}",
        "model": f"{type(model).__name__} with {total:,} parameters{fixed}",
        "data": f"{train:,} training sentences ({tokens:,} target tokens), {valid:,} for validation",
        "epoch": f"{steps:,} steps of at most {config.batch_size:,}{accumulated} {config.batch_unit}",
        "limit": at_most,
        "output": str(output_dir),
    }
    return [f"{name:8} {text}" for name, text in rows.items()]


def _describe_device(processes: "ProcessGroup") -> str:
    import torch

    device = processes.device
    if device.type == "cuda":
        name = f"{device} ({torch.cuda.get_device_name(device)})"
    else:
        threads = torch.get_num_threads()
        name = f"{device}, {threads} thread{'s' if threads > 1 else ''}"
    return name if processes.world_size == 1 else f"{processes.world_size} processes, the first on {name}"


class ProgressDisplay:
    """Shows a run: a bar on a terminal or in a notebook, else lines at growing intervals.

    Args:
        enabled: Whether anything is shown: only in the first process of a run.
        visible: Whether to write to stderr. Otherwise the same lines go to the log of this module.
        config: The options of training, for the limits of the run.
    """

    def __init__(self, enabled: bool, visible: bool, config: "TrainingConfig") -> None:
        """Create the display without showing it."""
        self.enabled, self.visible, self.config = enabled, visible, config
        self.bar: Progress | None = None
        self.console: Console | None = None
        self._score = ""
        self._recent: deque[StepStatistics] = deque(maxlen=WINDOW)

    def __enter__(self) -> "ProgressDisplay":
        """Show the bar."""
        self._clock, self._start, self._start_share = LogClock(), time.monotonic(), 0.0
        if self.enabled and self.visible:
            self.console, self.bar = _bars(
                TextColumn("{task.description:12}"),
                BarColumn(bar_width=20),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
            )
        if self.bar is not None:
            self._task = self.bar.add_task("", total=1.0, note="")
            self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def print(self, line: str) -> None:
        """Write a line, such as one of the banner, above the bar or to the log."""
        if self.console is None:
            _log.info("%s", line)
        else:
            self.console.print(line, markup=False, soft_wrap=True)

    def advance(self, step: "StepStatistics", progress: "TrainingProgress", num_batches: int) -> None:
        """Show a step.

        Args:
            step: The statistics of the step.
            progress: The counters of the run, with this step.
            num_batches: The number of batches of the epoch.
        """
        if not self.enabled:
            return
        completed = progress.completed_share(self.config, num_batches)
        if not self._recent:
            # The remaining time of a resumed run is estimated from this part of it.
            self._start, self._start_share = time.monotonic(), completed
        # The loss of a skipped step may be NaN.
        if step.applied:
            self._recent.append(step)
        if not self._recent or (self.bar is None and not self._clock.due()):
            return
        tokens = sum(statistics.tokens for statistics in self._recent)
        speed = tokens / max(1e-9, sum(statistics.seconds for statistics in self._recent))
        loss = sum(statistics.loss for statistics in self._recent) / max(1, tokens)
        note = f"loss {loss:.3f}, {speed:,.0f} tokens/s"
        epoch = f"epoch {progress.epoch}" + (f"/{self.config.max_epochs}" if self.config.max_epochs else "")
        if self.bar is not None:
            note = f"{note}{self._score}"
            self.bar.update(self._task, description=epoch, completed=completed, note=note)
            return
        left = ""
        if completed > self._start_share:
            elapsed = time.monotonic() - self._start
            seconds = elapsed * (1 - completed) / (completed - self._start_share)
            left = f", {timedelta(seconds=round(seconds))} left"
        share = progress.batches_in_epoch / max(1, num_batches)
        self.print(f"{epoch} ({share:.0%}), step {progress.step:,}: {note}{left}")

    def show_validation(self, entry: dict[str, Any]) -> None:
        """Show a line of the metrics log of kind `validation`."""
        from regard.metrics.base import METRICS

        if not self.enabled:
            return
        self._score = f", validation perplexity {entry['perplexity']:.2f}"
        searched = "".join(
            f", {metric.label} {value:.2f}" for key, value in entry.items() if (metric := METRICS.get(key))
        )
        best = " (best so far)" if entry["best"] else ""
        where = f"epoch {entry['epoch']}, step {entry['step']:,}"
        self.print(f"validation at {where}: perplexity {entry['perplexity']:.2f}{searched}{best}")
