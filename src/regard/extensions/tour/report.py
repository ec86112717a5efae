"""The scores and the HTML report of the tour, with all systems on the same sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from regard.alignment import Corpus, WordAligner
from regard.alignment.base import DEFAULT_ALIGNER
from regard.analysis.inputs import Progress, System
from regard.config.results import Result, json_value
from regard.extensions.tour.runner import Costs, Tour, TourSystem
from regard.reporting.page import Report, render
from regard.reporting.scores import ScoreTable, compute_scores, score_word_links
from regard.reporting.systems import LinkFunction, SystemResults, add_word_links, collect_system
from regard.text.corpus import CorpusConfig, read_pairs
from regard.text.files import write_atomic
from regard.text.links import GoldLinks, Links, read_gold_links

__all__ = ["TOUR_METRICS", "TourResults", "collect_report", "system_scores", "write_report"]

TOUR_METRICS = ("bleu", "rep", "drop", "aer")
RESULTS_FILE, REPORT_FILE = "tour.json", "tour.html"


@dataclass(frozen=True, repr=False)
class TourResults(Result):
    """The scores and costs of the systems of a tour.

    Attributes:
        systems: For each system its name, label, summary, citation and aligner, its `scores` by metric
            (value, interval, difference from the first system and p-value; None if not available), and its
            `costs`.
        signatures: The signatures of the metrics.
    """

    schema = "tour"
    systems: tuple[Mapping[str, Any], ...]
    signatures: Mapping[str, str]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per system: its name, the value of each score, and its costs."""
        return [
            {
                "system": system["name"],
                **{
                    name: None if score is None else score["value"]
                    for name, score in system["scores"].items()
                },
                **system["costs"],
            }
            for system in self.systems
        ]

    def __repr__(self) -> str:
        """Return the names of the systems."""
        return f"TourResults({', '.join(system['name'] for system in self.systems)})"


def write_report(tour: Tour, costs: Mapping[TourSystem, Costs], progress: Progress) -> TourResults:
    """Translate the test text with every system, and write the scores and the HTML report.

    Args:
        tour: The tour.
        costs: The costs of each system to show, in order.
        progress: The progress display.

    Returns:
        The scores and costs of all systems.
    """
    report = collect_report(tour, costs, progress, "A tour of translation")
    write_atomic(tour.output_dir / REPORT_FILE, render(report).encode())
    results = TourResults(
        tuple(
            {**asdict(system), "scores": system_scores(report.scores, index), "costs": asdict(cost)}
            for index, (system, cost) in enumerate(costs.items())
        ),
        report.scores.signatures,
    )
    results.save(tour.output_dir / RESULTS_FILE)
    return results


def collect_report(tour: Tour, costs: Mapping[TourSystem, Costs], progress: Progress, title: str) -> Report:
    """Translate the test text with every system, and return the content of the page with the scores.

    Args:
        tour: The tour.
        costs: The costs of each system to show, in order.
        progress: The progress display.
        title: The title of the page.
    """
    # The same sentences and aligner for all systems, so that the differences are those of the systems.
    test = tour.corpus_path("test", "de"), tour.corpus_path("test", "en")
    pairs = list(read_pairs(CorpusConfig(source=str(test[0]), target=str(test[1]))))
    gold = list(read_gold_links(tour.corpus_path("test", "talp")))
    align = _make_aligner(tour.aligner(DEFAULT_ALIGNER))
    loaded = (
        System(system.label, (str(tour.model_dir(system)),), tour.translator(system)) for system in costs
    )
    systems = [add_word_links(collect_system(system, pairs, progress), align) for system in loaded]
    scores = _with_aligner_scores(
        tour, list(costs), systems, compute_scores(systems, pairs, "none", gold=gold), gold
    )
    return Report(
        title=title,
        source=str(test[0]),
        reference=str(test[1]),
        sentence_pairs=pairs,
        systems=systems,
        scores=scores,
        gold=gold,
        notes=[
            *(f"{system.label}: {system.summary} {system.citation}." for system in costs),
            "AER is computed by forced decoding of the references, with links to the source word that has "
            "the highest attention weight. For the word- and phrase-based systems it is the AER of their "
            "word aligner.",
        ],
        columns=_columns(list(costs.values())),
    )


def _make_aligner(aligner: WordAligner) -> LinkFunction:
    def align(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[Links]:
        return list(aligner.align(Corpus.from_tokens(pairs, aligner.words, allow_empty=True)))

    return align


def _with_aligner_scores(
    tour: Tour,
    tour_systems: Sequence[TourSystem],
    systems: Sequence[SystemResults],
    scores: ScoreTable,
    gold: Sequence[GoldLinks],
) -> ScoreTable:
    """Return the scores with the AER of the aligners of word- and phrase-based systems.

    These systems do not support forced decoding of the references.
    """
    # All systems have the same sentences, so that those of the first one suffice.
    words = [(result.sentence.source, result.sentence.reference) for result in systems[0].sentences]
    table = [
        score_word_links(_make_aligner(tour.aligner(tour_system.aligner))(words), gold)
        if tour_system.aligner
        else score
        for tour_system, score in zip(tour_systems, scores.table["aer"], strict=True)
    ]
    return replace(scores, table={**scores.table, "aer": table})


def system_scores(scores: ScoreTable, index: int) -> dict[str, dict[str, Any] | None]:
    """Return the scores of a system by metric; None for a score that it does not have."""
    return {metric: json_value(scores.table[metric][index]) for metric in TOUR_METRICS}


def _columns(costs: Sequence[Costs]) -> dict[str, list[str]]:
    """Return additional columns of the report's table, by heading."""
    return {
        "MB": [f"{cost.megabytes:.1f}" for cost in costs],
        "training, min": [
            "–" if cost.training_seconds is None else f"{cost.training_seconds / 60:.1f}" for cost in costs
        ],
        "sentences/s": [f"{cost.sentences_per_second:.0f}" for cost in costs],
    }
