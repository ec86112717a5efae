"""The quickstart: two small models on the built-in corpus, one of them with bounded attention.

Both are systems of the tour, trained on fewer steps. The scores and the page compare them on the same
sentences, so that words that soft attention omits or repeats can be seen next to the bounded translation.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from regard.analysis.errors import SentenceErrors
from regard.analysis.inputs import Progress, no_progress
from regard.api.companions import Companions
from regard.config.extensions import hook
from regard.config.results import Result
from regard.extensions.tour.report import collect_report, system_scores
from regard.extensions.tour.runner import SYSTEMS, ProgressFactory, Tour
from regard.reporting.page import Report, render
from regard.reporting.systems import SentenceResult
from regard.text.files import write_atomic

__all__ = ["QUICKSTART_SYSTEMS", "Example", "QuickstartResult", "run_quickstart"]

SIZES: dict[Literal["train", "valid", "test"], int] = {"train": 20_000, "valid": 500, "test": 500}
OVERRIDES = (
    "training.max_epochs=3",
    "training.lr_scheduler.start_epoch=3",
    "training.logging.every_steps=200",
)
QUICKSTART_SYSTEMS = tuple(
    replace(system, label=system.name) for system in SYSTEMS if system.name in ("soft", "constrained")
)
_PAGE_FILE = "report.html"
_CHECKER_PAIRS = 5_000  # a quarter of the text: a third of the time for nearly the same areas under the curve
_MAX_EXAMPLE_WORDS = 16  # an attention map of more source words does not fit a terminal


@dataclass(frozen=True)
class Example:
    """A sentence that the first model translates with an error and the second one without.

    Attributes:
        line: Line number in the test text, counted from 1.
        results: The results of both models.
    """

    line: int
    results: tuple[SentenceResult, SentenceResult]


@dataclass(frozen=True, repr=False)
class QuickstartResult(Result):
    """The scores of the models of the quickstart on its test text.

    Attributes:
        systems: For each model its name, directory, number of parameters, training time in seconds, and its
            `scores`: BLEU, REP, DROP and AER (0 to 100; lower is better except for BLEU) with intervals.
        signatures: Signatures of the scores.
        report: The page that compares the models.
        seconds: Time of this call.
        example: A sentence in which only the first model omits or repeats a word; None if there is none. It
            is not part of the JSON form.
    """

    schema = "quickstart"
    systems: tuple[dict[str, Any], ...]
    signatures: dict[str, str]
    report: Path
    seconds: float
    example: Example | None = None

    def to_data(self) -> dict[str, Any]:
        """Return the scores and the times."""
        return {name: value for name, value in super().to_data().items() if name != "example"}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per model: name, directory, the value of each score, and the training time."""
        return [
            {
                "model": system["name"],
                "directory": system["directory"],
                **{name: score and score["value"] for name, score in system["scores"].items()},
                "training_seconds": system["training_seconds"],
            }
            for system in self.systems
        ]

    def __repr__(self) -> str:
        """Return BLEU of each model."""
        scores = (f"{row['model']}: BLEU {row['bleu']:.2f}" for row in self.rows())
        return f"QuickstartResult({', '.join(scores)})"


def run_quickstart(
    output_dir: Path | str,
    progress: ProgressFactory,
    on_stage: Callable[[str], None] = lambda title: None,
    track: Progress = no_progress,
) -> QuickstartResult:
    """Write the built-in corpus, train two models on it, translate the test text and compare them.

    A second call resumes an interrupted training, and reuses trained models.

    Args:
        output_dir: The directory of all files.
        progress: Returns a context for the progress display of text preparation, such as `nullcontext`.
        on_stage: Function called with the title of each stage when it begins.
        track: Progress display of translation.

    Raises:
        TrainingInterruptedError: if a signal was received; the state is saved.
    """
    start, directory = time.monotonic(), Path(output_dir)
    on_stage("1. Corpus: German-English sentence pairs with gold word links")
    tour = Tour(directory, SIZES, OVERRIDES)
    tour.write_corpus()
    on_stage("2. Two models: soft attention, and attention bounded by fertilities")
    costs = {system: tour.train(system, progress) for system in QUICKSTART_SYSTEMS}
    on_stage("3. Translation of the test set and comparison")
    report = collect_report(tour, costs, track, "Quickstart: soft and constrained attention")
    # The costs of two models of the same size are left to `regard tour`.
    report = replace(report, columns={})
    # A later report of the bounded model uses the same coverage model.
    model_dir = tour.model_dir(QUICKSTART_SYSTEMS[-1])
    check = hook("report_check")
    if check is not None:
        companions = Companions(model_dir, max_pairs=_CHECKER_PAIRS)
        find_errors = check(optional=True).load(companions, 0)
        sources = [source for source, _ in report.sentence_pairs]
        report = replace(report, check=find_errors and find_errors(report.systems, sources))
    path = directory / _PAGE_FILE
    write_atomic(path, render(report).encode())
    systems = tuple(
        {
            "name": system.name,
            "directory": str(tour.model_dir(system)),
            "num_parameters": cost.num_parameters,
            "training_seconds": cost.training_seconds,
            "scores": system_scores(report.scores, index),
        }
        for index, (system, cost) in enumerate(costs.items())
    )
    elapsed = time.monotonic() - start
    return QuickstartResult(systems, dict(report.scores.signatures), path, elapsed, _find_example(report))


def _find_example(report: Report) -> Example | None:
    """Return the sentence with the highest number of errors of the first model, and none of the second.

    Sentences that the second model translates like the reference come first, then short ones, whose maps fit
    a terminal.
    """
    candidates: list[tuple[bool, bool, int, Example]] = []
    first, second = (system.sentences for system in report.systems)
    for soft, bounded in zip(first, second, strict=True):
        errors = _num_errors(soft.sentence)
        if errors and not _num_errors(bounded.sentence) and not (soft.error or bounded.error):
            correct = bounded.sentence.output == bounded.sentence.reference
            fits = len(soft.sentence.source) <= _MAX_EXAMPLE_WORDS
            candidates.append((correct, fits, errors, Example(soft.sentence.line, (soft, bounded))))
    return max(candidates, key=lambda one: one[:3])[-1] if candidates else None


def _num_errors(sentence: SentenceErrors) -> int:
    """Return the number of dropped and repeated words."""
    return len(sentence.dropped) + len(sentence.repeated)
