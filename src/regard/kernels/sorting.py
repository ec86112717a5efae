"""Sorting and binary search for Numba kernels.

Numba takes several seconds to compile its own `np.argsort` and `np.searchsorted` at their first use; these
functions take a fraction of a second.
"""

import numpy as np

from regard.kernels.compilation import njit

__all__ = ["search_key", "stable_argsort"]

_RUN = 20  # number of keys that are sorted by insertion before runs are merged


@njit(nogil=True, cache=True)
def stable_argsort(keys):
    """Return the order that sorts the keys: insertion sort of short runs, then bottom-up merge sort.

    Equal keys keep their order. NaN is not allowed: the order would be undefined.

    Args:
        keys: Keys, [N].

    Returns:
        The indices of the keys in ascending order, int64 [N].
    """
    size = len(keys)
    order, merged = np.empty(size, np.int64), np.empty(size, np.int64)
    for start in range(0, size, _RUN):
        for i in range(start, min(start + _RUN, size)):
            place = i
            while place > start and keys[order[place - 1]] > keys[i]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = i
    width = _RUN
    while width < size:
        for start in range(0, size, 2 * width):
            middle, end = min(start + width, size), min(start + 2 * width, size)
            left, right = start, middle
            for place in range(start, end):
                if right == end or (left < middle and keys[order[left]] <= keys[order[right]]):
                    merged[place] = order[left]
                    left += 1
                else:
                    merged[place] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order


@njit(nogil=True, cache=True)
def search_key(keys, key, low, high):
    """Return the first position of a key in a range of ascending keys, or -1 if it is absent.

    Args:
        keys: Keys, [N], in ascending order within the range.
        key: The key to find.
        low: The start of the range.
        high: Its end, exclusive.
    """
    end = high
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < end and keys[low] == key else -1
