"""Minimum error rate training, Och (2003): feature weights that maximize the BLEU of n-best lists.

Along a line w + x d in weight space, the score of each translation is a linear function of x. The top-scoring
translation of a sentence changes only at the corners of the upper envelope of these functions. BLEU along the
line is therefore a step function that the envelopes of all sentences determine exactly, and its maximum is
found by a sweep over the corners. From each starting point, the directions of single features and random
directions are searched in turn until BLEU no longer improves.

BLEU is computed on word ids by compiled functions, because tuning scores hundreds of thousands of
translations. The statistics of a sentence are the clipped matches and the number of n-grams of the
translation, for n from 1 to 4, and the length of the reference. Their sums over sentences give BLEU, Papineni
et al. (2002), with the same result as `regard.metrics.translation` with `tokenize = "none"`, except that BLEU
is not smoothed: it is 0 if there is no match of some order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.kernels.compilation import njit

__all__ = [
    "NUM_STATISTICS",
    "NBestLists",
    "bleu_statistics",
    "compute_bleu",
    "line_search",
    "maximize_bleu",
]

NUM_STATISTICS = 9
"""The number of statistics: 4 of matches, 4 of n-grams of the translation, and the reference length."""
MIN_BLEU_GAIN = 1e-5
"""The minimum improvement of BLEU, in [0, 1], for which the search continues."""
MAX_ITERATIONS = 8


@dataclass(frozen=True, eq=False)
class NBestLists:
    """The n-best lists of a text.

    Attributes:
        offsets: int64 [sentences + 1], the index of the first translation of each sentence.
        features: float64 [translations, features], the features.
        counts: float64 [translations, NUM_STATISTICS], the BLEU statistics.
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
    # The weights themselves are the first candidate, so that the result is never worse.
    best, highest = weights, lists.bleu(weights)
    for start in range(restarts + 1):
        candidate = weights.copy()
        if start:
            # Each weight is multiplied by a random factor between 0 and 2.
            candidate[tuned] *= rng.uniform(0, 2, len(tuned))
        candidate, value = _coordinate_ascent(lists, candidate, tuned, rng)
        if value > highest + MIN_BLEU_GAIN:
            best, highest = candidate, value
    return best, highest


def _coordinate_ascent(
    lists: NBestLists, weights: np.ndarray, free: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, float]:
    value = lists.bleu(weights)
    for _ in range(MAX_ITERATIONS):
        before = value
        scale = float(np.abs(weights[free]).mean())
        # Random directions leave local optima in which no single weight can be improved.
        random_directions = np.zeros((4, len(weights)))
        random_directions[:, free] = random.normal(size=(4, len(free))) * scale
        for direction in [*np.eye(len(weights))[free], *random_directions]:
            # The n-best lists represent the search space only near the weights that they were made with.
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
        for index in order:
            line, x = start + index, -np.inf
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
            # Of intervals with equal BLEU, the widest: small errors of its middle do not change the result.
            if value > best + 1e-12 or (value > best - 1e-12 and right - left > width):
                best, width, step = value, right - left, middle
            left = right
        if k < used:
            total += counts[deltas[order[k], 1]] - counts[deltas[order[k], 0]]
    return step, best


def bleu_statistics(translations: Sequence[Sequence[int]], reference: Sequence[int]) -> np.ndarray:
    """Return the statistics of translations of one sentence, float64 [translations, NUM_STATISTICS]."""
    flat = np.array([word for words in translations for word in words], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(words) for words in translations])]).astype(np.int64)
    return _count(flat, offsets, np.array(reference, dtype=np.int64))


@njit(nogil=True, cache=True)
def compute_bleu(counts):
    """Return BLEU in [0, 1] of summed statistics; 0 if there is no match of some order."""
    total = 0.0
    for n in range(4):
        if counts[n] <= 0:
            return 0.0
        total += np.log(counts[n] / counts[4 + n])
    brevity = min(0.0, 1 - counts[8] / counts[4])
    return np.exp(total / 4 + brevity)


@njit(nogil=True, cache=True)
def _same(one, i, other, j, n):
    for k in range(n):
        if one[i + k] != other[j + k]:
            return False
    return True


@njit(nogil=True, cache=True)
def _count(flat, offsets, reference):
    counts = np.zeros((len(offsets) - 1, NUM_STATISTICS))
    taken = np.empty(len(reference), np.bool_)
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        counts[row, 8] = len(reference)
        for n in range(1, 5):
            counts[row, 3 + n] = max(0, end - start - n + 1)
            # Each n-gram of the reference matches at most once, which clips the counts.
            taken[:] = False
            for i in range(start, end - n + 1):
                for j in range(len(reference) - n + 1):
                    if not taken[j] and _same(flat, i, reference, j, n):
                        taken[j] = True
                        counts[row, n - 1] += 1
                        break
    return counts
