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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import ConfigError, DataError, TrainingDiverged
from regard.models.base import TranslationModel
from regard.training.checkpoint import Checkpoints, TrainingState
from regard.training.config import TrainingConfig
from regard.training.display import Display
from regard.training.distributed import ALONE, Processes
from regard.training.evaluate import Examples, evaluate, perplexity
from regard.training.finetune import FinetuneConfig, parameter_groups
from regard.training.guided import GuidedConfig
from regard.training.optimizer import build_optimizer, freeze
from regard.training.progress import Progress, Window
from regard.training.record import Record
from regard.training.schedule import build_schedule
from regard.training.sequence import SequenceConfig
from regard.training.signals import Interrupts
from regard.training.update import Figures, Updater
from regard.training.weights import load_weights, start_from

__all__ = ["Result", "Trainer"]

_log = logging.getLogger(__name__)

INTERRUPTED = "a signal"

PATIENCE_WITH_NAN = 10
"""The number of steps in a row with a loss that is not finite after which training has diverged."""


@dataclass(frozen=True)
class Result:
    """The result of a run.

    Attributes:
        reason: A description of the limit or signal that ended the run.
        signal: The number of the signal that interrupted the run, or None if the run is complete.
        progress: The counters of the run.
    """

    reason: str
    signal: int | None
    progress: Progress


