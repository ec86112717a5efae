"""What a validation is judged by."""

import math

from regard.training.progress import Progress


def test_between_equal_scores_the_loss_decides() -> None:
    progress = Progress()
    assert progress.judge(0.0, True, loss=5.0)
    assert progress.judge(0.0, True, loss=4.0) and progress.waited == 0
    assert not progress.judge(0.0, True, loss=4.5) and progress.waited == 1
    assert progress.judge(10.0, True, loss=9.0)
    assert not progress.judge(9.0, True, loss=1.0)
    assert progress.best == 10.0 and progress.best_loss == 9.0


def test_a_score_that_is_no_number_is_beaten_by_any() -> None:
    progress = Progress()
    assert progress.judge(math.nan, False, loss=math.nan)
    assert progress.judge(7.0, False, loss=2.0)
    assert not progress.judge(7.0, False, loss=2.0) and not progress.judge(math.nan, False, loss=1.0)


def test_a_checkpoint_of_before_has_no_loss() -> None:
    state = Progress().state()
    del state["best_loss"]
    assert Progress.from_state(state).best_loss == math.inf
