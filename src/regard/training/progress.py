"""Where a run stands: the counts that a checkpoint keeps beside weights, optimizer and schedule."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from regard.errors import CheckpointError
from regard.training.config import StopConfig

__all__ = ["Progress", "Window"]


@dataclass
class Window:
    """Sums since the last line of the record; losses in nats.

    Attributes:
        updates: Updates made.
        tokens: Target tokens seen.
        total: What was minimised.
        nll: -log p of the references.
        norm: The sum of the gradients' norms.
        seconds: Time spent on updates.
    """

    updates: int = 0
    tokens: int = 0
    total: float = 0.0
    nll: float = 0.0
    norm: float = 0.0
    seconds: float = 0.0


@dataclass
class Progress:
    """Counts over the whole run, resumes included.

    Attributes:
        update: Updates made; one that was skipped counts.
        epoch: The epoch under way, from 1.
        batch: Batches of it that were seen.
        skipped: Updates skipped since the loss was not finite, and how many of them last in a row.
        tokens: Target tokens seen.
        flops: Floating-point operations spent on updates.
        seconds: Time by the clock, validation included.
        best: The best validation score so far (perplexity, BLEU or accuracy), at which update, and how many
            validations have gone by since.
        window: What the record's next line will tell.
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
        """The counts as plain numbers."""
        return dataclasses.asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Progress":
        """What `state` gave.

        Raises:
            CheckpointError: if it is another version's.
        """
        try:
            return cls(**{**state, "window": Window(**state["window"])})
        except (KeyError, TypeError):
            raise CheckpointError("the checkpoint is of another version of regard") from None

    def judge(self, score: float, higher_is_better: bool, loss: float) -> bool:
        """Take note of a validation score; returns whether it is the best so far, which nan never is.

        Args:
            score: The score.
            higher_is_better: Whether a higher one is better.
            loss: The validation loss, which decides between equal scores: accuracy, BLEU and F1 stay at 0
                while a model has learned little.
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
        """Which limit of the run is reached, in words; none: training goes on."""
        if stop.epochs and self.epoch > stop.epochs:
            return f"{stop.epochs} epochs"
        if stop.updates and self.update >= stop.updates:
            return f"{stop.updates} updates"
        if stop.minutes and self.seconds >= 60 * stop.minutes:
            return f"{stop.minutes:g} minutes"
        if patience is not None and self.waited >= patience:
            return f"{patience} validations without improvement"
        return None

    def done(self, stop: StopConfig, batches_in_epoch: int) -> float:
        """The share of the run that is done, in [0, 1], by the limit that will be reached first."""
        shares = []
        if stop.epochs:
            shares.append((self.epoch - 1 + self.batch / max(1, batches_in_epoch)) / stop.epochs)
        if stop.updates:
            shares.append(self.update / stop.updates)
        if stop.minutes:
            shares.append(self.seconds / (60 * stop.minutes))
        return min(1.0, max(shares, default=0.0))
