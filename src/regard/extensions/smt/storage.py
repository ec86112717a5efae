"""Directories of arrays.

Each array has a file of its own, so that it can be memory-mapped: a system starts without reading its tables.
The files contain no pickled objects, which could execute code.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from regard.errors import DataError
from regard.text.reading import checked_file

__all__ = ["read_arrays", "read_only", "write_arrays"]


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


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a read-only view of an array.

    Numba compiles a function anew for writable arrays. Compiled functions are therefore given read-only views
    of estimated arrays, too, so that training and translation use the same compiled functions.
    """
    view = array.view()
    view.flags.writeable = False
    return view
