"""Tuning of the feature weights on validation data by minimum error rate training.

Each round translates the text, adds the translations to the n-best lists and maximizes BLEU on these lists.
The result is the round whose own translations, not those selected from the lists, have the highest BLEU.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.smt.bleu import COUNTS, bleu, bleu_counts
from regard.smt.decoder import COPIED, Decoder, Found
from regard.smt.features import tuned
from regard.smt.mert import maximise
from regard.smt.tuning_state import Pool, Round, TuningState

__all__ = ["tune"]

_log = logging.getLogger(__name__)


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
    folder: Path | None = None,
) -> Round:
    """Tune the feature weights and return the best round.

    Args:
        decoder: The decoder with the initial weights.
        sources: The source word ids of the validation text.
        references: The target word ids; unknown words have distinct negative ids.
        copies: The target word id of each source word, for copied words.
        rounds: The maximum number of changes of the weights.
        nbest: The size of the n-best list of each sentence in a round.
        restarts: The number of additional starting points of each search; see `maximise`.
        seed: The random seed.
        threads: The number of threads of the decoder.
        report: A function that is called after each round.
        folder: The directory of the state, which is saved after each round; an existing state is resumed.
            Default: the state is not saved.

    Raises:
        CheckpointError: if the directory is damaged or cannot be written.
    """
    free = tuned(decoder.lexicalised)
    if folder is not None and folder.is_dir():
        state = TuningState.load(folder)
    else:
        state = TuningState([Pool() for _ in sources], np.random.default_rng(seed), decoder.weights)
    while True:
        found = replace(decoder, weights=state.weights).translate(sources, nbest, threads)
        total, fresh = np.zeros(COUNTS), 0
        for pool, several, reference, words in zip(state.pools, found, references, copies, strict=True):
            if several:
                translations = [_words(one, words) for one in several]
                counts = bleu_counts(translations, reference)
                total += counts[0]
                fresh += pool.add(translations, [one.features for one in several], counts)
        score = 100 * float(bleu(total))
        done = Round(state.number, state.weights, score, sum(len(pool.words) for pool in state.pools))
        _log.info("tuning, round %d: BLEU %.2f, %d translations", done.number, score, done.translations)
        if report is not None:
            report(done)
        if state.best is None or score > state.best.bleu:
            state.best = done
        # Without new translations the lists, and therefore the weights, would stay the same.
        if state.number == rounds or not fresh:
            return state.best
        starts = [state.weights] if state.best is done else [state.weights, state.best.weights]
        lists = state.lists()
        tried = [maximise(lists, start, free, restarts, state.random) for start in starts]
        state.weights, state.number = max(tried, key=lambda one: one[1])[0], state.number + 1
        if folder is not None:
            state.save(folder)


def _words(found: Found, copies: Sequence[int]) -> tuple[int, ...]:
    """Return the target word ids of a translation, with those of copied words replaced."""
    words: list[int] = []
    for piece in found.pieces:
        words += [copies[piece.start] if word == COPIED else word for word in piece.words]
    return tuple(words)
