"""Tuning of the length and coverage penalties by BLEU.

Each pair of penalties is evaluated with its own beam search. Unless unfinished hypotheses are ranked by the
coverage penalty as well, the penalties affect only the ranking of finished hypotheses and the time at which
search stops. A single search then returns the exact results for all pairs
(`regard.generation.beam.beam_searches`). This differs from rescoring one n-best list, because each pair has
its own stopping time.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from regard.errors import RegardError
from regard.generation.base import BaseTranslator
from regard.generation.blocks import read_blocks
from regard.generation.config import GenerationConfig
from regard.generation.lines import enumerate_lines
from regard.metrics.translation import BleuTokenizer, bleu

__all__ = ["Trial", "best_trial", "tune_penalties"]


@dataclass(frozen=True)
class Trial:
    """Result of a pair of penalties.

    Attributes:
        length_penalty: alpha.
        coverage_penalty: beta.
        bleu: BLEU of the translations found with them, 0 to 100.
    """

    length_penalty: float
    coverage_penalty: float
    bleu: float


def tune_penalties(
    translator: BaseTranslator,
    sources: Sequence[str],
    references: Sequence[str],
    length_penalties: Sequence[float],
    coverage_penalties: Sequence[float],
    tokenize: BleuTokenizer = "13a",
    lowercase: bool = False,
    on_progress: Callable[[int], None] = lambda lines: None,
) -> list[Trial]:
    """Evaluate all pairs of penalties.

    Args:
        translator: The model and its search settings; the penalties are replaced.
        sources: Lines to translate.
        references: Their reference translations.
        length_penalties: Length penalties.
        coverage_penalties: Coverage penalties.
        tokenize: Tokenizer of `regard.metrics.translation.bleu`.
        lowercase: Whether BLEU ignores case.
        on_progress: Callback that receives the number of lines translated since its last call. In total, it
            receives `len(sources)`, or `len(sources)` per pair if each pair needs its own search.

    Returns:
        One trial per pair, ordered by alpha, then by beta.

    Raises:
        UsageError: if the translator does not have these penalties.
    """
    translator.require("tune", "a comparison of penalties")
    pairs = list(product(length_penalties, coverage_penalties))
    settings = [_with_penalties(translator.search, alpha, beta) for alpha, beta in pairs]
    texts: list[list[str]] = [[] for _ in pairs]
    # A single search suffices for penalties that rank only finished hypotheses.
    rescore_only = translator.search.coverage_penalty.rescore_only
    groups = [settings] if rescore_only else [[one] for one in settings]
    for block in read_blocks(enumerate_lines(sources), translator.search.buffer_lines):
        found: list[list[str]] = []
        for group in groups:
            found += translator.translate_with_settings(block, group)
            on_progress(len(block))
        for own, translations in zip(texts, found, strict=True):
            own += translations
    return [
        Trial(alpha, beta, bleu(output, [references], tokenize, lowercase).score)
        for (alpha, beta), output in zip(pairs, texts, strict=True)
    ]


def best_trial(trials: Sequence[Trial]) -> Trial:
    """Return the trial with the highest BLEU. Ties go to the lower coverage penalty, then length penalty.

    Raises:
        RegardError: if the BLEU of every trial is NaN.
    """
    # A diverged model may give NaN for some pairs only.
    valid = [trial for trial in trials if not math.isnan(trial.bleu)]
    if not valid:
        raise RegardError(
            "BLEU is NaN for all pairs of penalties: the model's training diverged; "
            "train again with a lower learning rate"
        )
    return max(valid, key=lambda trial: (trial.bleu, -trial.coverage_penalty, -trial.length_penalty))


def _with_penalties(search: GenerationConfig, alpha: float, beta: float) -> GenerationConfig:
    coverage = dataclasses.replace(search.coverage_penalty, weight=beta)
    return dataclasses.replace(search, length_penalty=alpha, coverage_penalty=coverage)
