"""The progress of a run: the counters that a checkpoint stores."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from regard.config.results import perplexity
from regard.training.config import StopConfig
from regard.training.run_context import StepStatistics

SUMMED: tuple[str, ...] = ("steps", "tokens", "loss", "nll", "grad_norm", "seconds")


@dataclass
class TrainingProgress:
    """Counters of the whole run, over all resumes.

    Attributes:
        step: The number of optimizer steps, including skipped ones.
        epoch: The current epoch, from 1.
        batches_in_epoch: The number of batches of the current epoch that were processed.
        skipped_steps: The number of steps that were skipped because the loss or gradient was not finite.
        consecutive_skipped_steps: The number of skipped steps since the last step that was applied.
        tokens: The number of target tokens.
        seconds: The wall-clock time, including validation.
        best_score: The best validation score so far (perplexity, BLEU, accuracy or F1), or None.
        best_step: The step of the best validation.
        best_loss: The validation loss of the best validation.
        validations_since_best: The number of validations since the best one.
        sums: The sums of the steps since the last line of the metrics log: their numbers of `steps` and of
            target `tokens`, the `loss` and the `nll` in nats, the `grad_norm`, and the time in `seconds`.
    """

    step: int = 0
    epoch: int = 1
    batches_in_epoch: int = 0
    skipped_steps: int = 0
    consecutive_skipped_steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best_score: float | None = None
    best_step: int = 0
    best_loss: float = math.inf
    validations_since_best: int = 0
    sums: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(SUMMED, 0.0))

    def record_validation(self, score: float, higher_is_better: bool, loss: float) -> bool:
        """Record a validation score and return whether it is the best so far; NaN never is.

        Args:
            score: The score.
            higher_is_better: Whether a higher score is better.
            loss: The validation loss, which breaks ties: accuracy, BLEU and F1 can stay at 0 early in
                training.
        """
        # With NaN as the best score, no later score would compare as better.
        if math.isnan(score) or math.isnan(loss):
            better = False
        elif self.best_score is None:
            better = True
        elif score == self.best_score:
            better = loss < self.best_loss
        else:
            better = score > self.best_score if higher_is_better else score < self.best_score
        if better:
            self.best_score, self.best_loss = score, loss
            self.best_step, self.validations_since_best = self.step, 0
        else:
            self.validations_since_best += 1
        return better

    def count(self, statistics: StepStatistics) -> None:
        """Add an optimizer step to the counters."""
        sums = self.sums
        self.step += 1
        self.tokens += statistics.tokens
        self.seconds += statistics.seconds
        sums["seconds"] += statistics.seconds
        # The losses of skipped steps may be NaN, which would make the means NaN.
        if not statistics.applied:
            self.skipped_steps += 1
            self.consecutive_skipped_steps += 1
            return
        self.consecutive_skipped_steps = 0
        sums["steps"] += 1
        sums["tokens"] += statistics.tokens
        sums["loss"] += statistics.loss
        sums["nll"] += statistics.nll
        sums["grad_norm"] += statistics.grad_norm

    def take_means(self, learning_rate: float) -> dict[str, Any] | None:
        """Return the means for the metrics log, and start new sums; None if no step was applied."""
        sums, self.sums = self.sums, dict.fromkeys(SUMMED, 0.0)
        if not sums["tokens"]:
            return None
        entry = {
            "loss": sums["loss"] / sums["tokens"],
            "perplexity": perplexity(sums["nll"] / sums["tokens"]),
            "grad_norm": sums["grad_norm"] / sums["steps"],
            "learning_rate": learning_rate,
            "tokens": self.tokens,
            "tokens_per_second": round(sums["tokens"] / max(1e-9, sums["seconds"]), 1),
            "seconds": round(self.seconds, 3),
        }
        return {**entry, "skipped": self.skipped_steps} if self.skipped_steps else entry

    def limit_reached(self, stop: StopConfig, patience: int | None) -> str | None:
        """Return a description of the limit that the run has reached, or None if training continues."""
        # `epoch` is the current one: it exceeds the maximum only after the last epoch has ended.
        if stop.max_epochs and self.epoch > stop.max_epochs:
            return f"{stop.max_epochs} epochs"
        if stop.max_steps and self.step >= stop.max_steps:
            return f"{stop.max_steps} steps"
        if stop.max_minutes and self.seconds >= 60 * stop.max_minutes:
            return f"{stop.max_minutes:g} minute{'' if stop.max_minutes == 1 else 's'}"
        if patience is not None and self.validations_since_best >= patience:
            return f"{patience} validations without improvement"
        return None

    def completed_share(self, stop: StopConfig, num_batches: int) -> float:
        """Return the completed share of the run in [0, 1], relative to the limit closest to being reached."""
        shares = []
        if stop.max_epochs:
            shares.append((self.epoch - 1 + self.batches_in_epoch / max(1, num_batches)) / stop.max_epochs)
        if stop.max_steps:
            shares.append(self.step / stop.max_steps)
        if stop.max_minutes:
            shares.append(self.seconds / (60 * stop.max_minutes))
        # The last step or validation may end after the time limit.
        return min(1.0, max(shares, default=0.0))
