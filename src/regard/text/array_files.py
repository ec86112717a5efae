"""Reading of arrays in untrusted files: names, dtypes, shapes and ranges are checked before they are used.

Compiled loops do not check bounds: an index out of range would read other memory or crash the process.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import DataError


@contextmanager
def open_safetensors(path: Path, framework: str) -> Iterator[Any]:
    """Open a safetensors file; see `safetensors.safe_open`. Errors in the block are those of the library.

    Raises:
        DataError: if the file is missing, truncated or not of this format.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework=framework) as file:
            yield file
    except (OSError, SafetensorError, ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"{path}: truncated or not a safetensors file: {error}") from None


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a safetensors file by name.

    Raises:
        DataError: if the file cannot be read, or NumPy lacks the dtype of an array (bfloat16).
    """
    arrays = {}
    with open_safetensors(path, "numpy") as file:
        for name in file.keys():
            try:
                arrays[name] = file.get_tensor(name)
            except (AttributeError, TypeError):
                raise DataError(f"{path}: {name}: dtype {file.get_slice(name).get_dtype()}") from None
    return arrays


MAX_COUNT = 1e30
"""Upper limit for counts in files: finite, but higher than any real count."""

ArrayForm = tuple[Any, ...]
"""The dtype of an array, the range of its values, and its shape; see `check_array` and `check_range`."""


def check_array(name: str, array: np.ndarray, expected_dtype: str, *shape: int | None) -> None:
    """Check the dtype and the shape of an array. A size of None allows any size of the dimension.

    Raises:
        DataError: if the array has another dtype or shape.
    """
    if array.dtype != np.dtype(expected_dtype):
        raise DataError(f"{name}: dtype {array.dtype}, expected {expected_dtype}")
    fits = len(array.shape) == len(shape) and all(
        want is None or have == want for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise DataError(f"{name}: shape {array.shape}, expected ({wanted})")


def check_range(name: str, array: np.ndarray, low: float, high: float) -> None:
    """Check that all values are in the closed interval from `low` to `high`; NaN is rejected.

    Raises:
        DataError: if a value is out of range.
    """
    # NaN makes min and max NaN, and every comparison with NaN is false.
    if array.size and not (np.min(array) >= low and np.max(array) <= high):
        raise DataError(
            f"{name}: values from {np.min(array)} to {np.max(array)}, expected values from {low} to {high}"
        )


def check_offsets(name: str, array: np.ndarray, num_rows: int, end: int, start: int = 0) -> None:
    """Check the offsets of rows in a flat array: int64 [rows + 1], sorted, from `start` to `end`.

    Raises:
        DataError: if the offsets are invalid.
    """
    check_array(name, array, "int64", num_rows + 1)
    if array[0] != start or array[-1] != end or (np.diff(array) < 0).any():
        raise DataError(f"{name}: the offsets are not sorted from {start} to {end}")


def check_arrays(arrays: Mapping[str, np.ndarray], expected: Mapping[str, ArrayForm]) -> None:
    """Check the names, forms and values of the arrays of a file.

    Raises:
        DataError: if an array is missing or unknown, or has another form or a value out of range. The message
            names it.
    """
    for name in sorted(arrays.keys() ^ expected.keys()):
        raise DataError(f"{name}: {'missing' if name in expected else 'unknown'}")
    for name, (dtype, low, high, *shape) in expected.items():
        check_array(name, arrays[name], dtype, *shape)
        check_range(name, arrays[name], low, high)
