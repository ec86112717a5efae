"""Tuning of the length and coverage penalties by BLEU.

Each pair of penalties is evaluated with its own beam search. This differs from rescoring one n-best list,
because each pair has its own stopping time.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from regard.config.results import Result
from regard.errors import UsageError
from regard.generation.base import BaseTranslator
from regard.generation.blocks import read_blocks
from regard.generation.lines import enumerate_lines
from regard.metrics.translation import check_tokenizer, count_statistics

_GRID = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class PenaltyTuningOptions:
    """The penalties to compare, and the settings of BLEU. All pairs of penalties are compared.

    Attributes:
        length_penalties: Values of alpha, at least 0.
        coverage_penalties: Values of beta, at least 0.
        tokenize: Tokenizer of BLEU; see `regard.metrics.translation.count_statistics`.
        lowercase: Whether to ignore case in BLEU.
    """

    length_penalties: Sequence[float] = _GRID
    coverage_penalties: Sequence[float] = _GRID
    tokenize: str = "13a"
    lowercase: bool = False

    def __post_init__(self) -> None:
        """Reject an unknown tokenizer, and a list that is empty or has a value below 0."""
        check_tokenizer(self.tokenize)
        for name in ("length_penalties", "coverage_penalties"):
            values = getattr(self, name)
            if not values or not all(0 <= value < math.inf for value in values):
                raise UsageError(f"{name}={list(values)}: expected numbers of 0 or more")


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


@dataclass(frozen=True)
class PenaltyTuningResult(Result):
    """BLEU by length penalty (alpha) and coverage penalty (beta).

    Attributes:
        trials: One trial per pair, ordered by alpha, then by beta.
        num_sentences: Number of sentences.
        beam_size: Beam size of the searches.
        tokenize: Tokenizer of BLEU.
        lowercase: Whether to ignore case in BLEU.
        models: Directories of the model or the ensemble.
        source: File of the source lines. None for a text from Python.
        reference: File of the references. None for a text from Python.
    """

    schema = "penalty_tuning"
    trials: tuple[Trial, ...]
    num_sentences: int
    beam_size: int
    tokenize: str = "13a"
    lowercase: bool = False
    models: tuple[str, ...] = ()
    source: str | None = None
    reference: str | None = None

    @cached_property
    def best(self) -> Trial:
        """Return the trial with the highest BLEU. Ties go to the lower coverage, then length penalty."""
        return max(
            self.trials, key=lambda trial: (trial.bleu, -trial.coverage_penalty, -trial.length_penalty)
        )

    def to_data(self) -> dict[str, Any]:
        """Return the settings, all trials and the best one."""
        return {**super().to_data(), "best": dataclasses.asdict(self.best)}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per trial: length penalty, coverage penalty, BLEU."""
        return [dataclasses.asdict(trial) for trial in self.trials]

    def __repr__(self) -> str:
        """Return the best pair of penalties."""
        alpha, beta = self.best.length_penalty, self.best.coverage_penalty
        return (
            f"PenaltyTuningResult(length_penalty={alpha:g}, coverage_penalty={beta:g}, "
            f"BLEU {self.best.bleu:.2f})"
        )


def tune_penalties(
    translator: BaseTranslator,
    sources: Sequence[str],
    references: Sequence[str],
    options: PenaltyTuningOptions,
    progress: Callable[
        [Sequence[tuple[float, float]], str, int], Iterable[tuple[float, float]]
    ] = lambda pairs, name, total: pairs,
) -> PenaltyTuningResult:
    """Evaluate all pairs of penalties; they replace those of the translator's search settings.

    `progress` passes the pairs of penalties through, with a label and their number.

    Raises:
        UsageError: if the translator does not have these penalties.
    """
    pairs = list(product(options.length_penalties, options.coverage_penalties))
    tokenize = check_tokenizer(options.tokenize)
    trials: list[Trial] = []
    for alpha, beta in progress(pairs, "tune", len(pairs)):
        search = translator.with_search({"length_penalty": alpha, "coverage_penalty": beta})
        texts: list[str] = []
        for block in read_blocks(enumerate_lines(sources), search.search.buffer_lines):
            texts += [translation.text for translation in search.translate_block(block)]
        counts = count_statistics("bleu", texts, [references], tokenize, options.lowercase)
        trials.append(Trial(alpha, beta, counts.corpus_score()))
    beam_size = translator.search.beam_size
    return PenaltyTuningResult(tuple(trials), len(sources), beam_size, options.tokenize, options.lowercase)
