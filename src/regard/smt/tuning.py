"""Weights tuned on validation data: translate, add to the n-best lists, maximise BLEU on them, and again.

The weights returned are those whose own translations, not those of the lists, had the highest BLEU.
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
        folder: Where its state is kept after each round; what is there is gone on with.

    Raises:
        CheckpointError: if the folder is broken or cannot be written.
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
                said = [_words(one, words) for one in several]
                counts = bleu_counts(said, reference)
                total += counts[0]
                fresh += pool.add(said, [one.features for one in several], counts)
        score = 100 * float(bleu(total))
        done = Round(state.number, state.weights, score, sum(len(pool.words) for pool in state.pools))
        _log.info("tuning, round %d: BLEU %.2f, %d translations", done.number, score, done.translations)
        if report is not None:
            report(done)
        if state.best is None or score > state.best.bleu:
            state.best = done
        if state.number == rounds or not fresh:
            return state.best
        starts = [state.weights] if state.best is done else [state.weights, state.best.weights]
        lists = state.lists()
        tried = [maximise(lists, start, free, restarts, state.random) for start in starts]
        state.weights, state.number = max(tried, key=lambda one: one[1])[0], state.number + 1
        if folder is not None:
            state.save(folder)


def _words(found: Found, copies: Sequence[int]) -> tuple[int, ...]:
    """The words of a translation, copied ones as target words."""
    words: list[int] = []
    for piece in found.pieces:
        words += [copies[piece.start] if word == COPIED else word for word in piece.words]
    return tuple(words)
