"""Tests of how validations are compared: the score, the loss for ties, and values that are NaN."""

import math

import pytest

from regard.training.progress import TrainingProgress


def test_loss_breaks_ties_of_the_score() -> None:
    progress = TrainingProgress()
    assert progress.record_validation(0.0, True, loss=5.0)
    assert progress.record_validation(0.0, True, loss=4.0) and progress.validations_since_best == 0
    assert not progress.record_validation(0.0, True, loss=4.5) and progress.validations_since_best == 1
    assert progress.record_validation(10.0, True, loss=9.0)
    assert not progress.record_validation(9.0, True, loss=1.0)
    assert progress.best_score == 10.0 and progress.best_loss == 9.0


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_nan_scores_and_losses_are_never_the_best(higher_is_better: bool) -> None:
    progress = TrainingProgress()
    assert not progress.record_validation(math.nan, higher_is_better, loss=1.0)
    assert not progress.record_validation(7.0, higher_is_better, loss=math.nan)
    assert progress.best_score is None and progress.validations_since_best == 2
    assert progress.record_validation(7.0, higher_is_better, loss=2.0)
    assert not progress.record_validation(math.nan, higher_is_better, loss=1.0)
    assert (progress.best_score, progress.best_loss) == (7.0, 2.0)
