"""Tuning of the feature weights on validation data by minimum error rate training.

Each round translates the text, adds the translations to the n-best lists and maximizes BLEU on these lists.
The result is the round whose own translations, not those selected from the lists, have the highest BLEU.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from regard.extensions.smt.decoder import COPIED, PhraseDecoder, PhraseTranslation
from regard.extensions.smt.features import tuned_features
from regard.extensions.smt.mert import (
    NUM_STATISTICS,
    NBestLists,
    bleu_statistics,
    compute_bleu,
    maximize_bleu,
)
from regard.extensions.smt.model import TuningConfig

__all__ = ["TuningRound", "TuningText", "tune_weights"]

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
    tuned, rng = tuned_features(decoder.lexicalized), np.random.default_rng(seed)
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
        lists = _nbest_lists(pools)
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


def _nbest_lists(pools: Sequence[_NBestPool]) -> NBestLists:
    """Return the pools for the search in weight space."""
    offsets = np.cumsum([0, *(len(pool.counts) for pool in pools)]).astype(np.int64)
    features = np.array([row for pool in pools for row in pool.features])
    return NBestLists(offsets, features, np.array([row for pool in pools for row in pool.counts]))


def _words(translation: PhraseTranslation, copied_ids: Sequence[int]) -> tuple[int, ...]:
    """Return the target word ids of a translation, with those of copied words replaced."""
    words: list[int] = []
    for phrase in translation.phrases:
        words += [copied_ids[phrase.start] if word == COPIED else word for word in phrase.words]
    return tuple(words)
