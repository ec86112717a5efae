"""Checkpoints of a training run: the training states to resume from, and the weights of the model.

    FOLDER/config.toml, text files         configuration, vocabularies, tokenizers (`regard.experiment`)
    FOLDER/model.safetensors               the best weights by validation score
    FOLDER/record.jsonl                    the metrics log
    FOLDER/training/state-00001234.safetensors   weights, optimizer, schedule and progress after step 1234
    FOLDER/training/epoch-0007.safetensors       weights at the end of an epoch, kept for averaging

The two latest training states are kept. If the last one is damaged, training resumes from the one before.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from regard.errors import CheckpointError
from regard.models.base import TranslationModel
from regard.training.optimizer import load_optimizer, optimizer_tensors
from regard.training.progress import Progress
from regard.training.resume import BESIDE
from regard.training.schedule import Schedule
from regard.training.store import read_tensors, write_tensors
from regard.training.weights import (
    MODEL_FILE,
    MODEL_PREFIX,
    OPTIMIZER_PREFIX,
    put_weights,
    weights_of,
)
from regard.types import Tensor

__all__ = ["Checkpoints", "TrainingState", "epoch_files", "state_files"]

_log = logging.getLogger(__name__)

KEPT = 2  # training states


@dataclass
class TrainingState:
    """The mutable state of a training run.

    Attributes:
        model: The model; loading a checkpoint writes its parameters in place.
        optimizer: The optimizer of the parameters that require a gradient.
        schedule: The learning-rate schedule.
        progress: The counters of the run.
    """

    model: TranslationModel
    optimizer: Optimizer
    schedule: Schedule
    progress: Progress

    def trained(self) -> list[str]:
        """Return the names of the trained parameters in the optimizer's order."""
        names = {id(value): name for name, value in self.model.named_parameters()}
        return [names[id(value)] for group in self.optimizer.param_groups for value in group["params"]]


class Checkpoints:
    """The checkpoints of one model directory.

    Args:
        folder: The model directory.
        identity: Values that a training state must match to be resumed, by name, such as the checksum of the
            data.
        beside: The checksums of the files that the weights depend on, recorded with them; see
            `regard.training.resume`. A training state must match these, too.
    """

    def __init__(
        self, folder: Path, identity: Mapping[str, Any], beside: Mapping[str, str] | None = None
    ) -> None:
        """Set the paths. No file is read or written."""
        self.folder = folder
        self.states = folder / "training"
        self.beside = dict(beside or {})
        self.identity = dict(identity)

    def save(self, state: TrainingState) -> None:
        """Write the training state, then remove all but the latest `KEPT` states.

        Raises:
            CheckpointError: if it cannot be written, for example because the disk is full; existing files are
                unchanged.
        """
        tensors = {MODEL_PREFIX + name: tensor for name, tensor in weights_of(state.model).items()}
        moments = optimizer_tensors(state.optimizer, state.trained())
        tensors |= {OPTIMIZER_PREFIX + name: tensor for name, tensor in moments.items()}
        about = {
            "identity": self.identity,
            BESIDE: self.beside,
            "progress": state.progress.state(),
            "schedule": state.schedule.state(),
        }
        self._make_states()
        write_tensors(self.states / f"state-{state.progress.update:08d}.safetensors", tensors, about)
        # Old states are removed last, so that a crash while writing leaves a state to resume from.
        for old in self._files()[KEPT:]:
            old.unlink(missing_ok=True)

    def load(self, state: TrainingState) -> bool:
        """Restore the latest intact training state; damaged states are skipped with a warning.

        Returns:
            Whether a training state was found.

        Raises:
            CheckpointError: if all training states are damaged, or the state belongs to other data or to
                another model.
        """
        files = self._files()
        problems: list[str] = []
        for file in files:
            try:
                tensors, about = read_tensors(file)
            except CheckpointError as error:
                problems.append(str(error))
                continue
            for problem in problems:
                _log.warning("%s; resuming from the previous checkpoint, %s", problem, file)
            self._put(state, file, tensors, about)
            return True
        if files:
            raise CheckpointError(
                "\n".join(problems) + f"\nall checkpoints in {self.states} are damaged; train again"
            )
        return False

    def save_model(self, model: nn.Module, about: dict[str, Any]) -> None:
        """Write the weights to `model.safetensors`."""
        write_tensors(self.folder / MODEL_FILE, weights_of(model), {**about, BESIDE: self.beside})

    def mend_model(self, state: TrainingState) -> bool:
        """Replace the file of the best weights with the current weights if it cannot be read.

        Returns:
            Whether the file holds such replacement weights, so that the next validation counts as an
            improvement.

        Raises:
            CheckpointError: if the weights cannot be written.
        """
        try:
            _, about = read_tensors(self.folder / MODEL_FILE)
        except CheckpointError as error:
            update = state.progress.update
            _log.warning(
                "%s; the best weights are lost and replaced by the weights of step %d", error, update
            )
            self.save_model(state.model, {"update": update, "mended": True})
            return True
        return "mended" in about

    def save_epoch(self, model: nn.Module, epoch: int, keep: int, about: dict[str, Any]) -> None:
        """Write the weights at the end of an epoch, and remove all but the last `keep` such files."""
        self._make_states()
        path = self.states / f"epoch-{epoch:04d}.safetensors"
        write_tensors(path, weights_of(model), {**about, BESIDE: self.beside})
        for old in epoch_files(self.folder)[:-keep]:
            old.unlink(missing_ok=True)

    def _put(
        self, state: TrainingState, file: Path, tensors: dict[str, Tensor], about: dict[str, Any]
    ) -> None:
        known = {**about.get("identity", {}), **about.get(BESIDE, {})}
        for name, value in {**self.identity, **self.beside}.items():
            if known.get(name) != value:
                raise CheckpointError(
                    f"{file}: the {name} has changed since this run began; train into another directory"
                )
        weights, moments = (
            {name.removeprefix(part): tensor for name, tensor in tensors.items() if name.startswith(part)}
            for part in (MODEL_PREFIX, OPTIMIZER_PREFIX)
        )
        put_weights(state.model, weights, str(file))
        load_optimizer(state.optimizer, state.trained(), moments)
        state.schedule.load(about["schedule"])
        state.progress = Progress.from_state(about["progress"])

    def _make_states(self) -> None:
        try:
            self.states.mkdir(exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{self.states}: cannot create the directory: {error.strerror}") from None

    def _files(self) -> list[Path]:
        """Return the files of training states, latest first."""
        return state_files(self.folder)


def epoch_files(folder: Path) -> list[Path]:
    """Return the weight files of the epochs of a model directory, oldest first."""
    return sorted((folder / "training").glob("epoch-*.safetensors"))


def state_files(folder: Path) -> list[Path]:
    """Return the training states of a model directory, latest first."""
    return sorted((folder / "training").glob("state-*.safetensors"), reverse=True)
