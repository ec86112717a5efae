"""Checks of arrays that come from files, once, before compiled loops index with them unchecked.

A compiled loop does not look at bounds: an index beyond an array reads foreign memory or ends the process.
Each check raises a `DataError` that names the array; who reads the file puts its name before it.
"""

import numpy as np

from regard.errors import DataError

__all__ = ["MOST_COUNTED", "check_array", "check_offsets", "check_range"]

MOST_COUNTED = 1e30
"""More than anything can be counted, but finite."""


def check_array(name: str, array: np.ndarray, dtype: str, *shape: int | None) -> None:
    """Check the type of numbers and the shape.

    Args:
        name: The array's.
        array: The array.
        dtype: The numpy type that it must have, such as `int64`.
        *shape: Its dimensions; none: any number.

    Raises:
        DataError: if it is of another type or shape.
    """
    if array.dtype != np.dtype(dtype):
        raise DataError(f"{name}: numbers of type {array.dtype}, expected {dtype}")
    fits = len(array.shape) == len(shape) and all(
        want is None or have == want for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise DataError(f"{name}: of shape {array.shape}, expected ({wanted})")


def check_range(name: str, array: np.ndarray, low: float, high: float) -> None:
    """Check that every number lies between two, both included; so none is NaN.

    Raises:
        DataError: if one does not.
    """
    if array.size and not (np.min(array) >= low and np.max(array) <= high):
        raise DataError(f"{name}: holds {np.min(array)} to {np.max(array)}, expected {low} to {high}")


def check_offsets(name: str, array: np.ndarray, rows: int, end: int, start: int = 0) -> None:
    """Check where rows start in another array: they follow one another and fill it.

    Args:
        name: The array's.
        array: int64 [rows + 1].
        rows: How many rows there are.
        end: Where the last one ends.
        start: Where the first one starts.

    Raises:
        DataError: if it is not so.
    """
    check_array(name, array, "int64", rows + 1)
    if array[0] != start or array[-1] != end or (np.diff(array) < 0).any():
        raise DataError(f"{name}: its rows do not go in order from {start} to {end}")