class Trainer:
    """Trains a model in a model directory, and resumes from its last checkpoint if there is one.

    Args:
        model: The initialized model, on the device of the processes.
        train: The training split.
        valid: The validation split.
        config: The options of training.
        folder: The model directory; it exists, and the first process has locked it (`regard.data.locking`).
        seed: The random seed of the run.
        processes: The processes of the run.
        identity: Values that must not change when the run is resumed, by name, such as the checksum of the
            data.
        beside: The checksums of the files that the weights depend on; see
            `regard.training.resume.files_beside`.
        searched: A function that returns the validation metric of the model's translations, if the metric is
            not perplexity. The first process calls it.
        guided: The options of guided alignment, if the batches of `train` have links.
        sequence: The options of a sequence loss.
        finetune: The options of fine-tuning pre-trained layers.
    """

    def __init__(
        self,
        model: TranslationModel,
        train: Examples,
        valid: Examples,
        config: TrainingConfig,
        *,
        folder: Path,
        seed: int = 0,
        processes: Processes = ALONE,
        identity: dict[str, Any] | None = None,
        beside: Mapping[str, str] | None = None,
        searched: Callable[[TranslationModel], float] | None = None,
        guided: GuidedConfig | None = None,
        sequence: SequenceConfig | None = None,
        finetune: FinetuneConfig | None = None,
    ) -> None:
        """Build the optimizer and the schedule.

        Raises:
            ConfigError: if options contradict each other or do not fit the model.
        """
        self.train, self.valid, self.config, self.seed = train, valid, config, seed
        self.folder, self.processes, self.searched = folder, processes, searched
        metric = config.validation.metric
        if metric != "perplexity" and searched is None:
            raise ConfigError(
                f"training.validation.metric = '{metric}' needs the argument `searched`, which translates "
                "the validation split"
            )
        freeze(model, config.freeze)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        groups = parameter_groups(model, finetune, trained)
        self.state = TrainingState(
            model, build_optimizer(config.optimizer, groups), build_schedule(config.schedule), Progress()
        )
        self.checkpoints = Checkpoints(folder, identity or {}, beside)
        self.updater = Updater(self.state, train, config, processes, seed, guided, sequence, finetune)
        self.record: Record | None = None
        self.display = Display(processes.is_main)
        self._mark = time.monotonic()
        self._saved_at = 0.0

    def run(self) -> Result:
        """Train until a limit is reached or a signal is received, then save the training state.

        Raises:
            TrainingDiverged: if the loss was not finite in ten steps in a row, in every step of the run, or
                in a validation.
            CheckpointError: if a checkpoint is damaged or belongs to another run, or a file cannot be
                written.
            DataError: if there is no training pair.
        """
        self._restore()
        progress = self.state.progress
        limit = progress.limit_reached(self.config, self.config.validation.patience)
        if limit is not None:
            return Result(f"{limit}, reached before", None, progress)
        if self.processes.is_main:
            if progress.update:
                where = f"step {progress.update} (epoch {progress.epoch})"
                _log.info("resuming from %s in %s", where, self.folder)
            else:
                self._tell_little_text()
            self.record = Record(self.folder, progress.update, self.config.record.tensorboard)
        try:
            with Interrupts() as interrupts, self.display:
                reason = self._loop(interrupts)
        finally:
            self.updater.release()
            if self.record is not None:
                self.record.close()
        # The signal may have been sent to another process, so that its number is unknown here.
        number = (interrupts.number or signal.SIGTERM) if reason == INTERRUPTED else None
        return Result(reason, number, progress)

    def _restore(self) -> None:
        """Restore the last checkpoint or, without one, load the weights of `training.start` if it is set."""
        state, start = self.state, self.config.start
        if self.checkpoints.load(state):
            if state.progress.best is not None and self._best_is_lost():
                state.progress.best = None
        elif start is not None:
            new = start_from(state.model, load_weights(start), start)
            if new and self.processes.is_main:
                _log.warning(
                    "%s has another attention mechanism; these parameters are initialized randomly: %s",
                    start,
                    ", ".join(new),
                )
        self._saved_at = state.progress.seconds
        self.processes.wait()  # no process may write before all processes have read

    def _tell_little_text(self) -> None:
        """Log a warning if the training text is smaller than the batches of one step."""
        batch, wanted = self.config, self.config.accumulate
        order = self.train.batches(batch, self.seed, 1)
        lengths = np.maximum(*self.train.lengths)
        sizes = [
            len(rows) if batch.unit == "sentences" else len(rows) * int(lengths[rows].max()) for rows in order
        ]
        if 0 < sum(sizes) < batch.size * wanted:
            _log.warning(
                "the training text of %d sentences is smaller than the batch of one step "
                "(training.size = %d %s%s): every step uses all of it; use more text or a smaller "
                "batch size",
                sum(map(len, order)),
                batch.size,
                batch.unit,
                f", training.accumulate = {wanted}" if wanted > 1 else "",
            )

    def _best_is_lost(self) -> bool:
        """Return whether the file of the best weights is lost; the first process checks it for all."""
        lost = self.processes.is_main and self.checkpoints.mend_model(self.state)
        return self.processes.from_main(lost) > 0

    def _loop(self, interrupts: Interrupts) -> str:
        progress = self.state.progress
        self.state.model.train()
        self._mark = time.monotonic()
        while True:
            order = self.train.batches(self.config, self.seed, progress.epoch)
            if not order:
                raise DataError("the training text contains no sentence pair")
            reason = None
            while reason is None and progress.batch < len(order):
                chosen = order[progress.batch : progress.batch + self.config.accumulate]
                progress.batch += len(chosen)
                figures = self.updater(chosen, self._elapsed, interrupts.came)
                self._count(figures)
                self.display.advance(progress.done(self.config, len(order)), progress.epoch)
                reason = self._after(figures, epoch_ended=progress.batch == len(order))
                # `_after` resets the batch counter at the end of an epoch.
                if progress.batch == 0:
                    break
            if reason is not None:
                return reason

    def _elapsed(self) -> float:
        """Return the seconds since the last call."""
        before, self._mark = self._mark, time.monotonic()
        return self._mark - before

    def _tick(self) -> None:
        """Count time spent outside steps; all processes use the clock of the first one."""
        self.state.progress.seconds += self.processes.from_main(self._elapsed())

    def _count(self, figures: Figures) -> None:
        """Add a step to the counters.

        Raises:
            TrainingDiverged: if too many steps in a row were skipped.
        """
        progress, window = self.state.progress, self.state.progress.window
        progress.update += 1
        progress.tokens += figures.tokens
        progress.flops += figures.flops
        progress.seconds += figures.seconds
        window.seconds += figures.seconds
        if figures.applied:
            progress.skipped_in_a_row = 0
            window.updates += 1
            window.tokens += figures.tokens
            window.total += figures.total
            window.nll += figures.nll
            window.norm += figures.norm
            return
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        if self.processes.is_main:
            _log.warning("step %d skipped: the loss or its gradient is not finite", progress.update)
        if progress.skipped_in_a_row >= PATIENCE_WITH_NAN:
            raise self._diverged(
                f"the loss or its gradient was not finite in {PATIENCE_WITH_NAN} steps in a row, up to step "
                f"{progress.update}"
            )

    def _diverged(self, what: str) -> TrainingDiverged:
        """Return the error of a diverged run: the cause, the files that are kept and possible remedies."""
        progress = self.state.progress
        kept = "No model was saved"
        if progress.best is not None:
            kept = f"The best model, of step {progress.best_update}, is kept"
        return TrainingDiverged(
            f"{self.folder}: training diverged: {what}. {kept}; the last checkpoint is unchanged. "
            "Train again, into another directory, with a lower training.optimizer.rate, a longer "
            "training.schedule.warmup, a lower training.optimizer.clip, or training.precision = 'float32'."
        )

    def _check_finite(self, loss: float) -> None:
        """Check that a validation loss is finite.

        Raises:
            TrainingDiverged: if it is not finite.
        """
        if not math.isfinite(loss):
            update = self.state.progress.update
            raise self._diverged(f"the validation loss after step {update} is {loss}")

    def _after(self, figures: Figures, epoch_ended: bool) -> str | None:
        """Log, validate and save as due after a step; return the reason to stop, or None."""
        config, progress = self.config, self.state.progress
        epoch = progress.epoch
        if progress.update % config.record.every == 0 or epoch_ended:
            self._record_training(figures.rate)
        if epoch_ended:
            progress.epoch, progress.batch = epoch + 1, 0
        limit = progress.limit_reached(config, None)
        if limit is not None and progress.skipped == progress.update:
            raise self._diverged(
                f"the loss or its gradient was not finite in any of {progress.update} steps"
            )
        every = config.validation.every
        due = epoch_ended if every is None else progress.update % every == 0
        found = self._validate(epoch) if due or limit is not None else None
        if epoch_ended:
            self.state.schedule.epoch_ended(epoch, found)
            if config.checkpoint.keep and self.processes.is_main:
                about = {"update": progress.update, "epoch": epoch}
                self.checkpoints.save_epoch(self.state.model, epoch, config.checkpoint.keep, about)
        reason = limit or progress.limit_reached(config, config.validation.patience)
        if reason is None and figures.stop:
            reason = INTERRUPTED
        # While steps are skipped, the weights may be damaged. Saving them would remove an earlier, intact
        # state.
        due = not progress.skipped_in_a_row and (epoch_ended or self._save_due())
        if found is not None or reason is not None or due:
            self._save()
        return reason

    def _save_due(self) -> bool:
        settings, progress = self.config.checkpoint, self.state.progress
        due = settings.every is not None and progress.update % settings.every == 0
        return due or progress.seconds - self._saved_at >= 60 * settings.minutes

    def _save(self) -> None:
        self._tick()
        self._saved_at = self.state.progress.seconds
        if self.record is not None:
            self.record.sync()
            self.checkpoints.save(self.state)
        self._tick()

    def _validate(self, epoch: int) -> float:
        """Validate the model, save it if it is the best so far, and return the perplexity."""
        config, progress, model = self.config, self.state.progress, self.state.model
        self._tick()
        score = evaluate(model, self.valid, config, config.precision, self.processes)
        self._check_finite(score.loss)
        entry: dict[str, Any] = {"loss": score.loss, "perplexity": score.perplexity}
        chosen, metric = score.perplexity, config.validation.metric
        if metric != "perplexity":
            chosen = self.processes.from_main(self._search() if self.processes.is_main else 0.0)
            entry[metric] = chosen
        best = progress.judge(chosen, metric != "perplexity", score.loss)
        self.state.schedule.validated(best)
        if best and self.processes.is_main:
            self.checkpoints.save_model(model, {"update": progress.update, "epoch": epoch, **entry})
        self._tick()
        self._write("validation", epoch, {**entry, "best": best, "seconds": round(progress.seconds, 3)})
        return score.perplexity

    def _search(self) -> float:
        assert self.searched is not None
        self.state.model.eval()
        found = self.searched(self.state.model)
        self.state.model.train()
        return found

    def _record_training(self, rate: float) -> None:
        progress, window = self.state.progress, self.state.progress.window
        progress.window = Window()
        if window.tokens:
            entry = {
                "loss": window.total / window.tokens,
                "perplexity": perplexity(window.nll / window.tokens),
                "norm": window.norm / window.updates,
                "rate": rate,
                "tokens": progress.tokens,
                "tokens_per_second": round(window.tokens / max(1e-9, window.seconds), 1),
                "seconds": round(progress.seconds, 3),
                "flops": progress.flops,
            }
            if progress.skipped:
                entry["skipped"] = progress.skipped
            self._write("train", progress.epoch, entry)

    def _write(self, kind: str, epoch: int, entry: dict[str, Any]) -> None:
        if self.record is not None:
            entry = {"kind": kind, "update": self.state.progress.update, "epoch": epoch, **entry}
            self.record.add(entry)
            self.display.recorded(entry)
