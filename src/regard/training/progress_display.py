"""The progress display of a training run: a progress bar in a terminal, log lines elsewhere."""

import logging
import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from regard.metrics.base import METRICS

__all__ = ["ProgressDisplay"]

_log = logging.getLogger(__name__)


class ProgressDisplay:
    """A progress bar if stderr is a terminal, else one log line per line of the metrics log.

    Args:
        enabled: Whether anything is shown: only in the first process of a run.
    """

    def __init__(self, enabled: bool) -> None:
        """Create the display without showing it."""
        self.enabled = enabled
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        self.speed, self.score = "", ""

    def __enter__(self) -> "ProgressDisplay":
        """Show the bar."""
        if self.enabled and sys.stderr.isatty():
            self.bar = Progress(
                TextColumn("epoch {task.fields[epoch]}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}% {task.fields[speed]}{task.fields[score]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
                speed_estimate_period=600,
            )
            self.bar.start()
            self.task = self.bar.add_task("", total=1.0, epoch=1, speed="", score="")
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def advance(self, completed: float, epoch: int) -> None:
        """Show the completed share of the run, in [0, 1]."""
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=completed, epoch=epoch, speed=self.speed, score=self.score)

    def show_metrics(self, entry: dict[str, Any]) -> None:
        """Show a line of the metrics log."""
        if not self.enabled:
            return
        training = entry["kind"] == "train"
        if training:
            self.speed = f"{entry['tokens_per_second']:,.0f} tokens/s, perplexity {entry['perplexity']:.2f}"
        else:
            self.score = f", validation {entry['perplexity']:.2f}"
        if self.bar is None:
            _log.info("%s", _train_line(entry) if training else _validation_line(entry))
        elif not training:
            self.bar.console.print(_validation_line(entry), highlight=False)


def _train_line(entry: dict[str, Any]) -> str:
    return (
        f"step {entry['step']}, epoch {entry['epoch']}: loss {entry['loss']:.3f}, "
        f"perplexity {entry['perplexity']:.2f}, norm {entry['grad_norm']:.2f}, "
        f"rate {entry['learning_rate']:.2g}, {entry['tokens_per_second']:,.0f} tokens/s"
    )


def _validation_line(entry: dict[str, Any]) -> str:
    searched = "".join(
        f", {metric.label} {value:.2f}" for key, value in entry.items() if (metric := METRICS.get(key))
    )
    best = " (best so far)" if entry["best"] else ""
    where = f"step {entry['step']}, epoch {entry['epoch']}"
    return f"validation at {where}: perplexity {entry['perplexity']:.2f}{searched}{best}"
