"""The display of a run: when lines appear in a log, the bars of a terminal, and their content."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console

import regard.training.display as display_module
from regard.training.config import TrainingConfig
from regard.training.display import (
    LogClock,
    ProgressDisplay,
    banner,
    preparation_progress,
)
from regard.training.progress import TrainingProgress
from regard.training.run_context import SINGLE_PROCESS, StepStatistics


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """Return a clock whose `seconds` a test sets."""
    fake = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(display_module, "time", SimpleNamespace(monotonic=lambda: fake.seconds))
    return fake


@pytest.fixture
def console(monkeypatch):
    """Return a function that makes stderr a terminal or a file, and returns the stream."""

    def make(terminal: bool) -> io.StringIO:
        written = io.StringIO()
        monkeypatch.setattr(
            display_module,
            "Console",
            lambda **options: Console(
                file=written, force_terminal=terminal, force_jupyter=False, width=100, highlight=False
            ),
        )
        return written

    return make


def step(number: int, seconds: float = 1.0, loss: float = 2.0, applied: bool = True) -> StepStatistics:
    """Return a step of 100 tokens with a loss in nats per token."""
    return StepStatistics(
        step=number, loss=100 * loss, nll=100 * loss, grad_norm=1.0, tokens=100,
        seconds=seconds, stop_requested=False, learning_rate=1e-3, applied=applied,
    )  # fmt: skip


def train(shown: ProgressDisplay, clock: SimpleNamespace, steps: int, num_batches: int) -> None:
    """Show a run of some steps of one epoch."""
    progress = TrainingProgress()
    for number in range(1, steps + 1):
        clock.seconds += 1.0
        statistics = step(number)
        progress.count(statistics)
        progress.batches_in_epoch = number
        shown.advance(statistics, progress, num_batches)


def test_first_line_is_within_ten_seconds_and_the_intervals_grow_to_five_minutes(clock) -> None:
    log_clock, lines = LogClock(), []
    for second in range(4 * 3600):
        clock.seconds = second
        if log_clock.due():
            lines.append(second)
    gaps = np.diff(lines)
    assert lines[0] <= 10 and gaps[0] == 10 and gaps[-1] == 300
    assert (np.diff(gaps) >= 0).all() and len(lines) < 100


def test_log_line_gives_loss_speed_and_the_time_left(clock, console) -> None:
    written = console(terminal=False)
    with ProgressDisplay(True, True, TrainingConfig(max_epochs=3)) as shown:
        train(shown, clock, steps=20, num_batches=40)
    # 40 steps of a second in each of three epochs: 115 are left after 5 s.
    assert written.getvalue().splitlines() == [
        "epoch 1/3 (12%), step 5: loss 2.000, 100 tokens/s, 0:01:55 left",
        "epoch 1/3 (38%), step 15: loss 2.000, 100 tokens/s, 0:01:45 left",
    ]


def test_time_left_counts_validations_and_the_limit_that_is_nearest(clock, console) -> None:
    written = console(terminal=False)
    with ProgressDisplay(True, True, TrainingConfig(max_epochs=0, max_steps=3600)) as shown:
        progress = TrainingProgress()
        for number in range(1, 1801):
            clock.seconds += 1.0 if number % 600 else 601.0  # the validations take ten minutes
            progress.count(step(number))
            shown.advance(step(number), progress, 10_000)
    # Three validations and 1799 steps after the first one took an hour.
    assert written.getvalue().splitlines()[-1].endswith("step 1,800: loss 2.000, 100 tokens/s, 1:00:01 left")


def test_skipped_steps_do_not_enter_the_loss(clock, console) -> None:
    written = console(terminal=False)
    with ProgressDisplay(True, True, TrainingConfig()) as shown:
        progress = TrainingProgress()
        for number, (loss, applied) in enumerate([(float("nan"), False), (3.0, True)], 1):
            clock.seconds += 6
            progress.count(step(number, loss=loss, applied=applied))
            shown.advance(step(number, loss=loss, applied=applied), progress, 10)
    assert "loss 3.000" in written.getvalue() and "nan" not in written.getvalue()


def test_terminal_shows_a_bar_of_the_run(clock, console) -> None:
    written = console(terminal=True)
    with ProgressDisplay(True, True, TrainingConfig(max_epochs=2)) as shown:
        train(shown, clock, steps=10, num_batches=20)
        entry = {"step": 10, "epoch": 1, "perplexity": 7.5, "bleu": 12.0, "best": True}
        shown.show_validation(entry)
        train(shown, clock, steps=1, num_batches=20)
        shown.bar.refresh()
    text = written.getvalue()
    assert "epoch 1/2" in text and "loss 2.000, 100 tokens/s" in text
    assert "validation at epoch 1, step 10: perplexity 7.50, BLEU 12.00 (best so far)" in text
    assert "validation perplexity 7.50" in text


@pytest.mark.parametrize(("enabled", "visible"), [(False, True), (True, False)])
def test_other_processes_and_python_write_nothing(clock, capfd, enabled, visible) -> None:
    with ProgressDisplay(enabled, visible, TrainingConfig()) as shown:
        train(shown, clock, steps=30, num_batches=40)
        shown.show_validation({"step": 10, "epoch": 1, "perplexity": 7.5, "best": True})
    assert capfd.readouterr() == ("", "")


def test_lines_of_a_quiet_run_go_to_the_log(clock, caplog) -> None:
    caplog.set_level("INFO", logger="regard")
    with ProgressDisplay(True, False, TrainingConfig()) as shown:
        shown.print("device   cpu")
        train(shown, clock, steps=6, num_batches=40)
    assert caplog.messages[0] == "device   cpu" and "loss 2.000" in caplog.messages[1]


def test_banner_describes_the_run(tmp_path) -> None:
    model = torch.nn.Linear(3, 4)
    model.bias.requires_grad_(False)
    data = tuple(SimpleNamespace(lengths=(np.full(n, 5), np.full(n, 7))) for n in (2000, 10))
    config = TrainingConfig(max_epochs=2, max_minutes=5, gradient_accumulation=2, precision="bfloat16")
    lines = banner(model, data, config, SINGLE_PROCESS, 11, tmp_path / "first")
    shown = dict(line.split(maxsplit=1) for line in lines)
    assert shown["device"].startswith("cpu, ") and shown["device"].endswith(", bfloat16")
    assert shown["model"] == "Linear with 16 parameters, of which 12 are trained"
    assert shown["data"] == "2,000 training sentences (14,000 target tokens), 10 for validation"
    assert shown["epoch"].startswith("6 steps of at most 64 x 2 sentences")
    assert shown["limit"] == "2 epochs or 5 minutes" and shown["output"] == str(tmp_path / "first")


def test_long_preparation_writes_lines_to_a_log(clock, console) -> None:
    written = console(terminal=False)
    with preparation_progress() as report:
        report("tokenize", 10, 100)
        clock.seconds = 6.0
        report("tokenize", 60, 100)
        report("tokenize", 61, 100)
        clock.seconds = 17.0
        report("count", 1_000, None)
    assert written.getvalue().splitlines() == [
        "preparing the text: tokenize: 60 of 100",
        "preparing the text: count: 1,000",
    ]


def test_preparation_on_a_terminal_is_a_bar_per_stage(console) -> None:
    written = console(terminal=True)
    with preparation_progress() as report:
        report("tokenize", 10, 100)
        report("count", 1, None)
    assert "tokenize" in written.getvalue() and "10/100" in written.getvalue()
