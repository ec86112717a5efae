"""Minimum error rate training: weights that give the n-best lists the highest BLEU. Och (2003).

Along a line through weight space, w + x d, the score of each translation is a line in x; the translation
that is on top changes only where the upper envelope of a sentence's lines has a corner. So BLEU along the
line is a step function, known exactly from the envelopes of all sentences; its highest step is found without
trying. From each start the lines of single features and random ones are searched in turn until nothing
improves.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from regard.smt.bleu import COUNTS, bleu

__all__ = ["Lists", "line_search", "maximise"]

GAIN = 1e-5
"""The least improvement of BLEU, out of 1, that goes on with the search."""
ROUNDS = 8


@dataclass(frozen=True, eq=False)
class Lists:
    """The n-best lists of a text.

    Attributes:
        offsets: int64 [sentences + 1]: where the translations of each sentence start.
        features: float64 [translations, features].
        counts: float64 [translations, COUNTS]: see `regard.smt.bleu`.
    """

    offsets: np.ndarray
    features: np.ndarray
    counts: np.ndarray

    def bleu(self, weights: np.ndarray) -> float:
        """BLEU, out of 1, of the translations that weights put first."""
        return float(_bleu_at(self.offsets, self.features @ weights, self.counts))


def line_search(
    lists: Lists, weights: np.ndarray, direction: np.ndarray, reach: float = np.inf
) -> tuple[float, float]:
    """The step along a direction that gives the highest BLEU, and that BLEU, out of 1.

    The step is the middle of the interval that has it, of equally good ones the widest.

    Args:
        lists: The n-best lists.
        weights: Where the line starts.
        direction: Where it goes.
        reach: The longest step, in either direction.
    """
    slopes, heights = lists.features @ direction, lists.features @ weights
    step, value = _search_line(lists.offsets, slopes, heights, lists.counts, reach)
    return float(step), float(value)


def maximise(
    lists: Lists, weights: np.ndarray, free: np.ndarray, restarts: int, random: np.random.Generator
) -> tuple[np.ndarray, float]:
    """The best weights found from several starts, and their BLEU, out of 1.

    Args:
        lists: The n-best lists.
        weights: The first start; what is not free keeps its weight.
        free: The features whose weights may change.
        restarts: How many more starts, drawn around the first.
        random: Draws them and the directions.
    """
    best, highest = weights, lists.bleu(weights)
    for start in range(restarts + 1):
        found = weights.copy()
        if start:
            # Each weight anew, between nothing and twice what it was.
            found[free] *= random.uniform(0, 2, len(free))
        found, value = _climb(lists, found, free, random)
        if value > highest + GAIN:
            best, highest = found, value
    return best, highest


def _climb(
    lists: Lists, weights: np.ndarray, free: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, float]:
    value = lists.bleu(weights)
    for _ in range(ROUNDS):
        before = value
        scale = float(np.abs(weights[free]).mean())
        several = np.zeros((4, len(weights)))
        several[:, free] = random.normal(size=(4, len(free))) * scale
        for direction in [*np.eye(len(weights))[free], *several]:
            reach = 4 * scale / max(float(np.abs(direction).max()), 1e-12)
            step, found = line_search(lists, weights, direction, reach)
            if found > value + GAIN / 10:
                weights, value = weights + step * direction, found
        if value < before + GAIN:
            break
    return weights, value


@njit(nogil=True, cache=True)
def _bleu_at(offsets, scores, counts):
    total = np.zeros(COUNTS)
    for row in range(len(offsets) - 1):
        if offsets[row] < offsets[row + 1]:
            total += counts[offsets[row] + np.argmax(scores[offsets[row] : offsets[row + 1]])]
    return bleu(total)


@njit(nogil=True, cache=True)
def _search_line(offsets, slopes, heights, counts, reach):
    """Sweep over the corners of all envelopes from left to right."""
    corners, deltas = np.empty(len(slopes)), np.empty((len(slopes), 2), np.int64)
    total = np.zeros(COUNTS)
    used = 0
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        if start == end:
            continue
        # The envelope: the lines by slope, each thrown out again that a steeper one overtakes too soon.
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
            value = bleu(total)
            # Where an interval has one end only, a little beyond that.
            middle = (max(left, min(right, 1.0) - 1.0) + min(right, max(left, -1.0) + 1.0)) / 2
            if value > best + 1e-12 or (value > best - 1e-12 and right - left > width):
                best, width, step = value, right - left, middle
            left = right
        if k < used:
            total += counts[deltas[order[k], 1]] - counts[deltas[order[k], 0]]
    return step, best
