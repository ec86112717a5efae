"""Checkpoints of a training run: the training state to resume from, and the weights of the model.

    DIRECTORY/config.toml, text files               config, vocabularies, tokenizers
    DIRECTORY/model.safetensors                     the best weights by validation score
    DIRECTORY/record.jsonl                          the metrics log
    DIRECTORY/training/state.safetensors            weights, optimizer, schedule and progress
    DIRECTORY/training/epoch-0007.safetensors       weights at the end of an epoch, kept for averaging

Each file is replaced atomically: a run that is killed while it writes resumes from the checkpoint before.
"""

import dataclasses
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
    epoch_files,
    named_weights,
    state_file,
)
from regard.training.optimizer import LRScheduler, load_optimizer_state, optimizer_state_tensors
from regard.training.progress import TrainingProgress
from regard.types import Tensor


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


@dataclass(frozen=True)
class CheckpointManager:
    """The checkpoints of one model directory.

    Attributes:
        output_dir: The model directory.
        identity: Values that a training state must match to be resumed, by name, such as the checksum of the
            data.
        file_checksums: The checksums of the files that the weights depend on, recorded with them; see
            `regard.runs.checksums`. A training state must match these, too.
    """

    output_dir: Path
    identity: Mapping[str, Any]
    file_checksums: Mapping[str, str]

    def save(self, state: TrainingState) -> Path:
        """Replace the training state and return its file.

        Raises:
            CheckpointError: if it cannot be written, for example because the disk is full; existing files are
                unchanged.
        """
        tensors = {MODEL_PREFIX + name: tensor for name, tensor in named_weights(state.model).items()}
        moments = optimizer_state_tensors(state.optimizer, state.trained_parameter_names())
        tensors |= {OPTIMIZER_PREFIX + name: tensor for name, tensor in moments.items()}
        about = {
            "identity": self.identity,
            "progress": dataclasses.asdict(state.progress),
            "schedule": state.schedule.state_dict(),
        }
        file = state_file(self.output_dir)
        self._write(file, tensors, about)
        return file

    def load(self, state: TrainingState) -> bool:
        """Restore the training state, if there is one, and return whether there is.

        Raises:
            CheckpointError: if the training state is damaged, or belongs to other data or to another model.
        """
        file = state_file(self.output_dir)
        if not file.exists():
            return False
        try:
            tensors, about = read_tensors(file)
        except CheckpointError as error:
            raise CheckpointError(f"{error}; remove the file to train again from the first step") from None
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
        try:
            state.progress = TrainingProgress(**about["progress"])
        except (KeyError, TypeError):
            raise CheckpointError(
                f"{file}: written by another version of regard; train into another directory"
            ) from None
        return True

    def save_model(self, model: nn.Module, metadata: dict[str, Any]) -> None:
        """Write the weights to `model.safetensors`."""
        self._write(self.output_dir / MODEL_FILE, named_weights(model), metadata)

    def save_epoch(self, model: nn.Module, epoch: int, keep_last: int, metadata: dict[str, Any]) -> None:
        """Write the weights at the end of an epoch, and remove all but the last `keep_last` such files."""
        path = state_file(self.output_dir).with_name(f"epoch-{epoch:04d}.safetensors")
        self._write(path, named_weights(model), metadata)
        # The caller ensures `keep_last` >= 1. With 0, the slice would be empty and keep every file.
        for old in epoch_files(self.output_dir)[:-keep_last]:
            old.unlink(missing_ok=True)

    def _write(self, file: Path, tensors: Mapping[str, Tensor], metadata: dict[str, Any]) -> None:
        try:
            file.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{file.parent}: cannot create the directory: {error.strerror}") from None
        write_tensors(file, tensors, {**metadata, CHECKSUMS_KEY: self.file_checksums})
