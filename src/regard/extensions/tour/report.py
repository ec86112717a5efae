"""The results of the tour and of the quickstart: scores and an HTML page, all systems on the same sentences.

The two models of the quickstart are systems of the tour, trained on fewer steps. Words that soft attention
omits or repeats can be seen next to the bounded translation.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from regard.analysis.inputs import Linker, Progress, System, no_progress
from regard.api.systems import Companions
from regard.config.extensions import hook
from regard.config.results import Result, json_value
from regard.extensions.tour.runner import SYSTEMS, Costs, ProgressFactory, Tour, TourSystem
from regard.reporting.page import Report, render
from regard.reporting.scores import compute_scores, score_word_links
from regard.reporting.systems import SentenceResult, add_word_links, collect_system
from regard.text.corpus import CorpusConfig, read_pairs
from regard.text.files import write_atomic
from regard.text.links import read_gold_links
from regard.text.reading import read_expected_json

_METRICS = ("bleu", "rep", "drop", "aer")
QUICKSTART_SIZES: dict[Literal["train", "valid", "test"], int] = {"train": 4_000, "valid": 300, "test": 500}
QUICKSTART_SYSTEMS = tuple(
    replace(system, label=system.name) for system in SYSTEMS if system.name in ("soft", "constrained")
)
_QUICKSTART_PAGE = "report.html"
_CHECKER_PAIRS = 1_500  # more would take longer than a model
_MAX_EXAMPLE_WORDS = 16  # an attention map of more source words does not fit a terminal


@dataclass(frozen=True, repr=False)
class TourResults(Result):
    """The scores and costs of the systems of a tour.

    Attributes:
        systems: For each system its name, label, summary, citation and aligner, its `scores` by metric
            (value, interval, difference from the first system and p-value; None if not available), and its
            `costs`.
        signatures: The signatures of the metrics.
        page: The page that compares the systems.
    """

    schema = "tour"
    systems: tuple[Mapping[str, Any], ...]
    signatures: Mapping[str, str]
    page: Path

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per system: its name, the value of each score, and its costs."""
        return [
            {
                "system": system["name"],
                **{name: score and score["value"] for name, score in system["scores"].items()},
                **system["costs"],
            }
            for system in self.systems
        ]

    def __repr__(self) -> str:
        """Return the names of the systems."""
        return f"{type(self).__name__}({', '.join(system['name'] for system in self.systems)})"


@dataclass(frozen=True)
class _StoredResults:
    systems: tuple[dict[str, Any], ...]
    signatures: dict[str, str]


@dataclass(frozen=True, repr=False)
class QuickstartResults(TourResults):
    """The scores and costs of the two models of the quickstart.

    Attributes:
        example: The results of both models for a sentence in which only the first one omits or repeats a
            word; None if there is none, or if the results were stored earlier. It is not part of the JSON
            form.
    """

    schema = "quickstart"
    example: tuple[SentenceResult, SentenceResult] | None

    def to_data(self) -> dict[str, Any]:
        """Return the scores and costs."""
        return {name: value for name, value in super().to_data().items() if name != "example"}


def write_report(tour: Tour, costs: Mapping[TourSystem, Costs], progress: Progress) -> TourResults:
    """Translate the test text with every system, and write the scores and the HTML report.

    Returns:
        The scores and costs of all systems.
    """
    report = _collect_report(tour, costs, progress, "A tour of translation")
    page = tour.output_dir / "tour.html"
    write_atomic(page, render(report).encode())
    results = TourResults(_system_results(costs, report), report.scores.signatures, page)
    results.save(tour.output_dir / "tour.json")
    return results


def _system_results(costs: Mapping[TourSystem, Costs], report: Report) -> tuple[dict[str, Any], ...]:
    """Return the description, the scores and the costs of each system; see `TourResults`."""
    return tuple(
        {
            **asdict(system),
            "scores": {metric: json_value(report.scores.table[metric][index]) for metric in _METRICS},
            "costs": asdict(cost),
        }
        for index, (system, cost) in enumerate(costs.items())
    )


