"""The diagonal alignment prior of Dyer, Chahuneau & Smith (2013).

For target position j of n and source position i of m, both counted from 1, and tension l:

    p(i | j, m, n) = exp(-l |i / m - j / n|) / Z,  where Z is the sum over i.

Z is the sum of two geometric series, one on each side of the diagonal, and its derivative the sum of two
arithmetico-geometric series, so both are computed without a loop over source words.
"""

import math

import numpy as np
from numba import njit

__all__ = ["expected_distance", "fit_tension", "length_counts", "log_normalizer_gradient", "normalizer"]

MIN_TENSION, MAX_TENSION = 0.1, 14.0
"""Bounds of the tension, as in fast_align."""
TENSION_STEPS, TENSION_STEP_SIZE = 4, 20.0
"""Number of gradient steps after each pass, and their step size.

fast_align uses 8 steps. However, it counts target positions from 0 in the observed distance and from 1 in the
expected distance, so observed links seem farther from the diagonal, which reduces the tension. With the exact
gradient, 8 steps increase the tension so fast that the alignment error rate rises too.
"""


@njit(nogil=True, cache=True)
def normalizer(j, n, m, tension):
    """Return Z for target position j (counted from 1) of n, and m source words."""
    below = j * m // n
    ratio = math.exp(-tension / m)
    total = 0.0
    if below < m:
        nearest = math.exp(-tension * ((below + 1) / m - j / n))
        total += nearest * (1 - ratio ** (m - below)) / (1 - ratio)
    if below > 0:
        nearest = math.exp(-tension * (j / n - below / m))
        total += nearest * (1 - ratio**below) / (1 - ratio)
    return total


@njit(nogil=True, cache=True)
def _series(value, weight, ratio, step, terms):
    """Return the sum of (value + k step) weight ratio^k for k < terms."""
    end = weight * ratio**terms
    last = value + step * (terms - 1)
    return (last * end - value * weight) / (ratio - 1) - step * (end - weight * ratio) / (ratio - 1) ** 2


@njit(nogil=True, cache=True)
def log_normalizer_gradient(j, n, m, tension):
    """Return the derivative of log Z with respect to the tension: minus the expected diagonal distance."""
    below = j * m // n
    ratio = math.exp(-tension / m)
    total = 0.0
    if below < m:
        distance = (below + 1) / m - j / n
        total -= _series(distance, math.exp(-tension * distance), ratio, 1 / m, m - below)
    if below > 0:
        distance = j / n - below / m
        total -= _series(distance, math.exp(-tension * distance), ratio, 1 / m, below)
    return total / normalizer(j, n, m, tension)


def length_counts(
    source_lengths: np.ndarray, target_lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct pairs of sentence lengths, m and n, and the number of sentence pairs with each."""
    # Both lengths in one integer, so that `unique` sorts scalars.
    both = source_lengths.astype(np.int64) << 32 | target_lengths
    sizes, counts = np.unique(both, return_counts=True)
    return sizes >> 32, sizes & 0xFFFFFFFF, counts


@njit(nogil=True, cache=True)
def expected_distance(sources, targets, counts, tension):
    """Return minus the expected distance from the diagonal under the prior, summed over all target words."""
    total = 0.0
    for k in range(len(counts)):
        part = 0.0
        for j in range(1, targets[k] + 1):
            part += log_normalizer_gradient(j, targets[k], sources[k], tension)
        total += part * counts[k]
    return total


def fit_tension(
    tension: float, feature: float, null: float, sizes: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> float:
    """Return the tension after a few steps of gradient ascent on the expected log-likelihood.

    The gradient is the expected distance from the diagonal under the prior minus that of the links.

    Args:
        tension: The current tension.
        feature: Minus the distance of the links from the diagonal, weighted by their posteriors and summed.
        null: The sum of the posteriors of the null word; these words have no distance.
        sizes: The result of `length_counts` for the whole text.
    """
    words = float((sizes[1] * sizes[2]).sum())
    linked = 1 - null / words
    for _ in range(TENSION_STEPS):
        gradient = feature / words - linked * expected_distance(*sizes, tension) / words
        tension = min(MAX_TENSION, max(MIN_TENSION, tension + TENSION_STEP_SIZE * gradient))
    return tension
