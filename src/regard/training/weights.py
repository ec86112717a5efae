"""The weights of a model as named tensors: taken, put back, averaged."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from regard.attention.base import Attention
from regard.data.sealed import own_file
from regard.errors import CheckpointError, DataError
from regard.training.store import read_shapes, read_tensors
from regard.types import Tensor

__all__ = [
    "EXPORTED_FILE",
    "MODEL_FILE",
    "MODEL_PREFIX",
    "OPTIMIZER_PREFIX",
    "average",
    "check_shapes",
    "check_sizes",
    "load_weights",
    "put_weights",
    "start_from",
    "weights_file",
    "weights_of",
]

MODEL_FILE = "model.safetensors"
EXPORTED_FILE = "model.bin"
"""What a folder of `regard export ctranslate2` has in its place."""
MODEL_PREFIX, OPTIMIZER_PREFIX = "model/", "optimizer/"
"""Of the names in a state of training, which holds both."""


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters and buffers; one that has two names (tied) stands under its first.

    The tensors are the model's own, not copies.
    """
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor.detach()
    return found


@torch.no_grad()
def put_weights(model: nn.Module, weights: Mapping[str, Tensor], where: str) -> None:
    """Copy weights into a model, all or none.

    Args:
        model: What `weights_of` would name alike.
        weights: By name.
        where: Where they come from, for messages.

    Raises:
        CheckpointError: if a name is missing or unknown or a shape differs; names the parameter.
    """
    check_shapes(model, {name: tuple(tensor.shape) for name, tensor in weights.items()}, where)
    for name, tensor in weights_of(model).items():
        tensor.copy_(weights[name])


def check_shapes(model: nn.Module, shapes: Mapping[str, tuple[int, ...]], where: str) -> None:
    """Compare the names and shapes of weights with a model's, which may be without storage (`meta`).

    Args:
        model: The model.
        shapes: Those of the weights, by name.
        where: Where they come from, for messages.

    Raises:
        CheckpointError: as `put_weights`.
    """
    own = weights_of(model)
    for name, tensor in own.items():
        if name not in shapes:
            raise CheckpointError(f"{where}: has no {name!r}, which the model has")
        if shapes[name] != tuple(tensor.shape):
            raise CheckpointError(
                f"{where}: {name!r} is of shape {shapes[name]}, the model's of {tuple(tensor.shape)}"
            )
    unknown = sorted(set(shapes) - set(own))
    if unknown:
        raise CheckpointError(f"{where}: has {unknown[0]!r}, which the model has not")


def check_sizes(make: Callable[[], nn.Module], folder: Path) -> None:
    """Compare a model that a config describes with the header of a folder's weights, before it takes memory.

    Args:
        make: Makes the model; here without storage.
        folder: The folder of the weights.

    Raises:
        CheckpointError: if they do not fit.
    """
    shapes = read_shapes(weights_file(folder))
    with torch.device("meta"):
        described = make()
    check_shapes(described, shapes, str(folder / MODEL_FILE))


def start_from(model: nn.Module, weights: Mapping[str, Tensor], where: str) -> list[str]:
    """Copy the weights of a model whose attention mechanisms may be others.

    Args:
        model: What they are copied into.
        weights: By name.
        where: Where they come from, for messages.

    Returns:
        The parameters of the model's mechanisms that the weights lack: they stay as they are.

    Raises:
        CheckpointError: if what differs is not of a mechanism alone.
    """
    places = tuple(
        f"{name}." for name, module in model.named_modules() if name and isinstance(module, Attention)
    )
    own = weights_of(model)
    new = [n for n in own if n.startswith(places) and (n not in weights or weights[n].shape != own[n].shape)]
    given = {name: own[name] for name in new}
    for name, tensor in weights.items():
        if name in own or not name.startswith(places):
            given.setdefault(name, tensor)
    put_weights(model, given, where)
    return new


def load_weights(path: Path | str) -> dict[str, Tensor]:
    """The weights of a model folder (the best ones), of a file of weights or of a state of training.

    Raises:
        CheckpointError: if the file is missing, truncated or altered, or holds a number that is not finite;
            names it.
    """
    file = weights_file(path)
    weights = {
        name.removeprefix(MODEL_PREFIX): tensor
        for name, tensor in read_tensors(file)[0].items()
        if not name.startswith(OPTIMIZER_PREFIX)
    }
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise CheckpointError(
                f"{file}: {name!r} has values that are not finite: its training diverged; take the weights "
                "of an earlier update, or train again with a lower training.optimizer.rate"
            )
    return weights


def weights_file(path: Path | str) -> Path:
    """Return the file of weights of a model folder, or the file itself.

    Raises:
        CheckpointError: if there is none, or a model folder has something else in its place (a link out of
            it, a device).
    """
    path = Path(path)
    if not path.exists():
        raise CheckpointError(f"{path}: no such model folder or file of weights")
    if not path.is_dir():
        return path
    if (path / EXPORTED_FILE).is_file() and not (path / MODEL_FILE).exists():
        raise CheckpointError(
            f"{path}: an exported model, which `regard translate --engine ctranslate2` reads"
        )
    try:
        return own_file(path, MODEL_FILE)
    except DataError as error:
        raise CheckpointError(str(error)) from None


def average(paths: Sequence[Path | str]) -> dict[str, Tensor]:
    """The mean of the weights of several models or checkpoints, summed in float64, one file at a time.

    Args:
        paths: Model folders or files of weights, at least one.

    Raises:
        CheckpointError: if a file cannot be read, or its weights have other names or shapes than the first's.
    """
    total: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    for number, path in enumerate(paths):
        weights = load_weights(path)
        if number == 0:
            dtypes = {name: tensor.dtype for name, tensor in weights.items()}
            total = {name: tensor.double() for name, tensor in weights.items()}
            continue
        _check_alike(total, weights, str(paths[0]), str(path))
        for name, tensor in weights.items():
            total[name] += tensor
    return {name: (tensor / len(paths)).to(dtypes[name]) for name, tensor in total.items()}


def _check_alike(first: Mapping[str, Tensor], other: Mapping[str, Tensor], where: str, there: str) -> None:
    for name in _sorted_union(first, other):
        shapes = [tuple(weights[name].shape) if name in weights else None for weights in (first, other)]
        if shapes[0] != shapes[1]:
            shown = " and ".join("absent" if shape is None else str(shape) for shape in shapes)
            raise CheckpointError(f"{where} and {there} cannot be averaged: {name!r} is {shown}")


def _sorted_union(*names: Iterable[str]) -> list[str]:
    return sorted(set().union(*names))
