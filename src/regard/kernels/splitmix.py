"""The random number generator SplitMix64 for Numba kernels.

Steele, Lea & Flood (2014), "Fast splittable pseudorandom number generators". Random number i of a seed is
`splitmix64(seed + (i + 1) * GAMMA)` for i = 0, 1, ..., modulo 2^64.
"""

import numpy as np

from regard.kernels.compilation import njit

__all__ = ["GAMMA", "splitmix64"]

GAMMA = np.uint64(0x9E3779B97F4A7C15)


@njit
def splitmix64(x):
    """Return the random number, a uint64, for a state, a uint64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
