"""Serialization of tensors: safetensors files that contain a checksum of their content.

The checksum is stored in the header of the file, not in a second file, so that one rename replaces both
atomically. A file is written to a temporary directory, flushed to disk and renamed.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from regard.config import configclass, option
from regard.errors import CheckpointError, DataError, RegardError
from regard.text.array_files import check_array, open_safetensors
from regard.text.files import atomic_file
from regard.text.paths import check_name
from regard.text.reading import InvalidJsonError, checked_file, parse_json
from regard.types import Tensor

ARRAY_KEY = "array"
# A single key, because safetensors does not write several keys in a reproducible order.
METADATA_KEY = "regard"


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
    """Write tensors with metadata.

    Args:
        path: The file; its directory exists.
        tensors: The tensors by name.
        metadata: The metadata, serializable as JSON.

    Raises:
        CheckpointError: if the file cannot be written, for example because the disk is full; an existing file
            is unchanged.
    """
    # safetensors rejects tensors that are not contiguous.
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # The header contains this text as a string, because the checksum covers exactly these bytes.
    text = json.dumps(metadata, sort_keys=True)
    header = json.dumps({"metadata": text, "sha256": _digest(tensors, text)}, sort_keys=True)
    try:
        with atomic_file(path) as temporary_path:
            save_file(tensors, temporary_path, metadata={METADATA_KEY: header})
            # safetensors creates files that only their owner can read.
            os.chmod(temporary_path, path.parent.stat().st_mode & 0o666)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{path}: cannot be written: {reason}; an existing file is unchanged") from None


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a file that `write_tensors` wrote, and verify its checksum.

    Returns:
        The tensors, on the CPU, and the metadata.

    Raises:
        CheckpointError: if the file is missing, truncated or altered; the message names it.
    """
    tensors, header, metadata = _read(path, with_tensors=True)
    if header.sha256 != _digest(tensors, header.metadata):
        raise CheckpointError(f"{path}: the content does not match its checksum: the file was altered")
    return tensors, metadata


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the metadata of a file without reading its tensors.

    Raises:
        CheckpointError: if the file is missing or truncated; the message names it.
    """
    return _read(path, with_tensors=False)[2]


@configclass
class _Header:
    """The content of a file's header."""

    metadata: str = option(help="Metadata of the tensors, as JSON.")
    sha256: str = option(help="Checksum of the tensors and of `metadata`.")


def _read(path: Path, with_tensors: bool) -> tuple[dict[str, Tensor], _Header, dict[str, Any]]:
    """Return the tensors of a file, its header and the metadata, before their checksum is verified."""
    check_name(path)
    try:
        if not checked_file(path.parent, path.name).exists():
            raise CheckpointError(f"{path}: no such file")
        with open_safetensors(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in (file.keys() if with_tensors else ())}
            content = (file.metadata() or {}).get(METADATA_KEY, "")
    except DataError as error:
        raise CheckpointError(str(error)) from None
    try:
        header = parse_json(content, _Header)
        return tensors, header, parse_json(header.metadata, dict[str, Any])
    except InvalidJsonError:
        raise CheckpointError(f"{path}: not a weight file written by regard") from None


def write_array(path: Path, array: np.ndarray) -> None:
    """Write one array that was computed from prepared text, with a checksum.

    Raises:
        CheckpointError: if it cannot be written.
    """
    write_tensors(path, {ARRAY_KEY: torch.from_numpy(np.ascontiguousarray(array))}, {})


def read_array(path: Path, dtype: str, *shape: int | None) -> np.ndarray:
    """Read an array that `write_array` wrote.

    Args:
        path: The file.
        dtype: The expected NumPy dtype.
        *shape: The expected dimensions; None allows any size.

    Raises:
        DataError: if the file is missing, truncated or altered, or belongs to another text; the message names
            it.
    """
    try:
        array = read_tensors(path)[0][ARRAY_KEY].numpy()
        check_array(str(path), array, dtype, *shape)
        return array
    except (CheckpointError, KeyError, TypeError, DataError) as error:
        # NumPy has fewer dtypes than PyTorch.
        reason = error if isinstance(error, RegardError) else f"{path}: not an array of prepared text"
        raise DataError(f"{reason}; remove {path} and run the command again to recompute it") from None


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """Return the SHA-256 checksum of the text and of names, dtypes, shapes and values, sorted by name."""
    total = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        # NumPy has no bfloat16, so the bytes are hashed. `reshape` comes first, because PyTorch does not view
        # a tensor without dimensions as bytes.
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()
