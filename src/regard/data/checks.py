"""Validation of arrays that were read from files, before compiled loops use them as indices.

Compiled loops do not check bounds: an index out of range would read other memory or crash the process. Each
check raises a `DataError` with the name of the array; the caller adds the file name.
"""

import numpy as np

from regard.errors import DataError

__all__ = ["MAX_COUNT", "check_array", "check_offsets", "check_range"]

MAX_COUNT = 1e30
"""Upper limit for counts in files: finite, but higher than any real count."""


def check_array(name: str, array: np.ndarray, expected_dtype: str, *shape: int | None) -> None:
    """Check the dtype and the shape of an array.

    Args:
        name: Name of the array, for messages.
        array: The array.
        expected_dtype: The expected NumPy dtype, such as `int64`.
        *shape: The expected shape. None allows any size of a dimension.

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
    """Check the offsets of rows in a flat array: they must be sorted and cover the array.

    Args:
        name: Name of the array, for messages.
        array: int64 [rows + 1], the offsets.
        num_rows: The expected number of rows.
        end: The expected last offset.
        start: The expected first offset.

    Raises:
        DataError: if the offsets are invalid.
    """
    check_array(name, array, "int64", num_rows + 1)
    if array[0] != start or array[-1] != end or (np.diff(array) < 0).any():
        raise DataError(f"{name}: the offsets are not sorted from {start} to {end}")
