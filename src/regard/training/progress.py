"""The progress of a run: the counters that a checkpoint stores with weights, optimizer and schedule."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from regard.errors import CheckpointError
from regard.training.config import StopConfig

__all__ = ["Progress", "Window"]


@dataclass
class Window:
    """Sums since the last line of the metrics log; losses are in nats.

    Attributes:
        updates: The number of optimizer steps.
        tokens: The number of target tokens.
        total: The minimized loss.
        nll: -log p of the references.
        norm: The sum of the gradient norms.
        seconds: The time spent on optimizer steps.
    """

    updates: int = 0
    tokens: int = 0
    total: float = 0.0
    nll: float = 0.0
    norm: float = 0.0
    seconds: float = 0.0


@dataclass
class Progress:
    """Counters of the whole run, over all resumes.

    Attributes:
        update: The number of optimizer steps, including skipped ones.
        epoch: The current epoch, from 1.
        batch: The number of batches of the current epoch that were processed.
        skipped: The number of steps that were skipped because the loss or gradient was not finite.
        skipped_in_a_row: The number of skipped steps since the last step that was applied.
        tokens: The number of target tokens.
        flops: The floating-point operations of the optimizer steps.
        seconds: The wall-clock time, including validation.
        best: The best validation score so far (perplexity, BLEU, accuracy or F1), or None.
        best_update: The step of the best validation.
        best_loss: The validation loss of the best validation.
        waited: The number of validations since the best one.
        window: The sums for the next line of the metrics log.
    """

    update: int = 0
    epoch: int = 1
    batch: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    tokens: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    best: float | None = None
    best_update: int = 0
    best_loss: float = math.inf
    waited: int = 0
    window: Window = dataclasses.field(default_factory=Window)

    def state(self) -> dict[str, Any]:
        """Return the counters as a dictionary for the checkpoint."""
        return dataclasses.asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Progress":
        """Create the counters from the dictionary that `state` returned.

        Raises:
            CheckpointError: if another version of regard wrote the dictionary.
        """
        try:
            return cls(**{**state, "window": Window(**state["window"])})
        except (KeyError, TypeError):
            raise CheckpointError("the checkpoint was written by another version of regard") from None

    def judge(self, score: float, higher_is_better: bool, loss: float) -> bool:
        """Record a validation score and return whether it is the best so far; NaN never is.

        Args:
            score: The score.
            higher_is_better: Whether a higher score is better.
            loss: The validation loss, which breaks ties: accuracy, BLEU and F1 can stay at 0 early in
                training.
        """
        if math.isnan(score) or math.isnan(loss):
            better = False
        elif self.best is None:
            better = True
        elif score == self.best:
            better = loss < self.best_loss
        else:
            better = score > self.best if higher_is_better else score < self.best
        if better:
            self.best, self.best_update, self.best_loss, self.waited = score, self.update, loss, 0
        else:
            self.waited += 1
        return better

    def limit_reached(self, stop: StopConfig, patience: int | None) -> str | None:
        """Return a description of the limit that the run has reached, or None if training continues."""
        if stop.epochs and self.epoch > stop.epochs:
            return f"{stop.epochs} epochs"
        if stop.updates and self.update >= stop.updates:
            return f"{stop.updates} steps"
        if stop.minutes and self.seconds >= 60 * stop.minutes:
            return f"{stop.minutes:g} minutes"
        if patience is not None and self.waited >= patience:
            return f"{patience} validations without improvement"
        return None

    def done(self, stop: StopConfig, batches_in_epoch: int) -> float:
        """Return the completed share of the run in [0, 1], relative to the limit closest to being reached."""
        shares = []
        if stop.epochs:
            shares.append((self.epoch - 1 + self.batch / max(1, batches_in_epoch)) / stop.epochs)
        if stop.updates:
            shares.append(self.update / stop.updates)
        if stop.minutes:
            shares.append(self.seconds / (60 * stop.minutes))
        return min(1.0, max(shares, default=0.0))
