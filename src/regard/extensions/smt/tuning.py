"""Tuning of the feature weights on validation data by minimum error rate training.

Each round translates the text, adds the translations to the n-best lists and maximizes BLEU on these lists.
The result is the round whose own translations, not those selected from the lists, have the highest BLEU.

Minimum error rate training, Och (2003): along a line w + x d in weight space, the score of each translation
is a linear function of x. The top-scoring translation of a sentence changes only at the corners of the upper
envelope of these functions. BLEU along the line is therefore a step function that the envelopes of all
sentences determine exactly, and its maximum is found by a sweep over the corners. From each starting point,
the directions of single features and random directions are searched in turn until BLEU no longer improves.

The statistics of a sentence are the clipped matches and the number of n-grams of the translation, for n from
1 to 4, and the length of the reference. BLEU, Papineni et al. (2002), is that of `regard.metrics.translation`
with `tokenize = "none"`, but it is not smoothed: it is 0 if there is no match of some order.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from regard.extensions.smt.decoder import COPIED, PhraseDecoder, PhraseTranslation
from regard.extensions.smt.model import TuningConfig
from regard.extensions.smt.translation_options import BACKWARD, COPIES, NUM_FEATURES
from regard.extensions.smt.trie import stable_argsort
from regard.kernels.compilation import njit

_log = logging.getLogger(__name__)

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
        scores = self.features @ weights
        spans = [span for span in pairwise(self.offsets.tolist()) if span[0] < span[1]]
        rows = [start + int(scores[start:end].argmax()) for start, end in spans]
        return float(compute_bleu(self.counts[rows].sum(0)))


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
            slopes, heights = lists.features @ direction, lists.features @ weights
            step, bleu = line_search(lists.offsets, slopes, heights, lists.counts, reach)
            if bleu > value + MIN_BLEU_GAIN / 10:
                weights, value = weights + step * direction, bleu
        if value < before + MIN_BLEU_GAIN:
            break
    return weights, value


@njit(nogil=True, cache=True)
def line_search(offsets, slopes, heights, counts, reach):
    """Return the step of at most `reach` along a line that gives the highest BLEU, and that BLEU in [0, 1].

    The step is the middle of the interval with the highest BLEU, or of the widest of several such intervals.
    The corners of all upper envelopes, from left to right, separate the intervals. `slopes` and `heights` are
    float64 [translations]: the features in the direction of the line, and the scores where it starts.
    `offsets` and `counts` are those of `NBestLists`.
    """
    corners, deltas = np.empty(len(slopes)), np.empty((len(slopes), 2), np.int64)
    total = np.zeros(NUM_STATISTICS)
    used = 0
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        if start == end:
            continue
        # The upper envelope. Lines are added by increasing slope, and a line is removed if a steeper one
        # exceeds it before it becomes the highest.
        order = stable_argsort(slopes[start:end])
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
    order = stable_argsort(corners[:used])
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


def bleu_statistics(words: Sequence[int], reference: Sequence[int]) -> np.ndarray:
    """Return the statistics of a translation of a sentence, float64 [NUM_STATISTICS]."""
    counts = np.zeros(NUM_STATISTICS)
    counts[8] = len(reference)
    for n in range(1, 5):
        ngrams, known = (
            Counter(zip(*(side[start:] for start in range(n)), strict=False)) for side in (words, reference)
        )
        counts[n - 1], counts[3 + n] = (ngrams & known).total(), ngrams.total()
    return counts


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


@dataclass(frozen=True)
class TuningText:
    """The validation text as word ids.

    Attributes:
        sources: The source word ids of each sentence.
        references: The target word ids of each sentence; unknown words have distinct negative ids.
        copied_ids: The target word id of each source word, for words that the decoder copies.
    """

    sources: Sequence[Sequence[int]]
    references: Sequence[Sequence[int]]
    copied_ids: Sequence[Sequence[int]]


_Pool = dict[tuple[tuple[int, ...], bytes], tuple[np.ndarray, np.ndarray]]
"""The features and the BLEU statistics of all translations of a sentence, by words and features, because
different derivations can give the same words with other features."""


@dataclass(frozen=True)
class TuningRound:
    """The result of one round of tuning. Round 0 uses the initial weights.

    Attributes:
        weights: The weights of the decoder in this round.
        bleu: The BLEU of the translations on tokens, from 0 to 100.
    """

    weights: np.ndarray
    bleu: float


def tune_weights(
    decoder: PhraseDecoder, text: TuningText, config: TuningConfig, seed: int, num_threads: int = 1
) -> list[TuningRound]:
    """Tune the feature weights and return all rounds; the result is the one with the highest BLEU."""
    last = NUM_FEATURES if decoder.lexicalized else BACKWARD
    tuned = np.array([feature for feature in range(last) if feature != COPIES])
    rng = np.random.default_rng(seed)
    pools: list[_Pool] = [{} for _ in text.sources]
    rounds: list[TuningRound] = []
    weights, size = decoder.weights, 0
    # Without tuning, one translation per sentence suffices for the BLEU of the initial weights.
    num_return = config.nbest_size if config.num_rounds else 1
    while True:
        translated = replace(decoder, weights=weights).translate(text.sources, num_return, num_threads)
        bleu = _add_translations(pools, text, translated)
        _log.info("tuning, round %d: BLEU %.2f", len(rounds), bleu)
        rounds.append(TuningRound(weights, bleu))
        offsets = np.cumsum([0, *map(len, pools)]).astype(np.int64)
        # Without new translations the lists, and therefore the weights, would stay the same.
        if len(rounds) > config.num_rounds or offsets[-1] == size:
            return rounds
        size = offsets[-1]
        best = max(rounds, key=lambda tuning_round: tuning_round.bleu)
        starts = [weights] if best is rounds[-1] else [weights, best.weights]
        features, counts = zip(*(row for pool in pools for row in pool.values()), strict=True)
        lists = NBestLists(offsets, np.array(features), np.array(counts))
        tried = [maximize_bleu(lists, start, tuned, config.num_restarts, rng) for start in starts]
        weights = max(tried, key=lambda outcome: outcome[1])[0]


def _add_translations(
    pools: Sequence[_Pool], text: TuningText, translated: Sequence[Sequence[PhraseTranslation]]
) -> float:
    """Add n-best lists to the pools, and return the BLEU of their first translations, from 0 to 100."""
    total = np.zeros(NUM_STATISTICS)
    for pool, nbest, reference, copied_ids in zip(
        pools, translated, text.references, text.copied_ids, strict=True
    ):
        for rank, candidate in enumerate(nbest):
            words = tuple(
                copied_ids[phrase.start] if word == COPIED else word
                for phrase in candidate.phrases
                for word in phrase.words
            )
            key = words, candidate.features.round(6).tobytes()
            if key not in pool:
                pool[key] = candidate.features, bleu_statistics(words, reference)
            if rank == 0:
                total += pool[key][1]
    return 100 * float(compute_bleu(total))
