"""Tuning of the feature weights on validation data by minimum error rate training.

Each round translates the text, adds the translations to the n-best lists and maximizes BLEU on these lists.
The result is the round whose own translations, not those selected from the lists, have the highest BLEU.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.smt.bleu import NUM_STATISTICS, compute_bleu, bleu_statistics
from regard.smt.decoder import COPIED, PhraseDecoder, PhraseTranslation
from regard.smt.features import tuned_features
from regard.smt.mert import maximize_bleu
from regard.smt.tuning_state import NBestPool, TuningRound, TuningState

__all__ = ["tune_weights"]

_log = logging.getLogger(__name__)


def tune_weights(
    decoder: PhraseDecoder,
    sources: Sequence[Sequence[int]],
    references: Sequence[Sequence[int]],
    copied_ids: Sequence[Sequence[int]],
    rounds: int,
    num_return: int,
    restarts: int,
    seed: int,
    num_threads: int = 1,
    report: Callable[[TuningRound], None] | None = None,
    state_dir: Path | None = None,
) -> TuningRound:
    """Tune the feature weights and return the best round.

    Args:
        decoder: The decoder with the initial weights.
        sources: The source word ids of the validation text.
        references: The target word ids; unknown words have distinct negative ids.
        copied_ids: The target word id of each source word, for copied words.
        rounds: The maximum number of changes of the weights.
        num_return: The size of the n-best list of each sentence in a round.
        restarts: The number of additional starting points of each search; see `maximize_bleu`.
        seed: The random seed.
        num_threads: The number of threads of the decoder.
        report: A function that is called after each round.
        state_dir: The directory of the state, which is saved after each round; an existing state is resumed.
            Default: the state is not saved.

    Raises:
        CheckpointError: if the directory is damaged or cannot be written.
    """
    free = tuned_features(decoder.lexicalized)
    if state_dir is not None and state_dir.is_dir():
        state = TuningState.load(state_dir)
    else:
        state = TuningState([NBestPool() for _ in sources], np.random.default_rng(seed), decoder.weights)
    while True:
        found = replace(decoder, weights=state.weights).translate(sources, num_return, num_threads)
        total, fresh = np.zeros(NUM_STATISTICS), 0
        for pool, several, reference, words in zip(state.pools, found, references, copied_ids, strict=True):
            if several:
                translations = [_words(one, words) for one in several]
                counts = bleu_statistics(translations, reference)
                total += counts[0]
                fresh += pool.add(translations, [one.features for one in several], counts)
        score = 100 * float(compute_bleu(total))
        done = TuningRound(state.round_number, state.weights, score, sum(len(pool.words) for pool in state.pools))
        _log.info("tuning, round %d: BLEU %.2f, %d translations", done.round_number, score, done.num_translations)
        if report is not None:
            report(done)
        if state.best is None or score > state.best.bleu:
            state.best = done
        # Without new translations the lists, and therefore the weights, would stay the same.
        if state.round_number == rounds or not fresh:
            return state.best
        starts = [state.weights] if state.best is done else [state.weights, state.best.weights]
        lists = state.lists()
        tried = [maximize_bleu(lists, start, free, restarts, state.rng) for start in starts]
        state.weights, state.round_number = max(tried, key=lambda one: one[1])[0], state.round_number + 1
        if state_dir is not None:
            state.save(state_dir)


def _words(found: PhraseTranslation, copies: Sequence[int]) -> tuple[int, ...]:
    """Return the target word ids of a translation, with those of copied words replaced."""
    words: list[int] = []
    for piece in found.phrases:
        words += [copies[piece.start] if word == COPIED else word for word in piece.words]
    return tuple(words)
