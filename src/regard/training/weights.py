"""The weights of a model as named tensors: reading, loading into a model and averaging."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from regard.attention.base import Attention
from regard.errors import CheckpointError, DataError
from regard.models.base import TrainableSystem
from regard.text.reading import checked_file
from regard.training.serialization import read_shapes, read_tensors
from regard.types import Tensor

__all__ = [
    "EXPORTED_FILE",
    "MODEL_FILE",
    "MODEL_PREFIX",
    "OPTIMIZER_PREFIX",
    "average_weights",
    "check_shapes",
    "check_weight_shapes",
    "copy_weights",
    "init_from",
    "load_weights",
    "named_weights",
    "weights_file",
]

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


@torch.no_grad()
def copy_weights(model: nn.Module, weights: Mapping[str, Tensor], source: str) -> None:
    """Copy weights into a model; if a name, shape or dtype does not match, the model is not modified.

    Args:
        model: The model.
        weights: The weights by name, as `named_weights` returns them.
        source: The source of the weights, for messages.

    Raises:
        CheckpointError: if a name is missing or unknown, or a shape or dtype differs; the message names the
            parameter.
    """
    check_shapes(model, {name: tuple(tensor.shape) for name, tensor in weights.items()}, source)
    model_weights = named_weights(model)
    for name, tensor in model_weights.items():
        if tensor.dtype != weights[name].dtype:
            raise CheckpointError(
                f"{source}: {name!r} has dtype {weights[name].dtype}, but the model expects {tensor.dtype}"
            )
    for name, tensor in model_weights.items():
        tensor.copy_(weights[name])


def check_shapes(model: nn.Module, shapes: Mapping[str, tuple[int, ...]], source: str) -> None:
    """Check that weights have the names and shapes of a model's parameters.

    Args:
        model: The model, which may be on the `meta` device.
        shapes: The shapes of the weights by name.
        source: The source of the weights, for messages.

    Raises:
        CheckpointError: if a name is missing or unknown, or a shape differs; the message names the parameter.
    """
    model_weights = named_weights(model)
    for name, tensor in model_weights.items():
        if name not in shapes:
            raise CheckpointError(f"{source}: the parameter {name!r} of the model is missing")
        if shapes[name] != tuple(tensor.shape):
            raise CheckpointError(
                f"{source}: {name!r} has shape {shapes[name]}, but the model expects {tuple(tensor.shape)}"
            )
    unknown = sorted(set(shapes) - set(model_weights))
    if unknown:
        raise CheckpointError(f"{source}: {unknown[0]!r} is not a parameter of the model")


def check_weight_shapes(build: Callable[[], nn.Module], folder: Path) -> None:
    """Check that the weights of a directory fit a model, before memory for the model is allocated.

    Args:
        build: A function that returns the model; it is called on the `meta` device.
        folder: The directory of the weights, of which only the header is read.

    Raises:
        CheckpointError: if the weights do not fit the model.
    """
    shapes = read_shapes(weights_file(folder))
    # Tensors on this device have shapes but no memory. Their initialization would import PyTorch's compiler.
    with torch.device("meta"), _NoInitialization():
        described = build()
    check_shapes(described, shapes, str(folder / MODEL_FILE))


class _NoInitialization(TorchFunctionMode):
    """Leaves tensors as they are where `torch.nn.init` would fill them."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs.get("tensor", args[0] if args else None)
        return func(*args, **kwargs)


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
        _check_alike(total, weights, str(paths[0]), str(path))
        for name, tensor in weights.items():
            total[name] += tensor
    return {name: (tensor / len(paths)).to(dtypes[name]) for name, tensor in total.items()}


def _check_alike(first: Mapping[str, Tensor], other: Mapping[str, Tensor], where: str, there: str) -> None:
    for name in _sorted_union(first, other):
        shapes = [tuple(weights[name].shape) if name in weights else None for weights in (first, other)]
        if shapes[0] != shapes[1]:
            shape_text = " and ".join("absent" if shape is None else str(shape) for shape in shapes)
            raise CheckpointError(
                f"{where} and {there} cannot be averaged: the shapes of {name!r} are {shape_text}"
            )


def _sorted_union(*names: Iterable[str]) -> list[str]:
    return sorted(set().union(*names))
