"""The display of a run: a banner, a progress bar on a terminal, and lines at growing intervals in a log."""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from regard.metrics.base import METRICS
from regard.models.base import TranslationModel
from regard.training.config import TrainingConfig
from regard.training.evaluate import TrainingExamples
from regard.training.progress import TrainingProgress
from regard.training.run_context import ProcessGroup, StepStatistics

_log = logging.getLogger(__name__)

FIRST_LINE = 5.0
"""Seconds after which the first line is written to a log."""
MIN_INTERVAL, MAX_INTERVAL = 10.0, 300.0
"""Limits of the interval between two lines of a log in seconds; it is a tenth of the time of the run."""
WINDOW = 50
"""Number of recent steps whose mean loss and speed are shown."""


class LogClock:
    """Decides when a line of a log is due: after 5 s, then at intervals of 10 s to 5 minutes."""

    def __init__(self) -> None:
        """Start the clock."""
        self._start = time.monotonic()
        self._next = self._start + FIRST_LINE

    def due(self) -> bool:
        """Return whether a line is due; the next one is then due after an interval."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + min(MAX_INTERVAL, max(MIN_INTERVAL, (now - self._start) / 10))
        return True


def _bars(*columns: ProgressColumn) -> Progress:
    """Return progress bars on stderr, which are disabled if it is neither a terminal nor a notebook."""
    console = Console(stderr=True, highlight=False)
    return Progress(
        *columns,
        console=console,
        transient=True,
        disable=not (console.is_terminal or console.is_jupyter),
    )


@contextmanager
def preparation_progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show the progress of `regard.data.dataset.prepare_data`: a bar per stage, or lines if it takes long.

    Yields:
        A callback that receives the name of a stage, the number of finished items, and their total or None.
    """
    bars = _bars(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    stages: dict[str, TaskID] = {}
    clock = LogClock()

    def report(stage: str, done: int, total: int | None) -> None:
        # The stages are not known in advance, so bars are added when a stage begins.
        if stage not in stages:
            stages[stage] = bars.add_task(stage, total=total)
        bars.update(stages[stage], completed=done, total=total)
        if bars.disable and clock.due():
            of = "" if total is None else f" of {total:,}"
            bars.console.print(f"preparing the text: {stage}: {done:,}{of}", markup=False, soft_wrap=True)

    # rich 13 prints an empty line at the end of disabled bars.
    with nullcontext() if bars.disable else bars:
        yield report


def banner(
    model: TranslationModel,
    data: tuple[TrainingExamples, TrainingExamples],
    config: TrainingConfig,
    processes: ProcessGroup,
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
    device = str(processes.device)
    if processes.device.type == "cuda":
        device = f"{device} ({torch.cuda.get_device_name(processes.device)})"
    else:
        threads = torch.get_num_threads()
        device = f"{device}, {threads} thread{'s' if threads > 1 else ''}"
    if processes.world_size > 1:
        device = f"{processes.world_size} processes, the first on {device}"
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
        "device": f"{device}, {config.precision}",
        "model": f"{type(model).__name__} with {total:,} parameters{fixed}",
        "data": f"{train:,} training sentences ({tokens:,} target tokens), {valid:,} for validation",
        "epoch": f"{steps:,} steps of at most {config.batch_size:,}{accumulated} {config.batch_unit}",
        "limit": at_most,
        "output": str(output_dir),
    }
    return [f"{name:8} {text}" for name, text in rows.items()]


class ProgressDisplay:
    """Shows a run: a bar on a terminal or in a notebook, else lines at growing intervals.

    Args:
        enabled: Whether anything is shown: only in the first process of a run.
        visible: Whether to write to stderr. Otherwise the same lines go to the log of this module.
        config: The options of training, for the limits of the run.
    """

    def __init__(self, enabled: bool, visible: bool, config: TrainingConfig) -> None:
        """Create the display without showing it."""
        self.enabled, self.visible, self.config = enabled, visible, config
        self.bar = _bars(
            TextColumn("{task.description:12}"),
            BarColumn(bar_width=20),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self._task = self.bar.add_task("", total=1.0, note="")
        self._clock = LogClock()
        self._start, self._start_share = 0.0, 0.0
        self._score = ""
        self._recent: deque[StepStatistics] = deque(maxlen=WINDOW)

    def __enter__(self) -> "ProgressDisplay":
        """Show the bar."""
        self._clock = LogClock()
        if self.enabled and self.visible:
            self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the bar."""
        if self.bar.live.is_started:  # rich 13 prints an empty line at the end of other bars
            self.bar.stop()

    def print(self, line: str) -> None:
        """Write a line, such as one of the banner, above the bar or to the log."""
        if self.visible:
            self.bar.console.print(line, markup=False, soft_wrap=True)
        else:
            _log.info("%s", line)

    def advance(self, step: StepStatistics, progress: TrainingProgress, num_batches: int) -> None:
        """Show a step.

        Args:
            step: The statistics of the step.
            progress: The counters of the run, with this step.
            num_batches: The number of batches of the epoch.
        """
        # The loss of a skipped step may be NaN.
        if not self.enabled or not step.applied:
            return
        completed = progress.completed_share(self.config, num_batches)
        if not self._recent:
            # The remaining time of a resumed run is estimated from this part of it.
            self._start, self._start_share = time.monotonic(), completed
        self._recent.append(step)
        tokens = sum(statistics.tokens for statistics in self._recent)
        speed = tokens / max(1e-9, sum(statistics.seconds for statistics in self._recent))
        loss = sum(statistics.loss for statistics in self._recent) / max(1, tokens)
        note = f"loss {loss:.3f}, {speed:,.0f} tokens/s"
        epoch = f"epoch {progress.epoch}" + (f"/{self.config.max_epochs}" if self.config.max_epochs else "")
        self.bar.update(self._task, description=epoch, completed=completed, note=f"{note}{self._score}")
        if (self.visible and not self.bar.disable) or not self._clock.due():
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
        if not self.enabled:
            return
        self._score = f", validation perplexity {entry['perplexity']:.2f}"
        searched = "".join(
            f", {metric.label} {value:.2f}" for key, value in entry.items() if (metric := METRICS.get(key))
        )
        best = " (best so far)" if entry["best"] else ""
        where = f"epoch {entry['epoch']}, step {entry['step']:,}"
        self.print(f"validation at {where}: perplexity {entry['perplexity']:.2f}{searched}{best}")
