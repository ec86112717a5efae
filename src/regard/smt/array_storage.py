"""Storage of arrays in separate files that can be memory-mapped, without pickle."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from regard.data.reading import checked_file
from regard.errors import DataError

__all__ = ["read_arrays", "write_arrays"]


def write_arrays(directory: Path, prefix: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write each array to `PREFIX.NAME.npy`.

    Raises:
        DataError: if a file cannot be written.
    """
    for name, array in arrays.items():
        path = directory / f"{prefix}.{name}.npy"
        try:
            np.save(path, np.ascontiguousarray(array), allow_pickle=False)
        except OSError as error:
            raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None


def read_arrays(directory: Path, prefix: str, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Open arrays that `write_arrays` wrote, memory-mapped and read-only.

    Raises:
        DataError: if a file is missing, truncated or not an array; the message names it.
    """
    arrays = {}
    for name in names:
        path = checked_file(directory, f"{prefix}.{name}.npy")
        try:
            arrays[name] = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}") from None
        except (ValueError, EOFError, SyntaxError, RecursionError, MemoryError, OverflowError):
            raise DataError(f"{path}: truncated, or not an array") from None
    return arrays
