"""The diagonal prior of Dyer, Chahuneau & Smith (2013): target words go back to source words nearby.

For target position j of n and source position i of m, both from 1, and tension l:

    p(i | j, m, n) = exp(-l |i / m - j / n|) / Z,  Z the sum over i

Z is two geometric series, one upwards and one downwards from the diagonal, and its derivative two
arithmetico-geometric ones, so that neither takes a loop over the source words.
"""

import math

import numpy as np
from numba import njit

__all__ = ["expected_features", "fit_tension", "log_normaliser_gradient", "normaliser", "sizes_of"]

LEAST, MOST = 0.1, 14.0
"""Bounds of the tension, as in fast_align."""
STEPS, RATE = 4, 20.0
"""Gradient steps after a pass, and their size.

fast_align takes 8, but counts target positions from 0 where it observes the distance and from 1 where it
expects it: links look farther from the diagonal than they are, which holds the tension back. By the exact
gradient 8 steps raise it so fast that the alignment error grows with it.
"""


@njit(nogil=True, cache=True)
def normaliser(j, n, m, tension):
    """Z for target position j (from 1) of n, and m source words."""
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
    """The sum of (value + k step) weight ratio^k for k < terms."""
    end = weight * ratio**terms
    last = value + step * (terms - 1)
    return (last * end - value * weight) / (ratio - 1) - step * (end - weight * ratio) / (ratio - 1) ** 2


@njit(nogil=True, cache=True)
def log_normaliser_gradient(j, n, m, tension):
    """The derivative of log Z by the tension: minus the expected distance from the diagonal."""
    below = j * m // n
    ratio = math.exp(-tension / m)
    total = 0.0
    if below < m:
        distance = (below + 1) / m - j / n
        total -= _series(distance, math.exp(-tension * distance), ratio, 1 / m, m - below)
    if below > 0:
        distance = j / n - below / m
        total -= _series(distance, math.exp(-tension * distance), ratio, 1 / m, below)
    return total / normaliser(j, n, m, tension)


def sizes_of(
    source_lengths: np.ndarray, target_lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct pairs of sentence lengths, m and n, and how many pairs have them."""
    both = source_lengths.astype(np.int64) << 32 | target_lengths
    sizes, counts = np.unique(both, return_counts=True)
    return sizes >> 32, sizes & 0xFFFFFFFF, counts


@njit(nogil=True, cache=True)
def expected_features(sources, targets, counts, tension):
    """Minus the distance from the diagonal that the prior expects, summed over all target words."""
    total = 0.0
    for k in range(len(counts)):
        part = 0.0
        for j in range(1, targets[k] + 1):
            part += log_normaliser_gradient(j, targets[k], sources[k], tension)
        total += part * counts[k]
    return total


def fit_tension(
    tension: float, feature: float, null: float, sizes: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> float:
    """A few steps up the gradient of the expected log-likelihood: distances expected less those of the links.

    Args:
        tension: The one of the pass.
        feature: Minus the distance from the diagonal of the links of the pass, summed over their posteriors.
        null: The posteriors of the null word, summed: these words have no distance.
        sizes: From `sizes_of`, of the whole text.
    """
    words = float((sizes[1] * sizes[2]).sum())
    linked = 1 - null / words
    for _ in range(STEPS):
        gradient = feature / words - linked * expected_features(*sizes, tension) / words
        tension = min(MOST, max(LEAST, tension + RATE * gradient))
    return tension
