"""Minimum error rate training (Och, 2003): feature weights that maximize the BLEU of n-best lists.

Along a line w + x d in weight space, the score of each translation is a linear function of x. The top-scoring
translation of a sentence changes only at the corners of the upper envelope of these functions. BLEU along the
line is therefore a step function that the envelopes of all sentences determine exactly, and its maximum is
found by a sweep over the corners. From each starting point, the directions of single features and random
directions are searched in turn until BLEU no longer improves.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from regard.smt.bleu import NUM_STATISTICS, compute_bleu

__all__ = ["NBestLists", "line_search", "maximize_bleu"]

MIN_BLEU_GAIN = 1e-5
"""The minimum improvement of BLEU, in [0, 1], for which the search continues."""
MAX_ITERATIONS = 8


@dataclass(frozen=True, eq=False)
class NBestLists:
    """The n-best lists of a text.

    Attributes:
        offsets: int64 [sentences + 1], the index of the first translation of each sentence.
        features: float64 [translations, features], the features.
        counts: float64 [translations, NUM_STATISTICS], the BLEU statistics; see `regard.smt.bleu`.
    """

    offsets: np.ndarray
    features: np.ndarray
    counts: np.ndarray

    def bleu(self, weights: np.ndarray) -> float:
        """Return the BLEU, in [0, 1], of the top-scoring translations under the given weights."""
        return float(_bleu_at(self.offsets, self.features @ weights, self.counts))


def line_search(
    lists: NBestLists, weights: np.ndarray, direction: np.ndarray, max_step: float = np.inf
) -> tuple[float, float]:
    """Return the step along a direction that gives the highest BLEU, and that BLEU in [0, 1].

    The step is the middle of the interval with the highest BLEU, or of the widest of several such intervals.

    Args:
        lists: The n-best lists.
        weights: The weights at which the line starts.
        direction: The direction of the line.
        max_step: The maximum length of the step, in either direction.
    """
    slopes, heights = lists.features @ direction, lists.features @ weights
    step, value = _search_line(lists.offsets, slopes, heights, lists.counts, max_step)
    return float(step), float(value)


def maximize_bleu(
    lists: NBestLists, weights: np.ndarray, tuned: np.ndarray, restarts: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Return the best weights from several starting points, and their BLEU in [0, 1].

    Args:
        lists: The n-best lists.
        weights: The first starting point.
        tuned: The indices of the features whose weights may change.
        restarts: The number of additional starting points, sampled around the first.
        rng: The random generator for starting points and directions.
    """
    best, highest = weights, lists.bleu(weights)
    for start in range(restarts + 1):
        found = weights.copy()
        if start:
            # Each weight is multiplied by a random factor between 0 and 2.
            found[tuned] *= rng.uniform(0, 2, len(tuned))
        found, value = _coordinate_ascent(lists, found, tuned, rng)
        if value > highest + MIN_BLEU_GAIN:
            best, highest = found, value
    return best, highest


def _coordinate_ascent(
    lists: NBestLists, weights: np.ndarray, free: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, float]:
    value = lists.bleu(weights)
    for _ in range(MAX_ITERATIONS):
        before = value
        scale = float(np.abs(weights[free]).mean())
        random_directions = np.zeros((4, len(weights)))
        random_directions[:, free] = random.normal(size=(4, len(free))) * scale
        for direction in [*np.eye(len(weights))[free], *random_directions]:
            reach = 4 * scale / max(float(np.abs(direction).max()), 1e-12)
            step, bleu = line_search(lists, weights, direction, reach)
            if bleu > value + MIN_BLEU_GAIN / 10:
                weights, value = weights + step * direction, bleu
        if value < before + MIN_BLEU_GAIN:
            break
    return weights, value


@njit(nogil=True, cache=True)
def _bleu_at(offsets, scores, counts):
    total = np.zeros(NUM_STATISTICS)
    for row in range(len(offsets) - 1):
        if offsets[row] < offsets[row + 1]:
            total += counts[offsets[row] + np.argmax(scores[offsets[row] : offsets[row + 1]])]
    return compute_bleu(total)


@njit(nogil=True, cache=True)
def _search_line(offsets, slopes, heights, counts, reach):
    """Sweep over the corners of all upper envelopes from left to right."""
    corners, deltas = np.empty(len(slopes)), np.empty((len(slopes), 2), np.int64)
    total = np.zeros(NUM_STATISTICS)
    used = 0
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        if start == end:
            continue
        # The upper envelope. Lines are added by increasing slope, and a line is removed if a steeper one
        # exceeds it before it becomes the highest.
        order = np.argsort(slopes[start:end])
        hull, since = np.empty(end - start, np.int64), np.empty(end - start)
        size = 0
        for one in order:
            line, x = start + one, -np.inf
            while size:
                top = hull[size - 1]
                if slopes[top] == slopes[line]:
                    if heights[top] >= heights[line]:
                        x = np.inf
                        break
                else:
                    x = (heights[top] - heights[line]) / (slopes[line] - slopes[top])
                    if x > since[size - 1]:
                        break
                size -= 1
                x = -np.inf
            if x < np.inf:
                hull[size], since[size] = line, x
                size += 1
        total += counts[hull[0]]
        for k in range(1, size):
            corners[used], deltas[used, 0], deltas[used, 1] = since[k], hull[k - 1], hull[k]
            used += 1
    order = np.argsort(corners[:used])
    best, width, step = -1.0, 0.0, 0.0
    left = -reach
    for k in range(used + 1):
        right = min(reach, corners[order[k]]) if k < used else reach
        if right > left or (k == used and best < 0):
            value = compute_bleu(total)
            # The middle of the interval; if the interval is unbounded, a point near its bounded end.
            middle = (max(left, min(right, 1.0) - 1.0) + min(right, max(left, -1.0) + 1.0)) / 2
            if value > best + 1e-12 or (value > best - 1e-12 and right - left > width):
                best, width, step = value, right - left, middle
            left = right
        if k < used:
            total += counts[deltas[order[k], 1]] - counts[deltas[order[k], 0]]
    return step, best
