"""Tuning of the feature weights on validation data by minimum error rate training.

Each round translates the text, adds the translations to the n-best lists and maximizes BLEU on these lists.
The result is the round whose own translations, not those selected from the lists, have the highest BLEU. The
state is saved after each round, so that a resumed run has the same result.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from regard.config import configclass, option
from regard.errors import CheckpointError, DataError
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
from regard.extensions.smt.storage import DESCRIPTION_FILE, described_directory, read_arrays, write_arrays
from regard.text.reading import Checksums, checked_file, read_json, verify_checksums

__all__ = ["NBestPool", "TuningRound", "TuningState", "TuningText", "tune_weights"]

_log = logging.getLogger(__name__)
ARRAYS = ("weights", "best", "sizes", "features", "counts", "lengths", "words")


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


class NBestPool:
    """The accumulated translations of one sentence, without duplicates of words and features.

    Attributes:
        words: The word ids of each translation.
        features: The features of each translation, float64 [features].
        counts: The BLEU statistics of each translation.
    """

    def __init__(self) -> None:
        """Create an empty pool."""
        self.words: list[tuple[int, ...]] = []
        self.features: list[np.ndarray] = []
        self.counts: list[np.ndarray] = []
        self._known: set[tuple[tuple[int, ...], bytes]] = set()

    def add(
        self, translations: Sequence[tuple[int, ...]], features: Sequence[np.ndarray], counts: np.ndarray
    ) -> int:
        """Add translations and return the number of new ones."""
        before = len(self.words)
        for words, row_features, row in zip(translations, features, counts, strict=True):
            # Different derivations can give the same words with other features.
            key = words, row_features.round(6).tobytes()
            if key not in self._known:
                self._known.add(key)
                self.words.append(words)
                self.features.append(row_features)
                self.counts.append(row)
        return len(self.words) - before


@dataclass
class TuningState:
    """The state at the start of a round.

    Attributes:
        pools: The n-best list of each sentence.
        rng: The random generator of the starting points.
        weights: The weights of the decoder in this round.
        round_number: The number of the round.
        best: The best round so far, or None before the first one.
    """

    pools: list[NBestPool]
    rng: np.random.Generator
    weights: np.ndarray
    round_number: int = 0
    best: TuningRound | None = None

    def lists(self) -> NBestLists:
        """Return the n-best lists for the search in weight space."""
        offsets = np.cumsum([0, *(len(pool.words) for pool in self.pools)]).astype(np.int64)
        features = np.array([row for pool in self.pools for row in pool.features])
        return NBestLists(offsets, features, np.array([row for pool in self.pools for row in pool.counts]))

    def save(self, directory: Path) -> None:
        """Write the state atomically.

        Raises:
            CheckpointError: if it cannot be written.
        """
        assert self.best is not None
        lists = self.lists()
        translations = [words for pool in self.pools for words in pool.words]
        description = {
            "number": self.round_number,
            "best": {key: getattr(self.best, key) for key in ("round_number", "bleu", "num_translations")},
            "random": self.rng.bit_generator.state,
        }
        arrays = {
            "weights": self.weights,
            "best": self.best.weights,
            "sizes": np.diff(lists.offsets),
            "features": lists.features,
            "counts": lists.counts,
            "lengths": np.array([len(words) for words in translations], dtype=np.int64),
            "words": np.array([word for words in translations for word in words], dtype=np.int64),
        }
        with described_directory(directory, description) as temp_dir:
            write_arrays(temp_dir, "tuning", arrays)

    @classmethod
    def load(cls, directory: Path) -> "TuningState":
        """Read a state that `save` wrote.

        Raises:
            CheckpointError: if a file is missing or altered; the message names it.
        """
        try:
            description = read_json(checked_file(directory, DESCRIPTION_FILE), _Description)
            verify_checksums(
                directory, description.sha256, (f"tuning.{name}.npy" for name in ARRAYS), DESCRIPTION_FILE
            )
            arrays = read_arrays(directory, "tuning", ARRAYS)
            rng = np.random.default_rng()
            rng.bit_generator.state = description.random
            best = TuningRound(weights=np.array(arrays["best"]), **vars(description.best))
            pools = _pools(arrays)
            return cls(pools, rng, np.array(arrays["weights"]), description.number, best)
        except DataError as error:
            raise CheckpointError(str(error)) from None
        except (ValueError, KeyError, TypeError, IndexError):
            raise CheckpointError(f"{directory}: not a tuning state; remove the directory") from None


@configclass
class _BestRound:
    """The best round in `about.json`."""

    round_number: int = option(help="Number of the round.", ge=0)
    bleu: float = option(help="BLEU of its translations.")
    num_translations: int = option(help="Number of translations in all n-best lists.", ge=0)


@configclass
class _Description:
    """The content of `about.json`."""

    number: int = option(help="Number of the next round.", ge=0)
    best: _BestRound = option(help="Best round so far.")
    random: dict[str, Any] = option(help="State of the random generator.")
    sha256: Checksums = option(help="Checksums of the other files in the directory.")


def _pools(arrays: dict[str, np.ndarray]) -> list[NBestPool]:
    words, pools = arrays["words"].tolist(), []
    ends = np.cumsum([0, *arrays["lengths"]]).tolist()
    translations = [tuple(words[first:last]) for first, last in pairwise(ends)]
    for first, last in pairwise(np.cumsum([0, *arrays["sizes"]]).tolist()):
        pools.append(NBestPool())
        pools[-1].add(
            translations[first:last], np.array(arrays["features"][first:last]), arrays["counts"][first:last]
        )
    return pools


def tune_weights(
    decoder: PhraseDecoder,
    text: TuningText,
    config: TuningConfig,
    seed: int,
    num_threads: int = 1,
    report: Callable[[TuningRound], None] | None = None,
    state_dir: Path | None = None,
) -> TuningRound:
    """Tune the feature weights and return the best round.

    Args:
        decoder: The decoder with the initial weights.
        text: The validation text.
        config: The number of rounds, of translations and of starting points.
        seed: The random seed.
        num_threads: The number of threads of the decoder.
        report: A function that is called after each round.
        state_dir: The directory of the state, which is saved after each round; an existing state is resumed.
            Default: the state is not saved.

    Raises:
        CheckpointError: if the directory is damaged or cannot be written.
    """
    tuned = tuned_features(decoder.lexicalized)
    if state_dir is not None and state_dir.is_dir():
        state = TuningState.load(state_dir)
    else:
        pools = [NBestPool() for _ in text.sources]
        state = TuningState(pools, np.random.default_rng(seed), decoder.weights)
    while True:
        this_round, num_new = _translate(decoder, text, config, state, num_threads)
        if report is not None:
            report(this_round)
        if state.best is None or this_round.bleu > state.best.bleu:
            state.best = this_round
        # Without new translations the lists, and therefore the weights, would stay the same.
        if state.round_number == config.num_rounds or not num_new:
            return state.best
        starts = [state.weights] if state.best is this_round else [state.weights, state.best.weights]
        lists = state.lists()
        tried = [maximize_bleu(lists, start, tuned, config.num_restarts, state.rng) for start in starts]
        state.weights, state.round_number = max(tried, key=lambda one: one[1])[0], state.round_number + 1
        if state_dir is not None:
            state.save(state_dir)


def _translate(
    decoder: PhraseDecoder, text: TuningText, config: TuningConfig, state: TuningState, num_threads: int
) -> tuple[TuningRound, int]:
    """Translate the text with the weights of a round and add the translations to the n-best lists.

    Returns:
        The result of the round, and the number of new translations.
    """
    # Without tuning, one translation per sentence suffices for the BLEU of the initial weights.
    num_return = config.nbest_size if config.num_rounds else 1
    translated = replace(decoder, weights=state.weights).translate(text.sources, num_return, num_threads)
    total, num_new = np.zeros(NUM_STATISTICS), 0
    sides = zip(state.pools, translated, text.references, text.copied_ids, strict=True)
    for pool, nbest, reference, copied_ids in sides:
        if nbest:
            translations = [_words(candidate, copied_ids) for candidate in nbest]
            counts = bleu_statistics(translations, reference)
            total += counts[0]
            num_new += pool.add(translations, [candidate.features for candidate in nbest], counts)
    score, size = 100 * float(compute_bleu(total)), sum(len(pool.words) for pool in state.pools)
    _log.info("tuning, round %d: BLEU %.2f, %d translations", state.round_number, score, size)
    return TuningRound(state.round_number, state.weights, score, size), num_new


def _words(translation: PhraseTranslation, copied_ids: Sequence[int]) -> tuple[int, ...]:
    """Return the target word ids of a translation, with those of copied words replaced."""
    words: list[int] = []
    for phrase in translation.phrases:
        words += [copied_ids[phrase.start] if word == COPIED else word for word in phrase.words]
    return tuple(words)
