"""Render the HTML report: one offline, searchable file with the translations and maps of several systems.

The page contains its data as JSON and its attention maps as compressed bytes, which its script plots on
demand.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from regard.config.results import json_value
from regard.errors import UsageError
from regard.reporting.html import render_html
from regard.reporting.scores import LOWER_IS_BETTER, ScoreTable, sentence_statistics
from regard.reporting.systems import SentenceResult, SystemResults
from regard.reporting.word_maps import MapPacker
from regard.text.links import GoldLinks, Links

_DIGITS = 4
_STYLES = ("base.css", "report.css")
_SCRIPTS = (
    "shared.js",
    "map-colors.js",
    "map.js",
    "marks.js",
    "scroll.js",
    "report-data.js",
    "report-export.js",
    "report-charts.js",
    "report-sentence.js",
    "report-summary.js",
    "report.js",
)


@dataclass(frozen=True)
class PageCheck:
    """The errors that a detector finds in the translations of all systems, without a reference.

    Attributes:
        detector: Name of the detector.
        threshold: Probability from which a word is marked at first; the reader can change it.
        sentences: For each system, the check of each line, in the form of a sentence of
            `CoverageCheck.to_dict`. None for a line that was not translated.
        notes: The notes of sentences in words.
    """

    detector: str
    threshold: float
    sentences: Sequence[Sequence[Mapping[str, Any] | None]]
    notes: Mapping[Any, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reject a threshold that is no probability."""
        if not 0 <= self.threshold <= 1:
            raise UsageError(f"threshold={self.threshold}: expected a probability from 0 to 1")


class SystemsCheck(Protocol):
    """A check of the translations of all systems, as a report uses it."""

    @property
    def uses_companions(self) -> bool:
        """Whether the check uses a model that is trained on the training text of a model directory."""
        ...

    def load(
        self, companions: Any, num_threads: int
    ) -> Callable[[Sequence[SystemResults], Sequence[str]], PageCheck] | None:
        """Return the function that finds the errors of systems in the translations of source sentences.

        Args:
            companions: The `regard.api.systems.Companions` of the first model directory. None if there is
                none, or no part may be trained.
            num_threads: Number of threads. 0 uses all processors.
        """
        ...


@dataclass(frozen=True)
class Report:
    """The content of a report.

    Attributes:
        title: Title of the page.
        source: Name of the source text for display, such as its file.
        reference: Name of the reference text for display.
        sentence_pairs: The lines and their references.
        systems: The results of each system, all for the same lines.
        scores: The scores of the systems.
        gold: Gold links between each line and its reference.
        notes: Notes for the reader, one sentence each.
        columns: Additional columns of the table of scores: one cell per system, by column heading.
        check: Errors that a detector finds without a reference.
        date: Date of the report, as YYYY-MM-DD.
    """

    title: str
    source: str
    reference: str
    sentence_pairs: Sequence[tuple[str, str]]
    systems: Sequence[SystemResults]
    scores: ScoreTable
    gold: Sequence[GoldLinks] | None = None
    notes: Sequence[str] = ()
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    check: PageCheck | None = None
    date: str | None = None


def render(report: Report) -> str:
    """Return the HTML text of a report."""
    # `_sentence` fills the packer; its chunks are complete only after all sentences have been added.
    packer = MapPacker()
    check = report.check
    data = {
        "title": report.title,
        "date": report.date,
        "source": report.source,
        "reference": report.reference,
        "check": check and {"detector": check.detector, "threshold": check.threshold, "notes": check.notes},
        "notes": [*report.notes, *report.scores.missing_reasons],
        "systems": [
            {
                "name": system.name,
                "path": system.path,
                "bounded": system.has_fertilities,
                "card": [("location", system.path, "")] if system.card is None else system.card.rows(),
                "perplexity": system.perplexity,
                "attends": any(result.own_map or result.forced_map for result in system.sentences),
                "curves": system.curves,
            }
            for system in report.systems
        ],
        **_scores(report.scores),
        "columns": [[head, list(cells)] for head, cells in report.columns.items()],
        "attention": report.scores.attention,
        "figures": sentence_statistics(report.systems, report.scores, check and check.sentences),
        "sentences": [_sentence(report, row, packer) for row in range(len(report.sentence_pairs))],
    }
    rounded = _rounded(json_value(data))
    return render_html("report.html.j2", report.title, rounded, _STYLES, _SCRIPTS, chunks=packer.chunks())


