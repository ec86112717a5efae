"""The files of a training run: the state it goes on from, and the weights worth keeping.

    FOLDER/config.toml, text files         what the model is and how it reads (written by `regard.experiment`)
    FOLDER/model.safetensors               the best weights by validation
    FOLDER/record.jsonl                    what happened
    FOLDER/training/state-00001234.safetensors   weights, optimizer, schedule, position after update 1234
    FOLDER/training/epoch-0007.safetensors       weights at an epoch's end, where they are kept for averaging

The two latest states are kept: should the last be damaged, training goes on from the one before.
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

KEPT = 2


@dataclass
class TrainingState:
    """Everything that training changes.

    Attributes:
        model: Its parameters are written in place.
        optimizer: Built over the parameters that require a gradient.
        schedule: The learning-rate schedule.
        progress: The counts.
    """

    model: TranslationModel
    optimizer: Optimizer
    schedule: Schedule
    progress: Progress

    def trained(self) -> list[str]:
        """The names of the parameters that are trained, in the optimizer's order."""
        names = {id(value): name for name, value in self.model.named_parameters()}
        return [names[id(value)] for group in self.optimizer.param_groups for value in group["params"]]


class Checkpoints:
    """The checkpoints of one model folder.

    Args:
        folder: The model folder.
        identity: What a state must agree with to be gone on from (the data's checksum).
        beside: The checksums of what stands beside the weights, recorded with them; see
            `regard.training.resume`. A state must agree with these, too.
    """

    def __init__(
        self, folder: Path, identity: Mapping[str, Any], beside: Mapping[str, str] | None = None
    ) -> None:
        """Look at nothing yet."""
        self.folder = folder
        self.states = folder / "training"
        self.beside = dict(beside or {})
        self.identity = dict(identity)

    def save(self, state: TrainingState) -> None:
        """Write the state, then remove all but the latest.

        Raises:
            CheckpointError: if it cannot be written (disk full); what was there stays.
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
        for old in self._files()[KEPT:]:
            old.unlink(missing_ok=True)

    def load(self, state: TrainingState) -> bool:
        """Put the latest whole state back; a damaged one is passed over, saying so.

        Returns:
            Whether there was one.

        Raises:
            CheckpointError: if there are some and none is whole, or it is of other data or another model.
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
                _log.warning("%s; going on from the checkpoint before, %s", problem, file)
            self._put(state, file, tensors, about)
            return True
        if files:
            raise CheckpointError("\n".join(problems) + f"\nno whole checkpoint is left in {self.states}")
        return False

    def save_model(self, model: nn.Module, about: dict[str, Any]) -> None:
        """Write the weights as the folder's model."""
        write_tensors(self.folder / MODEL_FILE, weights_of(model), {**about, BESIDE: self.beside})

    def mend_model(self, state: TrainingState) -> bool:
        """Where the best weights were lost, put the present ones in their place, saying so.

        Returns:
            Whether they do stand in for the best, so that any validation is better.

        Raises:
            CheckpointError: if they cannot be written.
        """
        try:
            _, about = read_tensors(self.folder / MODEL_FILE)
        except CheckpointError as error:
            update = state.progress.update
            _log.warning("%s; the best weights are lost, those of update %d take their place", error, update)
            self.save_model(state.model, {"update": update, "mended": True})
            return True
        return "mended" in about

    def save_epoch(self, model: nn.Module, epoch: int, keep: int, about: dict[str, Any]) -> None:
        """Write the weights at an epoch's end, and remove those of epochs more than `keep` back."""
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
                    f"{file}: the {name} has changed since this run began; give the new run another folder"
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
            raise CheckpointError(f"{self.states}: cannot be made: {error.strerror}") from None

    def _files(self) -> list[Path]:
        """The states, the latest first."""
        return state_files(self.folder)


def epoch_files(folder: Path) -> list[Path]:
    """The weights kept at the ends of epochs in a model folder, in order."""
    return sorted((folder / "training").glob("epoch-*.safetensors"))


def state_files(folder: Path) -> list[Path]:
    """The states of training in a model folder, the latest first."""
    return sorted((folder / "training").glob("state-*.safetensors"), reverse=True)
