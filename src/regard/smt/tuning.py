"""Weights tuned on validation data: translate, add to the n-best lists, maximise BLEU on them, and again.

The weights returned are those whose own translations, not those of the lists, had the highest BLEU.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from regard.smt.bleu import COUNTS, bleu, bleu_counts
from regard.smt.decoder import COPIED, Decoder, Found
from regard.smt.features import tuned
from regard.smt.mert import Lists, maximise

__all__ = ["Round", "tune"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Round:
    """What one round of tuning found.

    Attributes:
        number: From 0: the start.
        weights: What was translated with.
        bleu: BLEU, out of 100, of these translations, on tokens.
        translations: How many the lists hold.
    """

    number: int
    weights: np.ndarray
    bleu: float
    translations: int


def tune(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    references: Sequence[Sequence[int]],
    copies: Sequence[Sequence[int]],
    rounds: int,
    nbest: int,
    restarts: int,
    seed: int,
    threads: int = 1,
    report: Callable[[Round], None] | None = None,
) -> Round:
    """The best round.

    Args:
        decoder: With the first weights.
        sources: The validation text in numbers.
        references: Its translations, words of no number being distinct negative numbers.
        copies: What each source word is as a target word, for words that are copied.
        rounds: How often the weights are changed, at most.
        nbest: Translations of each sentence that a round adds.
        restarts: Starts of the search in weight space; see `maximise`.
        seed: Of all that is drawn at random.
        threads: Of translating.
        report: Called after each round.
    """
    random = np.random.default_rng(seed)
    free = tuned(decoder.lexicalised)
    pools = [_Pool() for _ in sources]
    weights, best = decoder.weights, None
    for number in range(rounds + 1):
        found = replace(decoder, weights=weights).translate(sources, nbest, threads)
        total, fresh = np.zeros(COUNTS), 0
        for pool, several, reference, words in zip(pools, found, references, copies, strict=True):
            if several:
                said = [_words(one, words) for one in several]
                counts = bleu_counts(said, reference)
                total += counts[0]
                fresh += pool.add(said, several, counts)
        score = 100 * float(bleu(total))
        done = Round(number, weights, score, sum(len(pool.features) for pool in pools))
        _log.info("tuning, round %d: BLEU %.2f, %d translations", number, score, done.translations)
        if report is not None:
            report(done)
        if best is None or score > best.bleu:
            best = done
        if number == rounds or not fresh:
            break
        lists = _together(pools)
        starts = [weights] if best is done else [weights, best.weights]
        tried = [maximise(lists, start, free, restarts, random) for start in starts]
        weights = max(tried, key=lambda one: one[1])[0]
    assert best is not None
    return best


class _Pool:
    """The translations of one sentence."""

    def __init__(self) -> None:
        self._known: set[tuple[tuple[int, ...], bytes]] = set()
        self.features: list[np.ndarray] = []
        self.counts: list[np.ndarray] = []

    def add(self, said: list[tuple[int, ...]], several: Sequence[Found], counts: np.ndarray) -> int:
        """Take new ones; how many there were."""
        fresh = 0
        for words, found, row in zip(said, several, counts, strict=True):
            # The same words may be said in ways of other features.
            key = words, found.features.round(6).tobytes()
            if key not in self._known:
                self._known.add(key)
                self.features.append(found.features)
                self.counts.append(row)
                fresh += 1
        return fresh


def _words(found: Found, copies: Sequence[int]) -> tuple[int, ...]:
    """The words of a translation, copied ones as target words."""
    words: list[int] = []
    for piece in found.pieces:
        words += [copies[piece.start] if word == COPIED else word for word in piece.words]
    return tuple(words)


def _together(pools: Sequence[_Pool]) -> Lists:
    sizes = [len(pool.features) for pool in pools]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    features = np.array([row for pool in pools for row in pool.features])
    return Lists(offsets, features, np.array([row for pool in pools for row in pool.counts]))
