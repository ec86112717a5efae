"""Checkpoints of a training run: the training states to resume from, and the weights of the model.

    DIRECTORY/config.toml, text files               config, vocabularies, tokenizers
    DIRECTORY/model.safetensors                     the best weights by validation score
    DIRECTORY/record.jsonl                          the metrics log
    DIRECTORY/training/state-00001234.safetensors   weights, optimizer, schedule and progress after step 1234
    DIRECTORY/training/epoch-0007.safetensors       weights at the end of an epoch, kept for averaging

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
from regard.runs.checksums import CHECKSUMS_KEY
from regard.runs.serialization import read_tensors, write_tensors
from regard.runs.weights import (
    MODEL_FILE,
    MODEL_PREFIX,
    OPTIMIZER_PREFIX,
    copy_weights,
    named_weights,
    training_files,
)
from regard.training.lr_scheduler import LRScheduler
from regard.training.optimizer import load_optimizer_state, optimizer_state_tensors
from regard.training.progress import TrainingProgress
from regard.types import Tensor

__all__ = ["CheckpointManager", "TrainingState"]

_log = logging.getLogger(__name__)

MAX_STATES = 2  # training states


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
    schedule: LRScheduler
    progress: TrainingProgress

    def trained_parameter_names(self) -> list[str]:
        """Return the names of the trained parameters in the optimizer's order."""
        # `==` of tensors compares their elements, so parameters are compared by identity.
        names = {id(value): name for name, value in self.model.named_parameters()}
        return [names[id(value)] for group in self.optimizer.param_groups for value in group["params"]]


class CheckpointManager:
    """The checkpoints of one model directory.

    Args:
        output_dir: The model directory.
        identity: Values that a training state must match to be resumed, by name, such as the checksum of the
            data.
        file_checksums: The checksums of the files that the weights depend on, recorded with them; see
            `regard.runs.checksums`. A training state must match these, too.
    """

    def __init__(
        self, output_dir: Path, identity: Mapping[str, Any], file_checksums: Mapping[str, str] | None = None
    ) -> None:
        """Set the paths. No file is read or written."""
        self.output_dir = output_dir
        self.states_dir = output_dir / "training"
        self.file_checksums = dict(file_checksums or {})
        self.identity = dict(identity)

    def save(self, state: TrainingState) -> Path:
        """Write the training state, then remove all but the latest `MAX_STATES` states; return its file.

        Raises:
            CheckpointError: if it cannot be written, for example because the disk is full; existing files are
                unchanged.
        """
        tensors = {MODEL_PREFIX + name: tensor for name, tensor in named_weights(state.model).items()}
        moments = optimizer_state_tensors(state.optimizer, state.trained_parameter_names())
        tensors |= {OPTIMIZER_PREFIX + name: tensor for name, tensor in moments.items()}
        about = {
            "identity": self.identity,
            CHECKSUMS_KEY: self.file_checksums,
            "progress": state.progress.state_dict(),
            "schedule": state.schedule.state_dict(),
        }
        self._make_states_dir()
        # With leading zeros, the order of the names is that of the steps, as `training_files` requires.
        file = self.states_dir / f"state-{state.progress.step:08d}.safetensors"
        write_tensors(file, tensors, about)
        # Old states are removed last, so that a crash while writing leaves a state to resume from.
        for old in training_files(self.output_dir, "state")[:-MAX_STATES]:
            old.unlink(missing_ok=True)
        return file

    def load(self, state: TrainingState) -> bool:
        """Restore the latest intact training state; damaged states are skipped with a warning.

        Returns:
            Whether a training state was found.

        Raises:
            CheckpointError: if all training states are damaged, or the state belongs to other data or to
                another model.
        """
        files = training_files(self.output_dir, "state")[::-1]
        problems: list[str] = []
        for file in files:
            try:
                tensors, about = read_tensors(file)
            except CheckpointError as error:
                # The damage is only a warning if an older state is intact; otherwise it is part of the error.
                problems.append(str(error))
                continue
            for problem in problems:
                _log.warning("%s; resuming from the previous checkpoint, %s", problem, file)
            self._load_tensors(state, file, tensors, about)
            return True
        if files:
            raise CheckpointError(
                "\n".join(problems) + f"\nall checkpoints in {self.states_dir} are damaged; train again"
            )
        return False

    def save_model(self, model: nn.Module, metadata: dict[str, Any]) -> None:
        """Write the weights to `model.safetensors`."""
        write_tensors(
            self.output_dir / MODEL_FILE,
            named_weights(model),
            {**metadata, CHECKSUMS_KEY: self.file_checksums},
        )

    def restore_best_model(self, state: TrainingState) -> bool:
        """Replace the file of the best weights with the current weights if it cannot be read.

        Returns:
            Whether the file holds such replacement weights, so that the next validation counts as an
            improvement.

        Raises:
            CheckpointError: if the weights cannot be written.
        """
        try:
            _, about = read_tensors(self.output_dir / MODEL_FILE)
        except CheckpointError as error:
            step = state.progress.step
            _log.warning("%s; the best weights are lost and replaced by the weights of step %d", error, step)
            self.save_model(state.model, {"step": step, "restored": True})
            return True
        # The mark stays until a better model replaces the file, even if the run is interrupted before.
        return "restored" in about

    def save_epoch(self, model: nn.Module, epoch: int, keep_last: int, metadata: dict[str, Any]) -> None:
        """Write the weights at the end of an epoch, and remove all but the last `keep_last` such files."""
        self._make_states_dir()
        path = self.states_dir / f"epoch-{epoch:04d}.safetensors"
        write_tensors(path, named_weights(model), {**metadata, CHECKSUMS_KEY: self.file_checksums})
        # The caller ensures `keep_last` >= 1. With 0, the slice would be empty and keep every file.
        for old in training_files(self.output_dir, "epoch")[:-keep_last]:
            old.unlink(missing_ok=True)

    def _load_tensors(
        self, state: TrainingState, file: Path, tensors: dict[str, Tensor], about: dict[str, Any]
    ) -> None:
        known = {**about.get("identity", {}), **about.get(CHECKSUMS_KEY, {})}
        for name, value in {**self.identity, **self.file_checksums}.items():
            if known.get(name) != value:
                raise CheckpointError(
                    f"{file}: the {name} has changed since this run began; train into another directory"
                )
        weights, moments = (
            {name.removeprefix(part): tensor for name, tensor in tensors.items() if name.startswith(part)}
            for part in (MODEL_PREFIX, OPTIMIZER_PREFIX)
        )
        # The weights come first: wrong names or shapes raise an error before any state has changed.
        copy_weights(state.model, weights, str(file))
        load_optimizer_state(state.optimizer, state.trained_parameter_names(), moments)
        state.schedule.load_state_dict(about["schedule"])
        state.progress = TrainingProgress.from_state_dict(about["progress"])

    def _make_states_dir(self) -> None:
        try:
            self.states_dir.mkdir(exist_ok=True)
        except OSError as error:
            raise CheckpointError(
                f"{self.states_dir}: cannot create the directory: {error.strerror}"
            ) from None
