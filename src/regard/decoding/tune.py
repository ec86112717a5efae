"""Which length and coverage penalties translate a text best, by BLEU.

Each pair of penalties is judged by what beam search finds with it. Unless unfinished hypotheses are ranked by
coverage too, the penalties decide between finished hypotheses and when to stop, and one search finds what a
search with each of the pairs would (`regard.decoding.beam.beam_searches`). This is not the rescoring of one
n-best list: each pair stops where it would stop.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from regard.decoding.blocks import blocks
from regard.decoding.config import SearchConfig
from regard.decoding.penalties import Scorer
from regard.decoding.translate import Line, Translator, number_lines
from regard.errors import RegardError
from regard.metrics.translation import Tokenizer, bleu

__all__ = ["Trial", "best_trial", "tune"]


@dataclass(frozen=True)
class Trial:
    """What a pair of penalties came to.

    Attributes:
        length_penalty: alpha.
        coverage_penalty: beta.
        bleu: Of the translations found with them.
    """

    length_penalty: float
    coverage_penalty: float
    bleu: float


def tune(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    tokenize: Tokenizer = "13a",
    lowercase: bool = False,
    tick: Callable[[int], None] = lambda lines: None,
) -> list[Trial]:
    """Try all pairs of penalties.

    Args:
        translator: The model and how it searches, but for the penalties.
        sources: The lines to translate.
        references: Their translations.
        alphas: Length penalties to try.
        betas: Coverage penalties to try.
        tokenize: As `regard.metrics.translation.bleu` takes it.
        lowercase: Whether BLEU ignores case.
        tick: Told how many lines were translated since it was last told; in all `len(sources)`, or so many
            for each pair where every pair takes a search of its own.

    Returns:
        A trial for each pair, by alpha and then by beta.
    """
    pairs = list(product(alphas, betas))
    settings = [_with(translator.search, alpha, beta) for alpha, beta in pairs]
    texts: list[list[str]] = [[] for _ in pairs]
    for block in blocks(number_lines(sources), translator.search.batch.block):
        for own, found in zip(texts, _translated(translator, block, settings, tick), strict=True):
            own += found
    return [
        Trial(alpha, beta, bleu(found, [references], tokenize, lowercase).score)
        for (alpha, beta), found in zip(pairs, texts, strict=True)
    ]


def best_trial(trials: Sequence[Trial]) -> Trial:
    """That of the highest BLEU; of equal ones that of the least coverage penalty, then length penalty.

    Raises:
        RegardError: if no trial has a BLEU that is a number.
    """
    numbers = [trial for trial in trials if not math.isnan(trial.bleu)]
    if not numbers:
        raise RegardError("no pair of penalties has a BLEU that is a number: the model's training diverged")
    return max(numbers, key=lambda trial: (trial.bleu, -trial.coverage_penalty, -trial.length_penalty))


def _with(search: SearchConfig, alpha: float, beta: float) -> SearchConfig:
    coverage = dataclasses.replace(search.coverage_penalty, weight=beta)
    return dataclasses.replace(search, length_penalty=alpha, coverage_penalty=coverage)


def _translated(
    translator: Translator, lines: list[Line], settings: list[SearchConfig], tick: Callable[[int], None]
) -> list[list[str]]:
    """The translations of lines under each of several settings."""
    if not translator.search.coverage_penalty.unfinished:
        before = len(translator.model.constraints.before)
        found = translator.variants(lines, [Scorer.of(search, before) for search in settings])
        tick(len(lines))
        return found
    texts: list[list[str]] = []
    for search in settings:
        one = dataclasses.replace(translator, search=search)
        texts.append([result.text for result in one.block(lines)])
        tick(len(lines))
    return texts
