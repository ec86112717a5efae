"""Tuning of the feature weights on validation data by minimum error rate training.

Each round translates the text, adds the translations to the n-best lists and maximizes BLEU on these lists.
The result is the round whose own translations, not those selected from the lists, have the highest BLEU.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.smt.bleu import NUM_STATISTICS, bleu_statistics, compute_bleu
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
    tuned = tuned_features(decoder.lexicalized)
    if state_dir is not None and state_dir.is_dir():
        state = TuningState.load(state_dir)
    else:
        state = TuningState([NBestPool() for _ in sources], np.random.default_rng(seed), decoder.weights)
    while True:
        translated = replace(decoder, weights=state.weights).translate(sources, num_return, num_threads)
        total, num_new = np.zeros(NUM_STATISTICS), 0
        for pool, nbest, reference, words in zip(
            state.pools, translated, references, copied_ids, strict=True
        ):
            if nbest:
                translations = [_words(one, words) for one in nbest]
                counts = bleu_statistics(translations, reference)
                total += counts[0]
                num_new += pool.add(translations, [one.features for one in nbest], counts)
        score = 100 * float(compute_bleu(total))
        this_round = TuningRound(
            state.round_number, state.weights, score, sum(len(pool.words) for pool in state.pools)
        )
        _log.info(
            "tuning, round %d: BLEU %.2f, %d translations",
            this_round.round_number,
            score,
            this_round.num_translations,
        )
        if report is not None:
            report(this_round)
        if state.best is None or score > state.best.bleu:
            state.best = this_round
        # Without new translations the lists, and therefore the weights, would stay the same.
        if state.round_number == rounds or not num_new:
            return state.best
        starts = [state.weights] if state.best is this_round else [state.weights, state.best.weights]
        lists = state.lists()
        tried = [maximize_bleu(lists, start, tuned, restarts, state.rng) for start in starts]
        state.weights, state.round_number = max(tried, key=lambda one: one[1])[0], state.round_number + 1
        if state_dir is not None:
            state.save(state_dir)


def _words(translation: PhraseTranslation, copied_ids: Sequence[int]) -> tuple[int, ...]:
    """Return the target word ids of a translation, with those of copied words replaced."""
    words: list[int] = []
    for phrase in translation.phrases:
        words += [copied_ids[phrase.start] if word == COPIED else word for word in phrase.words]
    return tuple(words)
