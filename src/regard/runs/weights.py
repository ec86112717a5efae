"""The weights of a model as named tensors: reading, loading into a model and averaging."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from regard.attention.base import Attention
from regard.errors import CheckpointError, DataError
from regard.models.base import TrainableSystem
from regard.runs.serialization import read_tensors
from regard.text.paths import check_link
from regard.text.reading import checked_file
from regard.types import Tensor

MODEL_FILE = TrainableSystem.weights_name
EXPORTED_FILE = "model.bin"
"""The weight file in a directory written by `regard export`."""
MODEL_PREFIX, OPTIMIZER_PREFIX = "model/", "optimizer/"
"""The prefixes of tensor names in a training state, which contains model and optimizer."""


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and buffers of a model by name; a tied parameter has its first name only.

    The tensors share memory with the model.
    """
    weights: dict[str, Tensor] = {}
    seen: set[int] = set()
    # `keep_vars` gives the parameters themselves, so that tied ones have the same id.
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            weights[name] = tensor.detach()
    return weights


def copy_weights(model: nn.Module, weights: Mapping[str, Tensor], source: str) -> None:
    """Copy weights into a model.

    Args:
        model: The model.
        weights: The weights by name, as `named_weights` returns them.
        source: The source of the weights, for messages.

    Raises:
        CheckpointError: if a name is missing or unknown, or a shape or dtype differs; the message names the
            parameter.
    """
    complete = dict(weights)
    first_names: dict[int, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        # Files contain a tied parameter under its first name only; PyTorch expects it under each name.
        first = first_names.setdefault(id(tensor), name)
        if first in weights:
            complete[name] = weights[first]
            if tensor.dtype != weights[first].dtype:
                raise CheckpointError(
                    f"{source}: {first!r} has dtype {weights[first].dtype}, but the model expects "
                    f"{tensor.dtype}"
                )
    try:
        model.load_state_dict(complete)
    except RuntimeError as error:
        # The first line is a title; each line after it names a parameter.
        problem = str(error).splitlines()[1].strip()
        raise CheckpointError(f"{source}: the weights do not fit the model: {problem}") from None


def init_from(model: nn.Module, weights: Mapping[str, Tensor], source: str) -> list[str]:
    """Initialize a model with the weights of a model that may have other attention mechanisms.

    Args:
        model: The model to initialize.
        weights: The weights of the other model by name.
        source: The source of the weights, for messages.

    Returns:
        The names of the attention parameters that are missing in the weights and keep their values.

    Raises:
        CheckpointError: if parameters outside the attention mechanisms differ.
    """
    attention_prefixes = tuple(
        f"{name}." for name, module in model.named_modules() if name and isinstance(module, Attention)
    )
    model_weights = named_weights(model)
    new = [
        n
        for n in model_weights
        if n.startswith(attention_prefixes)
        and (n not in weights or weights[n].shape != model_weights[n].shape)
    ]
    initial_weights = {name: model_weights[name] for name in new}
    for name, tensor in weights.items():
        # Attention parameters that this model lacks are dropped; `copy_weights` rejects other unknown ones.
        if name in model_weights or not name.startswith(attention_prefixes):
            initial_weights.setdefault(name, tensor)
    copy_weights(model, initial_weights, source)
    return new


def load_weights(path: Path | str) -> dict[str, Tensor]:
    """Return the best weights of a model directory, or the weights in a weight file or training state.

    Raises:
        CheckpointError: if the file is missing, truncated or altered, or contains a value that is not finite;
            the message names it.
    """
    file = weights_file(path)
    weights = {
        name.removeprefix(MODEL_PREFIX): tensor
        for name, tensor in read_tensors(file)[0].items()
        if not name.startswith(OPTIMIZER_PREFIX)
    }
    for name, tensor in weights.items():
        # PyTorch cannot compare values of float8.
        if not (tensor if tensor.itemsize > 1 else tensor.float()).isfinite().all():
            raise CheckpointError(
                f"{file}: {name!r} has values that are not finite: training diverged; use the weights of an "
                "earlier step, or train again with a lower training.optimizer.learning_rate"
            )
    return weights


def weights_file(path: Path | str) -> Path:
    """Return the weight file of a model directory, or the file itself.

    Raises:
        CheckpointError: if there is none, or the entry in the directory is not a regular file of that
            directory (for example a link out of it, or a device).
    """
    path = Path(path)
    if not path.exists():
        raise CheckpointError(f"{path}: no such model directory or weight file")
    if not path.is_dir():
        return path
    if (path / EXPORTED_FILE).is_file() and not (path / MODEL_FILE).exists():
        raise CheckpointError(
            f"{path} contains an exported model; use it with `regard translate --engine ctranslate2`"
        )
    try:
        return checked_file(path, MODEL_FILE)
    except DataError as error:
        raise CheckpointError(str(error)) from None


def state_file(model_dir: Path) -> Path:
    """Return the path of the training state of a model directory; the file need not exist.

    Raises:
        CheckpointError: if the directory `training` is a link out of the model directory.
    """
    try:
        return check_link(model_dir / "training", model_dir) / "state.safetensors"
    except DataError as error:
        raise CheckpointError(str(error)) from None


def epoch_files(model_dir: Path) -> list[Path]:
    """Return the files of the weights at the ends of epochs in a model directory; the oldest is first.

    Raises:
        CheckpointError: as `state_file`.
    """
    return sorted(state_file(model_dir).parent.glob("epoch-*.safetensors"))


def average_weights(paths: Sequence[Path | str]) -> dict[str, Tensor]:
    """Return the mean of the weights of several models or checkpoints.

    The files are loaded one after the other, and their weights are summed in float64.

    Args:
        paths: At least one model directory or weight file.

    Raises:
        CheckpointError: if a file cannot be read, or its names or shapes differ from those of the first file.
    """
    total: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    for number, path in enumerate(paths):
        weights = load_weights(path)
        if number == 0:
            dtypes = {name: tensor.dtype for name, tensor in weights.items()}
            total = {name: tensor.double() for name, tensor in weights.items()}
            continue
        for name in sorted(total.keys() | weights.keys()):
            shapes = [
                tuple(tensors[name].shape) if name in tensors else "absent" for tensors in (total, weights)
            ]
            if shapes[0] != shapes[1]:
                raise CheckpointError(
                    f"{paths[0]} and {path} cannot be averaged: the shapes of {name!r} are {shapes[0]} and "
                    f"{shapes[1]}"
                )
            total[name] += weights[name]
    return {name: (tensor / len(paths)).to(dtypes[name]) for name, tensor in total.items()}