def _collect_report(tour: Tour, costs: Mapping[TourSystem, Costs], progress: Progress, title: str) -> Report:
    """Translate the test text with every system, and return the content of the page with the scores."""
    # The same sentences and aligner for all systems, so that the differences are those of the systems.
    test = tour.corpus_path("test", "de"), tour.corpus_path("test", "en")
    pairs = list(read_pairs(CorpusConfig(source=str(test[0]), target=str(test[1]))))
    gold = list(read_gold_links(tour.corpus_path("test", "talp")))
    align = Linker.load(tour.aligner(tour.links), lowercase=False).align
    loaded = (
        System(system.label, (str(tour.model_dir(system)),), tour.translator(system)) for system in costs
    )
    systems = [add_word_links(collect_system(system, pairs, progress), align) for system in loaded]
    scores = compute_scores(systems, pairs, "none", gold=gold)
    # Word- and phrase-based systems do not support forced decoding of the references.
    words = [(result.sentence.source, result.sentence.reference) for result in systems[0].sentences]
    aer = list(scores.table["aer"])
    for index, system in enumerate(costs):
        if system.aligner:
            linker = Linker.load(tour.aligner(system.aligner), lowercase=False)
            aer[index] = score_word_links(linker.align(words), gold)
    return Report(
        title=title,
        source=str(test[0]),
        reference=str(test[1]),
        sentence_pairs=pairs,
        systems=systems,
        scores=replace(scores, table={**scores.table, "aer": aer}),
        gold=gold,
        notes=[
            *(f"{system.label}: {system.summary} {system.citation}." for system in costs),
            "AER is computed by forced decoding of the references, with links to the source word that has "
            "the highest attention weight. For the word- and phrase-based systems it is the AER of their "
            "word aligner.",
        ],
        columns={
            "MB": [f"{cost.megabytes:.1f}" for cost in costs.values()],
            "training, min": [
                "–" if cost.training_seconds is None else f"{cost.training_seconds / 60:.1f}"
                for cost in costs.values()
            ],
            "sentences/s": [f"{cost.sentences_per_second:.0f}" for cost in costs.values()],
        },
    )


def run_quickstart(
    output_dir: Path | str,
    progress: ProgressFactory,
    on_stage: Callable[[str], None] = lambda title: None,
    track: Progress = no_progress,
    seed: int = 1,
) -> QuickstartResults:
    """Write the built-in corpus, train two models on it, translate the test text and compare them.

    A second call resumes an interrupted training. When all is finished, it reads the stored results.

    Args:
        output_dir: The directory of all files.
        progress: Returns a context for the progress display of text preparation, such as `nullcontext`.
        on_stage: Function called with the title of each stage when it begins.
        track: Progress display of translation.
        seed: The random seed of the text and of the models.

    Raises:
        TrainingInterruptedError: if a signal was received; the state is saved.
    """
    output_dir = Path(output_dir)
    page, stored = output_dir / _QUICKSTART_PAGE, output_dir / "quickstart.json"
    if stored.is_file():
        data = read_expected_json(stored, _StoredResults, "the results of the quickstart")
        return QuickstartResults(data.systems, data.signatures, page, None)
    on_stage("1. Corpus: German-English sentence pairs with gold word links")
    tour = Tour(output_dir, QUICKSTART_SIZES, recipes="quickstart", series=True, seed=seed, links="hmm")
    tour.write_corpus()
    on_stage("2. Two models: soft attention, and attention bounded by fertilities")
    costs = {system: tour.train(system, progress) for system in QUICKSTART_SYSTEMS}
    on_stage("3. Translation of the test set and comparison")
    report = _collect_report(tour, costs, track, "Quickstart: soft and constrained attention")
    # The costs of two models of the same size are left to `regard tour`.
    report = replace(report, columns={})
    check = hook("report_check")
    if check is not None:
        # A later report of the bounded model uses the same coverage model.
        companions = Companions(tour.model_dir(QUICKSTART_SYSTEMS[-1]), max_pairs=_CHECKER_PAIRS)
        find_errors = check(optional=True).load(companions, 0)
        sources = [source for source, _ in report.sentence_pairs]
        report = replace(report, check=find_errors and find_errors(report.systems, sources))
    write_atomic(page, render(report).encode())
    systems = _system_results(costs, report)
    results = QuickstartResults(systems, report.scores.signatures, page, _find_example(report))
    results.save(stored)
    return results


def _find_example(report: Report) -> tuple[SentenceResult, SentenceResult] | None:
    """Return the results of the sentence with the maximum number of errors of the first model alone.

    Sentences that the second model translates like the reference come first, then short ones, whose maps fit
    a terminal.
    """
    first, second = (system.sentences for system in report.systems)
    best, example = (False, False, 0), None
    for soft, bounded in zip(first, second, strict=True):
        errors, others = (
            len(result.sentence.dropped) + len(result.sentence.repeated) for result in (soft, bounded)
        )
        if others or soft.error or bounded.error:
            continue
        correct = bounded.sentence.output == bounded.sentence.reference
        rank = correct, len(soft.sentence.source) <= _MAX_EXAMPLE_WORDS, errors
        if errors and rank > best:
            best, example = rank, (soft, bounded)
    return example
