"""SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators") for Numba's loops.

Word i of a seed is `mix(seed + (i + 1) * GAMMA)`, i from 0, all modulo 2^64.
"""

import numpy as np
from numba import njit

__all__ = ["GAMMA", "mix"]

GAMMA = np.uint64(0x9E3779B97F4A7C15)


@njit
def mix(x):
    """The word that a state, a uint64, gives."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
