"""The training loop: epochs, updates, validation, the record, checkpoints, and when to stop.

The state of a run is only ever saved between two updates, after everything that an update brings about
(record, validation, schedule), so that a resumed run goes on with the next update and misses nothing. Order
of the data and noise are functions of the seed and of where training stands; the final weights are therefore
the same bits whether the run was killed or not (CPU, same threads).
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
"""Updates in a row that may be skipped since the loss is not finite."""


@dataclass(frozen=True)
class Result:
    """How a run ended.

    Attributes:
        reason: Why it stopped, in words.
        signal: The signal it was stopped by, if any: then it is not done.
        progress: Where it stands.
    """

    reason: str
    signal: int | None
    progress: Progress


class Trainer:
    """Trains a model, in a folder that it goes on from if training began there.

    Args:
        model: With its first parameters, on the processes' device.
        train: The training split.
        valid: The validation split.
        config: How to train.
        folder: The model folder; it exists, and the first process has claimed it (`regard.data.locking`).
        seed: The run's seed.
        processes: Those of the run.
        identity: What may not change between resumes, by name, such as the data's checksum.
        beside: The checksums of the files beside the weights; see `regard.training.resume.files_beside`.
        searched: The validation metric, where it is not perplexity, of what search finds for the validation
            split; called by the first process.
        guided: What attention is taught, where the batches of `train` carry links.
        sequence: How whole translations are judged beside the model's own objective.
        finetune: How the pre-trained part of the model is trained.
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
        """Build optimizer and schedule."""
        self.train, self.valid, self.config, self.seed = train, valid, config, seed
        self.folder, self.processes, self.searched = folder, processes, searched
        metric = config.validation.metric
        if metric != "perplexity" and searched is None:
            raise ConfigError(
                f"training.validation.metric = '{metric}' needs a search over the validation split"
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
        """Go on from the last checkpoint, until a limit is reached or a signal comes; then save.

        Raises:
            TrainingDiverged: if the loss was not finite ten times in a row, in every update of the run, or
                in a validation.
            CheckpointError: if a checkpoint is corrupt or of another run, or something cannot be written.
            DataError: if there is nothing to train on.
        """
        self._restore()
        progress = self.state.progress
        limit = progress.limit_reached(self.config.stop, self.config.validation.patience)
        if limit is not None:
            return Result(f"{limit}, reached before", None, progress)
        if self.processes.is_main:
            if progress.update:
                where = f"update {progress.update} (epoch {progress.epoch})"
                _log.info("going on from %s in %s", where, self.folder)
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
        # Another process may have been the one that was told.
        number = (interrupts.number or signal.SIGTERM) if reason == INTERRUPTED else None
        return Result(reason, number, progress)

    def _restore(self) -> None:
        """Put the last checkpoint back; lacking one, the weights to start from where there are some."""
        state, start = self.state, self.config.start
        if self.checkpoints.load(state):
            if state.progress.best is not None and self._best_is_lost():
                state.progress.best = None
        elif start is not None:
            new = start_from(state.model, load_weights(start), start)
            if new and self.processes.is_main:
                _log.warning(
                    "%s has another attention mechanism; these start anew: %s", start, ", ".join(new)
                )
        self._saved_at = state.progress.seconds
        self.processes.wait()  # nobody writes before everybody has read

    def _tell_little_text(self) -> None:
        """Warn where all of the training text is less than an update takes."""
        batch, wanted = self.config.batch, self.config.accumulate
        order = self.train.batches(batch, self.seed, 1)
        lengths = np.maximum(*self.train.lengths)
        sizes = [
            len(rows) if batch.unit == "sentences" else len(rows) * int(lengths[rows].max()) for rows in order
        ]
        if 0 < sum(sizes) < batch.size * wanted:
            _log.warning(
                "the training text of %d sentences is less than an update takes (training.batch.size = %d "
                "%s%s): every update sees all of it; give more text, or a smaller batch",
                sum(map(len, order)),
                batch.size,
                batch.unit,
                f", training.accumulate = {wanted}" if wanted > 1 else "",
            )

    def _best_is_lost(self) -> bool:
        """Whether the folder's model is not the best one any more; the first process looks for all."""
        lost = self.processes.is_main and self.checkpoints.mend_model(self.state)
        return self.processes.from_main(lost) > 0

    def _loop(self, interrupts: Interrupts) -> str:
        progress = self.state.progress
        self.state.model.train()
        self._mark = time.monotonic()
        while True:
            order = self.train.batches(self.config.batch, self.seed, progress.epoch)
            if not order:
                raise DataError("there is no sentence pair to train on")
            reason = None
            while reason is None and progress.batch < len(order):
                chosen = order[progress.batch : progress.batch + self.config.accumulate]
                progress.batch += len(chosen)
                figures = self.updater(chosen, self._elapsed, interrupts.came)
                self._count(figures)
                self.display.advance(progress.done(self.config.stop, len(order)), progress.epoch)
                reason = self._after(figures, epoch_ended=progress.batch == len(order))
                if progress.batch == 0:
                    break
            if reason is not None:
                return reason

    def _elapsed(self) -> float:
        """Seconds since it was last asked."""
        before, self._mark = self._mark, time.monotonic()
        return self._mark - before

    def _tick(self) -> None:
        """Count time spent on something else than updates; the first process's clock is everybody's."""
        self.state.progress.seconds += self.processes.from_main(self._elapsed())

    def _count(self, figures: Figures) -> None:
        """Add an update to the counts.

        Raises:
            TrainingDiverged: if too many in a row were skipped.
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
            _log.warning("update %d skipped: loss or gradient is not finite", progress.update)
        if progress.skipped_in_a_row >= PATIENCE_WITH_NAN:
            raise self._diverged(
                f"the loss or its gradient was not finite in {PATIENCE_WITH_NAN} updates in a row, the last "
                f"being update {progress.update}"
            )

    def _diverged(self, what: str) -> TrainingDiverged:
        """The error of a run that diverged: what happened, what is left of it, what to do."""
        progress = self.state.progress
        kept = "No model was kept"
        if progress.best is not None:
            kept = f"The best model, of update {progress.best_update}, is kept"
        return TrainingDiverged(
            f"{self.folder}: training diverged: {what}. {kept}; the last checkpoint is untouched. "
            "Train again, into another folder, with a lower training.optimizer.rate, a longer "
            "training.schedule.warmup, a lower training.optimizer.clip, or training.precision = 'float32'."
        )

    def _check_finite(self, loss: float) -> None:
        """Refuse a model whose validation loss is not a finite number: it is no model any more.

        Raises:
            TrainingDiverged: if it is not.
        """
        if not math.isfinite(loss):
            update = self.state.progress.update
            raise self._diverged(f"the validation loss after update {update} is {loss}")

    def _after(self, figures: Figures, epoch_ended: bool) -> str | None:
        """All that an update brings about; returns why to stop, if so."""
        config, progress = self.config, self.state.progress
        epoch = progress.epoch
        if progress.update % config.record.every == 0 or epoch_ended:
            self._record_training(figures.rate)
        if epoch_ended:
            progress.epoch, progress.batch = epoch + 1, 0
        limit = progress.limit_reached(config.stop, None)
        if limit is not None and progress.skipped == progress.update:
            raise self._diverged(
                f"the loss or its gradient was not finite in any of {progress.update} updates"
            )
        every = config.validation.every
        due = epoch_ended if every is None else progress.update % every == 0
        found = self._validate(epoch) if due or limit is not None else None
        if epoch_ended:
            self.state.schedule.epoch_ended(epoch, found)
            if config.checkpoint.keep and self.processes.is_main:
                about = {"update": progress.update, "epoch": epoch}
                self.checkpoints.save_epoch(self.state.model, epoch, config.checkpoint.keep, about)
        reason = limit or progress.limit_reached(config.stop, config.validation.patience)
        if reason is None and figures.stop:
            reason = INTERRUPTED
        # While updates are skipped the weights may be beyond help: the states before are worth more.
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
        """Try the model on the validation split; the best is kept. Returns the perplexity."""
        config, progress, model = self.config, self.state.progress, self.state.model
        self._tick()
        score = evaluate(model, self.valid, config.batch, config.precision, self.processes)
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
