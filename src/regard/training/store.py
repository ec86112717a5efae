"""Tensors in sealed files: safetensors that carry a checksum of their own content.

The checksum stands in the file's header and not beside it, so that one rename replaces both and no moment
exists in which they disagree. A file is made in a partial folder, flushed to disk and renamed.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from regard.config import config, option
from regard.data.checks import check_array
from regard.data.files import whole_file
from regard.data.reading import NotJson, parse_json
from regard.errors import CheckpointError, DataError
from regard.types import Tensor

__all__ = ["read_about", "read_array", "read_shapes", "read_tensors", "write_array", "write_tensors"]

ARRAY = "array"
KEY = "regard"  # one key: the order of several is not the same on every run


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write tensors and what is to be known of them.

    Args:
        path: The file; its folder exists.
        tensors: By name.
        about: Anything JSON can hold.

    Raises:
        CheckpointError: if it cannot be written (disk full); what was there stays.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(about, sort_keys=True)
    header = json.dumps({"about": text, "sha256": _digest(tensors, text)}, sort_keys=True)
    try:
        with whole_file(path) as made:
            save_file(tensors, made, metadata={KEY: header})
            os.chmod(made, path.parent.stat().st_mode & 0o666)  # safetensors': the owner's alone
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(
            f"{path}: cannot be written: {reason}; what was there before is untouched"
        ) from None


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote.

    Returns:
        The tensors, on the CPU, and what is known of them.

    Raises:
        CheckpointError: if the file is missing, truncated or altered; names it.
    """
    tensors, metadata = _read(path, with_tensors=True)
    sealed = _seal_of(path, metadata)
    if sealed.sha256 != _digest(tensors, sealed.about):
        raise CheckpointError(f"{path}: altered: its content does not fit its checksum")
    return tensors, _about_of(path, sealed)


def read_about(path: Path) -> dict[str, Any]:
    """What is known of the tensors of a file, without reading them.

    Raises:
        CheckpointError: if the file is missing or truncated; names it.
    """
    _, metadata = _read(path, with_tensors=False)
    return _about_of(path, _seal_of(path, metadata))


@config
class _Seal:
    """What the header of a file says of its content."""

    about: str = option(help="What is known of the tensors, as JSON.")
    sha256: str = option(help="The checksum of the tensors and of `about`.")


def _seal_of(path: Path, metadata: Mapping[str, str]) -> _Seal:
    try:
        return parse_json(metadata.get(KEY, ""), _Seal)
    except NotJson:
        raise CheckpointError(f"{path}: not a file of weights made by regard") from None


def _about_of(path: Path, sealed: _Seal) -> dict[str, Any]:
    try:
        return parse_json(sealed.about, dict[str, Any])
    except NotJson:
        raise CheckpointError(f"{path}: not a file of weights made by regard") from None


def write_array(path: Path, array: np.ndarray) -> None:
    """Write one array that was computed from prepared text, sealed, beside that text.

    Raises:
        CheckpointError: if it cannot be written.
    """
    write_tensors(path, {ARRAY: torch.from_numpy(np.ascontiguousarray(array))}, {})


def read_array(path: Path, dtype: str, *shape: int | None) -> np.ndarray:
    """Read what `write_array` wrote.

    Args:
        path: The file.
        dtype: The numpy type of its numbers.
        *shape: Its dimensions; none: any number.

    Raises:
        DataError: if the file is missing, truncated, altered, or of another text; names it.
    """
    try:
        found = read_tensors(path)[0][ARRAY].numpy()
        check_array(str(path), found, dtype, *shape)
        return found
    except (CheckpointError, KeyError, DataError) as error:
        reason = "not an array of prepared text" if isinstance(error, KeyError) else error
        raise DataError(f"{reason}; remove {path}, and it is made again") from None


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors of a file from its header: nothing of their size is allocated.

    Raises:
        CheckpointError: if the file is missing or truncated; names it.
    """
    _check_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}
    except (OSError, SafetensorError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path}: truncated or not a file of weights: {error}") from None


def _read(path: Path, with_tensors: bool) -> tuple[dict[str, Tensor], dict[str, str]]:
    _check_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys() if with_tensors else ()
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except (OSError, SafetensorError, ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"{path}: truncated or not a file of weights: {error}") from None


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file" if not path.exists() else f"{path}: not a file")


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """SHA-256 over names, shapes, dtypes and values, in the order of the names, and over the text."""
    total = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()
