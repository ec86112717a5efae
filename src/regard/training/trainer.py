"""The training loop: epochs, steps, validation, the metrics log, checkpoints and stopping criteria.

The training state is saved only between two steps, after the logging, validation and schedule of a step, so
that a resumed run continues with the next step. The order of the data and the random numbers are functions of
the seed and of the progress of the run. The final weights are therefore bitwise identical whether or not the
run was interrupted (on a CPU with the same number of threads).
"""

import logging
import math
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from regard.config.results import Result, json_value, perplexity
from regard.errors import ConfigError, DataError, TrainingDivergedError
from regard.metrics.base import METRICS
from regard.models.base import TranslationModel
from regard.runs.weights import MODEL_FILE, init_from, load_weights
from regard.training.checkpoint import CheckpointManager, TrainingState
from regard.training.config import TrainingConfig
from regard.training.display import ProgressDisplay, banner
from regard.training.evaluate import TrainingExamples, validate
from regard.training.losses.base import LossTerm
from regard.training.metrics_logger import MetricsLogger, read_metrics
from regard.training.optimizer import LRScheduler, build_optimizer, freeze_parameters, parameter_groups
from regard.training.progress import TrainingProgress
from regard.training.run_context import Callback, RunContext, StepStatistics, record_signals
from regard.training.train_step import TrainStep

_log = logging.getLogger(__name__)

INTERRUPTED = "a signal"

MAX_CONSECUTIVE_SKIPS = 10
"""The number of steps in a row with a loss that is not finite after which training has diverged."""


