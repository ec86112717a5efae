"""Tests of how validations are compared: the score, the loss for ties, and values that are NaN."""

import math

import pytest

from regard.training.progress import Progress


def test_loss_breaks_ties_of_the_score() -> None:
    progress = Progress()
    assert progress.judge(0.0, True, loss=5.0)
    assert progress.judge(0.0, True, loss=4.0) and progress.waited == 0
    assert not progress.judge(0.0, True, loss=4.5) and progress.waited == 1
    assert progress.judge(10.0, True, loss=9.0)
    assert not progress.judge(9.0, True, loss=1.0)
    assert progress.best == 10.0 and progress.best_loss == 9.0


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_nan_scores_and_losses_are_never_the_best(higher_is_better: bool) -> None:
    progress = Progress()
    assert not progress.judge(math.nan, higher_is_better, loss=1.0)
    assert not progress.judge(7.0, higher_is_better, loss=math.nan)
    assert progress.best is None and progress.waited == 2
    assert progress.judge(7.0, higher_is_better, loss=2.0)
    assert not progress.judge(math.nan, higher_is_better, loss=1.0)
    assert (progress.best, progress.best_loss) == (7.0, 2.0)


def test_old_checkpoints_have_no_best_loss() -> None:
    state = Progress().state()
    del state["best_loss"]
    assert Progress.from_state(state).best_loss == math.inf
