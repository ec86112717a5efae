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
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from regard.extensions.smt.decoder import COPIED, PhraseDecoder, PhraseTranslation
from regard.extensions.smt.model import TuningConfig
from regard.extensions.smt.translation_options import BACKWARD, COPIES, NUM_FEATURES
from regard.extensions.smt.trie import stable_argsort
from regard.kernels.compilation import njit

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


_log = logging.getLogger(__name__)


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


@dataclass(frozen=True)
class TuningRound:
    """The result of one round of tuning.

    Attributes:
        round_number: The number of the round; round 0 uses the initial weights.
        weights: The weights of the decoder in this round.
        bleu: The BLEU of the translations on tokens, from 0 to 100.
        num_translations: The number of translations in all n-best lists.
    """

    round_number: int
    weights: np.ndarray
    bleu: float
    num_translations: int


@dataclass
class _NBestPool:
    """The accumulated translations of one sentence, without duplicates of words and features.

    Attributes:
        features: The features of each translation, float64 [features].
        counts: The BLEU statistics of each translation.
        known: The words and the rounded features of each translation.
    """

    features: list[np.ndarray] = field(default_factory=list)
    counts: list[np.ndarray] = field(default_factory=list)
    known: set[tuple[tuple[int, ...], bytes]] = field(default_factory=set)

    def add(
        self, translations: Sequence[tuple[int, ...]], features: Sequence[np.ndarray], counts: np.ndarray
    ) -> None:
        """Add the translations that are new."""
        for words, row_features, row in zip(translations, features, counts, strict=True):
            # Different derivations can give the same words with other features.
            key = words, row_features.round(6).tobytes()
            if key not in self.known:
                self.known.add(key)
                self.features.append(row_features)
                self.counts.append(row)


def tune_weights(
    decoder: PhraseDecoder, text: TuningText, config: TuningConfig, seed: int, num_threads: int = 1
) -> list[TuningRound]:
    """Tune the feature weights and return all rounds; the result is the one with the highest BLEU.

    Args:
        decoder: The decoder with the initial weights.
        text: The validation text.
        config: The number of rounds, of translations and of starting points.
        seed: The random seed.
        num_threads: The number of threads of the decoder.
    """
    last = NUM_FEATURES if decoder.lexicalized else BACKWARD
    tuned = np.array([feature for feature in range(last) if feature != COPIES])
    rng = np.random.default_rng(seed)
    pools = [_NBestPool() for _ in text.sources]
    rounds: list[TuningRound] = []
    weights = decoder.weights
    while True:
        size = rounds[-1].num_translations if rounds else 0
        # Without tuning, one translation per sentence suffices for the BLEU of the initial weights.
        num_return = config.nbest_size if config.num_rounds else 1
        translated = replace(decoder, weights=weights).translate(text.sources, num_return, num_threads)
        bleu = _add_translations(pools, text, translated)
        rounds.append(TuningRound(len(rounds), weights, bleu, sum(len(pool.counts) for pool in pools)))
        _log.info("tuning, round %d: BLEU %.2f", rounds[-1].round_number, bleu)
        # Without new translations the lists, and therefore the weights, would stay the same.
        if len(rounds) > config.num_rounds or rounds[-1].num_translations == size:
            return rounds
        best = max(rounds, key=lambda tuning_round: tuning_round.bleu)
        starts = [weights] if best is rounds[-1] else [weights, best.weights]
        offsets = np.cumsum([0, *(len(pool.counts) for pool in pools)]).astype(np.int64)
        features = np.array([row for pool in pools for row in pool.features])
        lists = NBestLists(offsets, features, np.array([row for pool in pools for row in pool.counts]))
        tried = [maximize_bleu(lists, start, tuned, config.num_restarts, rng) for start in starts]
        weights = max(tried, key=lambda outcome: outcome[1])[0]


def _add_translations(
    pools: Sequence[_NBestPool], text: TuningText, translated: Sequence[Sequence[PhraseTranslation]]
) -> float:
    """Add n-best lists to the pools, and return the BLEU of their first translations, from 0 to 100."""
    total = np.zeros(NUM_STATISTICS)
    for pool, nbest, reference, copied_ids in zip(
        pools, translated, text.references, text.copied_ids, strict=True
    ):
        if nbest:
            translations = [_words(candidate, copied_ids) for candidate in nbest]
            counts = bleu_statistics(translations, reference)
            total += counts[0]
            pool.add(translations, [candidate.features for candidate in nbest], counts)
    return 100 * float(compute_bleu(total))


def _words(translation: PhraseTranslation, copied_ids: Sequence[int]) -> tuple[int, ...]:
    """Return the target word ids of a translation, with those of copied words replaced."""
    words: list[int] = []
    for phrase in translation.phrases:
        words += [copied_ids[phrase.start] if word == COPIED else word for word in phrase.words]
    return tuple(words)