@dataclass(frozen=True, repr=False)
class TrainingResult(Result):
    """The result of a run.

    Attributes:
        reason: A description of the limit or signal that ended the run.
        signal: The number of the signal that interrupted the run, or None if the run is complete.
        progress: The counters of the run.
        metric: The metric of the best validation score, `progress.best_score`.
        output_dir: The model directory. Its metrics log has the history of the run, if the model is neural.
    """

    schema: ClassVar[str] = "training"

    reason: str
    signal: int | None
    progress: TrainingProgress
    metric: str = "perplexity"
    output_dir: Path | None = None

    def to_data(self) -> dict[str, Any]:
        """Return the reason, the counters and the validations; scores that are not finite are None."""
        progress = self.progress
        return {
            "stopped_after": self.reason,
            "signal": self.signal,
            "step": progress.step,
            "seconds": progress.seconds,
            "tokens": progress.tokens,
            "metric": self.metric,
            "best": json_value(progress.best_score),
            "best_step": progress.best_step,
            "validations": self.rows(),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return the validations of the run in order: step, epoch, loss, perplexity, metric and seconds."""
        log = [] if self.output_dir is None else read_metrics(self.output_dir)
        return [
            {key: value for key, value in entry.items() if key != "kind"}
            for entry in log
            if entry.get("kind") == "validation"
        ]

    def __repr__(self) -> str:
        """Return the reason, the number of steps and the best score on one line."""
        progress = self.progress
        best = "" if progress.best_score is None else f", best {self.metric} {progress.best_score:.4g}"
        return f"TrainingResult(stopped after {self.reason}, step {progress.step}{best})"


class Trainer:
    """Trains a model in a model directory, and resumes from its last checkpoint if there is one.

    Args:
        model: The initialized model, on the device of the processes.
        train: The training split.
        valid: The validation split.
        config: The options of training.
        run: The model directory, the seed and the processes of the run.
        losses: The loss terms in addition to the model's own objective, in the order of their application.
            They have prepared the data.
        callbacks: Callbacks of the first process.
    """

    def __init__(
        self,
        model: TranslationModel,
        train: TrainingExamples,
        valid: TrainingExamples,
        config: TrainingConfig,
        run: RunContext,
        losses: Sequence[LossTerm] = (),
        callbacks: Sequence[Callback] = (),
    ) -> None:
        """Build the optimizer and the schedule.

        Raises:
            ConfigError: if options contradict each other or do not fit the model.
        """
        self.train, self.valid, self.config = train, valid, config
        self.seed, self.output_dir, self.processes = run.seed, run.output_dir, run.processes
        self.translation_metric = run.translation_metric
        self.callbacks = callbacks if run.processes.is_main else ()
        self.metric = config.validation.metric
        if self.metric != "perplexity" and run.translation_metric is None:
            raise ConfigError(
                f"training.validation.metric = '{self.metric}' needs `RunContext.translation_metric`, which "
                "translates the validation split"
            )
        freeze_parameters(model, config.freeze)
        groups = parameter_groups(model, config.pretrained_lr_factor)
        self.state = TrainingState(
            model,
            build_optimizer(config.optimizer, groups),
            LRScheduler(config.lr_scheduler),
            TrainingProgress(),
        )
        identity: dict[str, Any] = {}
        for term in losses:
            # Several terms may name the same value.
            identity |= {name: [*identity.get(name, ()), value] for name, value in term.identity().items()}
        self.checkpoints = CheckpointManager(run.output_dir, {**identity, **run.identity}, run.file_checksums)
        self.train_step = TrainStep(self.state, train, config, run.processes, run.seed, losses)
        self.metrics_logger: MetricsLogger | None = None
        self.display = ProgressDisplay(run.processes.is_main, run.show_progress, config)
        self._last_time = time.monotonic()
        self._saved_at = 0.0

    def run(self) -> TrainingResult:
        """Train until a limit is reached or a signal is received, then save the training state.

        Raises:
            TrainingDivergedError: if the loss was not finite in ten steps in a row, in every step of the run,
                or in a validation.
            CheckpointError: if a checkpoint is damaged or belongs to another run, or a file cannot be
                written.
            DataError: if there is no training pair.
        """
        self._restore()
        progress = self.state.progress
        limit = progress.limit_reached(self.config, self.config.validation.early_stopping_patience)
        if limit is not None:
            if progress.best_score is None and self.processes.is_main:
                _log.warning(
                    "%s is missing; the weights of the last step replace it", self.output_dir / MODEL_FILE
                )
                # The state is saved first: without the best score, any better weights replace these.
                self.checkpoints.save(self.state)
                self.checkpoints.save_model(self.state.model, {"step": progress.step})
            reason = f"{limit}, reached before"
            return TrainingResult(reason, None, progress, self.metric, self.output_dir)
        if self.processes.is_main:
            if progress.step:
                where = f"step {progress.step} (epoch {progress.epoch})"
                _log.info("resuming from %s in %s", where, self.output_dir)
            self.metrics_logger = MetricsLogger(
                self.output_dir, progress.step, self.config.logging.tensorboard
            )
        try:
            with record_signals() as signals, self.display:
                reason = self._loop(signals)
        finally:
            # The threads of the process group are joined only without references to it.
            self.train_step.replica = self.state.model
            if self.metrics_logger is not None:
                self.metrics_logger.close()
        # The signal may have been sent to another process, so that its number is unknown here.
        number = next(iter(signals), signal.SIGTERM) if reason == INTERRUPTED else None
        return TrainingResult(reason, number, progress, self.metric, self.output_dir)

    def _restore(self) -> None:
        """Restore the last checkpoint or, without one, load the weights of `training.init_from`."""
        state, start = self.state, self.config.init_from
        if self.checkpoints.load(state):
            if not (self.output_dir / MODEL_FILE).exists():
                # The next validation then counts as the best and writes the weights.
                state.progress.best_score = None
        elif start is not None:
            new = init_from(state.model, load_weights(start), start)
            if new and self.processes.is_main:
                _log.warning(
                    "%s has another attention mechanism; these parameters are initialized randomly: %s",
                    start,
                    ", ".join(new),
                )
        self._saved_at = state.progress.seconds
        self.processes.barrier()  # no process may write before all processes have read

    def _loop(self, signals: list[int]) -> str:
        progress = self.state.progress
        self.state.model.train()
        self._last_time = time.monotonic()
        order = self.train.batches(self.config, self.seed, progress.epoch)
        if not order:
            raise DataError("the training text contains no sentence pair")
        if self.display.enabled:
            data = self.train, self.valid
            for line in banner(
                self.state.model, data, self.config, self.processes, len(order), self.output_dir
            ):
                self.display.print(line)
        while True:
            first = progress.batches_in_epoch
            chosen = order[first : first + self.config.gradient_accumulation]
            progress.batches_in_epoch += len(chosen)
            statistics = self.train_step(chosen, self._elapsed, lambda: bool(signals))
            self._count(statistics)
            for callback in self.callbacks:
                callback.on_step(statistics)
            self.display.advance(statistics, progress, len(order))
            reason = self._after_step(statistics, epoch_ended=progress.batches_in_epoch == len(order))
            if reason is not None:
                return reason
            # `_after_step` resets the batch counter at the end of an epoch.
            if progress.batches_in_epoch == 0:
                order = self.train.batches(self.config, self.seed, progress.epoch)

    def _elapsed(self) -> float:
        """Return the seconds since the last call."""
        before, self._last_time = self._last_time, time.monotonic()
        return self._last_time - before

    def _count_time(self) -> None:
        """Count time spent outside steps; all processes use the clock of the first one."""
        self.state.progress.seconds += self.processes.broadcast_from_main(self._elapsed())

    def _count(self, statistics: StepStatistics) -> None:
        """Add a step to the counters.

        Raises:
            TrainingDivergedError: if too many steps in a row were skipped.
        """
        progress = self.state.progress
        progress.count(statistics)
        if statistics.applied:
            return
        if self.processes.is_main:
            _log.warning("step %d skipped: the loss or its gradient is not finite", progress.step)
        if progress.consecutive_skipped_steps >= MAX_CONSECUTIVE_SKIPS:
            raise self._divergence_error(
                f"the loss or its gradient was not finite in {MAX_CONSECUTIVE_SKIPS} steps in a row, up to "
                f"step {progress.step}"
            )

    def _divergence_error(self, cause: str) -> TrainingDivergedError:
        """Return the error of a diverged run: the cause, the files that are kept and possible remedies."""
        progress = self.state.progress
        status = "No model was saved"
        if progress.best_score is not None:
            status = f"The best model, of step {progress.best_step}, is kept"
        return TrainingDivergedError(
            f"{self.output_dir}: training diverged: {cause}. {status}; the last checkpoint is unchanged. "
            "Train again, into another directory, with a lower training.optimizer.learning_rate, a higher "
            "training.lr_scheduler.warmup_steps, a lower training.optimizer.max_grad_norm, or "
            "training.precision = 'float32'."
        )

    def _after_step(self, statistics: StepStatistics, epoch_ended: bool) -> str | None:
        """Log, validate and save as due after a step; return the reason to stop, or None."""
        config, progress = self.config, self.state.progress
        epoch = progress.epoch
        if progress.step % config.logging.every_steps == 0 or epoch_ended:
            means = progress.take_means(statistics.learning_rate)
            if means is not None:
                self._write("train", epoch, means)
        if epoch_ended:
            progress.epoch, progress.batches_in_epoch = epoch + 1, 0
        limit = progress.limit_reached(config, None)
        if limit is not None and progress.skipped_steps == progress.step:
            raise self._divergence_error(
                f"the loss or its gradient was not finite in any of {progress.step} steps"
            )
        interval = config.validation.every_steps
        due = epoch_ended if interval is None else progress.step % interval == 0
        validation_perplexity = self._validate(epoch) if due or limit is not None else None
        if epoch_ended:
            self.state.schedule.on_epoch_end(epoch, validation_perplexity)
            if config.checkpoint.keep_last_epochs and self.processes.is_main:
                about = {"step": progress.step, "epoch": epoch}
                self.checkpoints.save_epoch(
                    self.state.model, epoch, config.checkpoint.keep_last_epochs, about
                )
        reason = limit or progress.limit_reached(config, config.validation.early_stopping_patience)
        if reason is None and statistics.stop_requested:
            reason = INTERRUPTED
        # While steps are skipped, the weights may be damaged. Saving them would remove an intact state.
        settings = config.checkpoint
        due = epoch_ended or (settings.every_steps is not None and progress.step % settings.every_steps == 0)
        due = due or progress.seconds - self._saved_at >= 60 * settings.every_minutes
        due = due and not progress.consecutive_skipped_steps
        if validation_perplexity is not None or reason is not None or due:
            self._save()
        return reason

    def _save(self) -> None:
        self._count_time()
        self._saved_at = self.state.progress.seconds
        if self.metrics_logger is not None:
            self.metrics_logger.sync()
            path = self.checkpoints.save(self.state)
            for callback in self.callbacks:
                callback.on_checkpoint(path)
        self._count_time()

    def _validate(self, epoch: int) -> float:
        """Validate the model, save it if it is the best so far, and return the perplexity.

        Raises:
            TrainingDivergedError: if the loss is not finite.
        """
        progress, model = self.state.progress, self.state.model
        self._count_time()
        entry = self._scores()
        if not math.isfinite(entry["loss"]):
            raise self._divergence_error(f"the validation loss after step {progress.step} is {entry['loss']}")
        # A score of `_scores` precedes the metric of a plugin with the same name.
        metric = None if self.metric in entry else METRICS.get(self.metric)
        if metric is not None:
            score = 0.0
            # Only the first process translates; all of them must make the same decisions.
            if self.processes.is_main:
                assert self.translation_metric is not None
                model.eval()
                score = self.translation_metric(model)
                model.train()
            entry[self.metric] = self.processes.broadcast_from_main(score)
        higher_is_better = self.metric != "perplexity" if metric is None else metric.higher_is_better
        best = progress.record_validation(entry[self.metric], higher_is_better, entry["loss"])
        self.state.schedule.on_validation(best)
        if best and self.processes.is_main:
            self.checkpoints.save_model(model, {"step": progress.step, "epoch": epoch, **entry})
        self._count_time()
        self._write("validation", epoch, {**entry, "best": best, "seconds": round(progress.seconds, 3)})
        return entry["perplexity"]

    def _scores(self) -> dict[str, float]:
        """Return the scores of the model on the validation split, which a subclass may replace."""
        loss = validate(self.state.model, self.valid, self.config, self.config.precision, self.processes)
        return {"loss": loss, "perplexity": perplexity(loss)}

    def _write(self, kind: str, epoch: int, entry: dict[str, Any]) -> None:
        if self.metrics_logger is not None:
            entry = {"kind": kind, "step": self.state.progress.step, "epoch": epoch, **entry}
            self.metrics_logger.log(entry)
            if kind == "validation":
                self.display.show_validation(entry)
                for callback in self.callbacks:
                    callback.on_validation(entry)