def _rounded(value: Any) -> Any:
    """Return data with all numbers rounded to `_DIGITS` decimals."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, _DIGITS) if isinstance(value, float) else value


def _scores(scores: ScoreTable) -> dict[str, Any]:
    return {
        "metrics": [
            {
                "key": key,
                "name": scores.names[key],
                "lower": key in LOWER_IS_BETTER,
                "signature": scores.signatures.get(key, ""),
                "systems": [
                    score
                    and {
                        "value": score.value,
                        "interval": score.interval or (None, None),
                        "difference": score.difference and score.difference.value,
                        "p": score.p_value,
                    }
                    for score in table
                ],
            }
            for key, table in scores.table.items()
        ],
        "buckets": [[bucket.label, len(bucket.sentence_ids)] for bucket in scores.buckets],
        "lengths": [
            {
                "key": key,
                "name": length_scores[0].name,
                "lower": key in LOWER_IS_BETTER,
                "systems": [
                    [
                        score and [score.value, *(score.interval or (None, None))]
                        for score in system_scores.buckets
                    ]
                    for system_scores in length_scores
                ],
            }
            for key, length_scores in scores.by_length.items()
        ],
    }


def _sentence(report: Report, row: int, packer: MapPacker) -> dict[str, Any]:
    first = report.systems[0].sentences[row].sentence
    systems = [_translation(system.sentences[row], first, packer) for system in report.systems]
    if report.check is not None:
        for translation, checks in zip(systems, report.check.sentences, strict=True):
            if checks[row] is not None:
                translation["check"] = checks[row]
    return {
        "line": row + 1,
        "source_words": list(first.source),
        "reference_words": list(first.reference),
        "gold": None if report.gold is None else _links(report.gold[row].possible),
        "systems": systems,
    }


def _translation(shown: SentenceResult, first: Any, packer: MapPacker) -> dict[str, Any]:
    """Return a translation for the page; empty fields and words equal to the first system's are omitted."""
    sentence = shown.sentence
    data: dict[str, Any] = {"target_words": list(sentence.output)}
    # Systems with different tokenizers may split the same line into different words.
    if sentence.source != first.source:
        data["source_words"] = list(sentence.source)
    if sentence.reference != first.reference:
        data["reference_words"] = list(sentence.reference)
    if sentence.repeated:
        data["repeated"] = sorted(sentence.repeated)
        data["again"] = [[ngram, times, 0] for ngram, times in sentence.ngrams.items()]
        data["again"] += [[word, times, 1] for word, times in sentence.doubled_counts.items()]
    if sentence.links is not None:
        with_reference, with_output = sentence.links
        data |= {
            "dropped": list(sentence.dropped),
            "links": _links(with_output),
            "wanted": _links(with_reference),
        }
    received = sentence.received
    if received is not None:
        data["received_attention"] = [round(x, 3) for x in received.attention]
        data["excessive"] = sorted(received.excessive)
        if received.sink is not None:
            data["sink"] = round(received.sink, 3)
        if received.fertility is not None:
            data["fertility"] = received.fertility
    if shown.error is not None:
        data["error"] = shown.error
    for key, word_map, rows in (
        ("own", shown.own_map, sentence.output),
        ("forced", shown.forced_map, sentence.reference),
    ):
        if word_map is not None:
            data[key] = {"at": list(packer.add(word_map)), "shape": list(word_map.weights.shape)}
            if word_map.rows != rows:
                data[key]["rows"] = list(word_map.rows)
            if word_map.columns != sentence.source:
                data[key]["columns"] = list(word_map.columns)
    return data


def _links(links: Links) -> list[list[int]]:
    """Return links as (target, source) pairs, in the order of a map's row and column."""
    return [[t, s] for s, t in sorted(links)]
