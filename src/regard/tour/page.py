"""The scores and the HTML report of the tour, with all systems on the same sentences."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from regard import __version__
from regard.alignment import Corpus, WordAligner
from regard.alignment.registry import DEFAULT
from regard.data.corpus import CorpusConfig, read_pairs
from regard.data.files import file_digest, write_atomic
from regard.data.links import GoldLinks, Links, read_gold
from regard.data.reading import NotJson, read_json
from regard.errors import DataError
from regard.report.collect import Following, Linking, System, collect_model, link_system
from regard.report.curves import read_curves
from regard.report.page import Report, render
from regard.report.scores import Scores, score_links, score_systems
from regard.tour.stops import Stop
from regard.tour.walk import Costs, Tour

__all__ = ["METRICS", "finished", "show_all"]

METRICS = ("bleu", "rep", "drop", "aer")
FIGURES, PAGE = "tour.json", "tour.html"


def finished(tour: Tour, costs: Mapping[Stop, Costs]) -> dict[str, Any] | None:
    """Return the results of an existing report of the same models, or None if there is none."""
    try:
        found = read_json(tour.folder / FIGURES, dict[str, Any])
    except (DataError, NotJson):
        return None
    there = (tour.folder / PAGE).exists() and found.get("made of") == _origin(tour, costs)
    return found if there else None


def show_all(tour: Tour, costs: Mapping[Stop, Costs], following: Following) -> dict[str, Any]:
    """Translate the test text with every system, and write the scores and the HTML report.

    Args:
        tour: The tour.
        costs: The costs of each system to show, in order.
        following: The progress display.

    Returns:
        The results as plain data. `stops` lists for each system its name, label, description and reference,
        its scores (value, low, high; None if not available) and its costs. `signatures` are those of the
        metrics, and `made of` contains the checksums of the inputs.
    """
    test = tour.file("test", "de"), tour.file("test", "en")
    pairs = list(read_pairs(CorpusConfig(source=str(test[0]), target=str(test[1]))))
    gold = list(read_gold(tour.file("test", "talp")))
    linking = _linking(tour.aligner(DEFAULT))
    systems = [link_system(_system(tour, stop, pairs, following), linking) for stop in costs]
    scores = _with_aligners(
        tour, list(costs), systems, score_systems(systems, pairs, "none", gold=gold), gold
    )
    report = Report(
        title="A tour of translation",
        source=str(test[0]),
        reference=str(test[1]),
        pairs=pairs,
        systems=systems,
        scores=scores,
        gold=gold,
        notes=[
            *(f"{stop.label}: {stop.says} {stop.source}." for stop in costs),
            "AER is computed by forced decoding of the references, with links to the source word that has "
            "the highest attention weight. For the word- and phrase-based systems it is the AER of their "
            "word aligner.",
        ],
        columns=_columns(list(costs.values())),
    )
    write_atomic(tour.folder / PAGE, render(report).encode())
    figures = {
        "made of": _origin(tour, costs),
        "signatures": scores.signatures,
        "stops": [
            {**asdict(stop), "scores": _scores(scores, place), "costs": asdict(own)}
            for place, (stop, own) in enumerate(costs.items())
        ],
    }
    write_atomic(tour.folder / FIGURES, (json.dumps(figures, indent=2) + "\n").encode())
    return figures


def _origin(tour: Tour, costs: Mapping[Stop, Costs]) -> dict[str, str]:
    """Return the version and the checksums of the inputs of a report."""
    files = {stop.name: file_digest(tour.model(stop).with_suffix(".json")) for stop in costs}
    return {"regard": __version__, "test": file_digest(tour.file("test", "de")), **files}


def _system(tour: Tour, stop: Stop, pairs: Sequence[tuple[str, str]], following: Following) -> System:
    folder = tour.model(stop)
    return collect_model(
        stop.label, folder, tour.translator(stop), pairs, following, curves=read_curves(folder)
    )


def _linking(aligner: WordAligner) -> Linking:
    def align(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[Links]:
        return list(aligner.align(Corpus.from_tokens(pairs, aligner.words, allow_empty=True)))

    return align


def _with_aligners(
    tour: Tour, stops: Sequence[Stop], systems: Sequence[System], scores: Scores, gold: Sequence[GoldLinks]
) -> Scores:
    """Return the scores with the AER of the aligners of word- and phrase-based systems.

    These systems do not support forced decoding of the references.
    """
    words = [(one.sentence.source, one.sentence.reference) for one in systems[0].sentences]
    table = [
        score_links(_linking(tour.aligner(stop.aligner))(words), gold) if stop.aligner else own
        for stop, own in zip(stops, scores.table["aer"], strict=True)
    ]
    return replace(scores, table={**scores.table, "aer": table})


def _scores(scores: Scores, place: int) -> dict[str, dict[str, float] | None]:
    found = {metric: scores.table[metric][place] for metric in METRICS}
    return {metric: None if one is None else asdict(one.estimate) for metric, one in found.items()}


def _columns(costs: Sequence[Costs]) -> dict[str, list[str]]:
    """Return additional columns of the report's table, by heading."""
    return {
        "MB": [f"{one.megabytes:.1f}" for one in costs],
        "training, min": ["–" if one.seconds is None else f"{one.seconds / 60:.1f}" for one in costs],
        "FLOPs": ["–" if one.flops is None else f"{one.flops:.1e}" for one in costs],
        "sentences/s": [f"{one.speed:.0f}" for one in costs],
    }
