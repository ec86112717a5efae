"""Figures from the result files of other commands and from training records."""

import math
from collections.abc import Container, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from regard.cli.figures import FigureInput, format_value, read_results
from regard.config.results import SCHEMA_VERSION, json_value
from regard.errors import DataError, UsageError
from regard.plot.figure import PlottedFigure

if TYPE_CHECKING:
    from regard.metrics.by_length import LengthScores
    from regard.reporting.training_curves import Curves, Points

    # The scores by system and metric, the labels of the buckets, and their numbers of sentences if known.
    _Lengths = tuple[dict[str, dict[str, LengthScores]], list[str], list[int] | None]

__all__ = ["plot_scores_by_length", "plot_statistics", "plot_training_curves"]

_BY_LENGTH = "regard analyze length --json` or `regard reproduce indurthi2019-figure2 --json"
_LABELS = {"bleu": "BLEU", "rep": "REP", "drop": "DROP", "sacrebleu": "BLEU"}


# The formats of the files. They may come from other machines or may have been edited, so all values are
# validated.

Finite = Annotated[float, Field(ge=-1e15, le=1e15)]
Version = Annotated[int, Field(ge=1, le=SCHEMA_VERSION)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000_000)]


class _Histogram(BaseModel):
    """A histogram."""

    edges: list[Finite] = Field(min_length=2, max_length=1_000_000)
    counts: list[Count]
    num_correct: list[Count] | None = None

    @model_validator(mode="after")
    def _fit(self) -> Self:
        rising = all(edge < other for edge, other in zip(self.edges, self.edges[1:], strict=False))
        correct = self.counts if self.num_correct is None else self.num_correct
        # The lengths may differ here; they are compared below.
        fewer = all(correct_count <= of for correct_count, of in zip(correct, self.counts, strict=False))
        if (
            len(self.counts) != len(self.edges) - 1
            or len(correct) != len(self.counts)
            or not (rising and fewer)
        ):
            raise ValueError("the edges and the counts of the bins are inconsistent")
        return self


class _AttentionStatistics(BaseModel):
    """The statistics of a model's attention. Other fields of the file are kept unchanged."""

    model_config = {"extra": "allow"}

    sentences: Count
    steps: Count
    accuracy: Finite
    entropy: Finite
    support: Finite
    coverage: Finite
    entropies: _Histogram
    coverages: _Histogram
    aer: Finite | None = None
    precision: Finite | None = None
    recall: Finite | None = None


class AttentionResults(BaseModel):
    """The format of `regard analyze attention --json`."""

    name: Literal["attention_analysis"] = Field(alias="schema")
    schema_version: Version
    models: dict[str, _AttentionStatistics] = Field(min_length=1)


class ScoreEntry(BaseModel):
    """A score and its 95 % confidence interval."""

    value: float
    interval: tuple[float, float] | None = None

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        for value in (self.value, *(self.interval or ())):
            # NaN, which is not equal to itself, is allowed.
            if value == value and abs(value) > 1e15:
                raise ValueError("the absolute value of a score is above 1e15")
        return self


class _Scores(BaseModel):
    signature: str = ""
    buckets: list[ScoreEntry | None]
    all: ScoreEntry


class _Bucket(BaseModel):
    low: Count
    high: Count | None = None
    sentences: Count


class _System(BaseModel):
    bleu: _Scores | None = None
    rep: _Scores | None = None
    drop: _Scores | None = None
    sacrebleu: _Scores | None = None


class LengthResults(BaseModel):
    """The format of `regard analyze length --json`."""

    name: Literal["length_analysis"] = Field(alias="schema")
    schema_version: Version
    buckets: list[_Bucket] = Field(min_length=1)
    systems: dict[str, _System] = Field(min_length=1)

    @model_validator(mode="after")
    def _fit(self) -> Self:
        for name, system in self.systems.items():
            scores = [score for _, score in system if score is not None]
            if not scores or any(len(score.buckets) != len(self.buckets) for score in scores):
                raise ValueError(f"{name} does not have one score per length bucket")
        return self


class _Cell(BaseModel):
    score: Annotated[float, Field(ge=-1e15, le=1e15)]
    interval: tuple[Finite, Finite] | None = None
    sentences: Count | None = None


class _Row(BaseModel):
    row: str
    metrics: dict[str, _Cell]


class PaperTableResults(BaseModel):
    """The format of `regard reproduce indurthi2019-figure2 --json`."""

    rows: list[_Row] = Field(min_length=1)


def plot_statistics(inputs: FigureInput) -> PlottedFigure:
    """Plot accuracy by entropy, and coverage (Shankar & Sarawagi 2019, Figures 3 and 4).

    Args:
        inputs: Files of `regard analyze attention --json`.

    Raises:
        UsageError: If there is no file.
        DataError: If a file has the wrong format, or two models have the same name.
    """
    from regard.metrics.attention import AttentionStatistics
    from regard.plot.analyses import coverage_chart, entropy_chart

    command = "regard analyze attention --json"
    if not inputs.files:
        raise UsageError(f"figure attention needs files written by `{command}` (--input)")
    records: dict[str, Any] = {}
    models: dict[str, AttentionStatistics] = {}
    for path in inputs.files:
        new_models = read_results(path, command, AttentionResults).models
        _check_new_names(new_models, models, path, "models")
        for name, model in new_models.items():
            record = model.model_dump(exclude={"lines"}, exclude_none=True)
            try:
                models[name] = AttentionStatistics.from_record(record)
            except DataError as error:
                raise DataError(f"{path}: {name}: {error}") from None
            records[name] = record
    keys = ("accuracy", "entropy", "support", "coverage")
    rows = [
        ["model", *keys],
        *(
            [name, *(format_value(getattr(statistics, key)) for key in keys)]
            for name, statistics in models.items()
        ),
    ]
    plotted = {"entropy": entropy_chart(models), "coverage": coverage_chart(models)}
    return PlottedFigure(plotted, rows, {"models": records})


def plot_scores_by_length(inputs: FigureInput) -> PlottedFigure:
    """Plot scores by source length (Indurthi et al. 2019, Figure 2).

    Args:
        inputs: Files of `regard analyze length --json` or of `regard reproduce indurthi2019-figure2`.

    Raises:
        UsageError: If there is no file.
        DataError: If a file has the wrong format or other length buckets than the file before it, or two
            systems have the same name.
    """
    from regard.plot.analyses import length_chart

    if not inputs.files:
        raise UsageError(f"figure length needs files written by `{_BY_LENGTH}` (--input)")
    systems, labels, counts = _read_lengths(inputs.files)
    common = [
        metric
        for metric in next(iter(systems.values()))
        if all(metric in system_scores for system_scores in systems.values())
    ]
    if not common:
        raise DataError("the files have no metric in common, so the systems cannot be compared")
    systems = {name: {metric: scores[metric] for metric in common} for name, scores in systems.items()}
    rows = [["system", "metric", *labels, "all"]]
    for name, scores in systems.items():
        for length_scores in scores.values():
            cells = ["" if bucket is None else f"{bucket.value:.2f}" for bucket in length_scores.buckets]
            total = length_scores.total.value
            rows.append([name, length_scores.name, *cells, "" if math.isnan(total) else f"{total:.2f}"])
    values = {
        "lengths": labels,
        "sentences": counts,
        "systems": {
            name: {metric: json_value(length_scores.buckets) for metric, length_scores in scores.items()}
            for name, scores in systems.items()
        },
    }
    return PlottedFigure({"length": length_chart(systems, labels, counts)}, rows, values)


def _read_lengths(files: list[Path]) -> "_Lengths":
    """Return the systems of all files, their length buckets, and the numbers of sentences if they are equal.

    Raises:
        DataError: If a file has the wrong format or other length buckets than the file before it, or two
            systems have the same name.
    """
    systems: dict[str, dict[str, LengthScores]] = {}
    groups: tuple[list[str], list[int] | None] | None = None
    for path in files:
        results = read_results(path, _BY_LENGTH, LengthResults, PaperTableResults)
        new_systems, labels, counts = (
            _from_paper_table(results) if isinstance(results, PaperTableResults) else _from_analysis(results)
        )
        if not new_systems:
            raise DataError(f"{path}: the file was not written by `{_BY_LENGTH}`")
        if groups is not None and groups[0] != labels:
            raise DataError(
                f"{path}: its length buckets are {', '.join(labels)}, but those of the other files are "
                f"{', '.join(groups[0])}: all files must have the same buckets"
            )
        _check_new_names(new_systems, systems, path, "systems")
        systems |= new_systems
        # The axis shows the numbers of sentences only if they are the same in all files.
        groups = (labels, counts if groups is None or groups[1] == counts else None)
    assert groups is not None
    return systems, *groups


def _check_new_names(own: Iterable[str], others: Container[str], path: Path, kind: str) -> None:
    """Check that the names in a file do not occur in the files before it."""
    for name in own:
        if name in others:
            raise DataError(
                f"{path}: the name {name!r} occurs twice. Run `regard analyze` with --names to give the "
                f"{kind} different names."
            )


def _from_analysis(found: LengthResults) -> "_Lengths":
    """Return the systems, the length buckets and their numbers of sentences from an analysis."""
    import numpy as np

    from regard.metrics.by_length import Bucket, LengthScores

    buckets = [Bucket(each.low, each.high, np.zeros(0, dtype=np.int64)) for each in found.buckets]
    counts = [each.sentences for each in found.buckets]
    systems = {
        name: {
            metric: LengthScores(
                _LABELS[metric],
                scores.signature,
                tuple(None if each is None else _score(each) for each in scores.buckets),
                _score(scores.all),
            )
            for metric, scores in system
            if scores is not None
        }
        for name, system in found.systems.items()
    }
    return systems, [bucket.label for bucket in buckets], counts


def _score(found: ScoreEntry) -> Any:
    from regard.metrics.by_length import SystemScore

    return SystemScore(found.value, found.interval)


def _from_paper_table(found: PaperTableResults) -> "_Lengths":
    """Return the same from the table of a paper whose columns are length buckets.

    Buckets without sentences are missing in the file.
    """
    from regard.metrics.by_length import LengthScores, SystemScore

    labels = list(
        # A column is named METRIC:BUCKET. The buckets keep their order in the file.
        dict.fromkeys(name.partition(":")[2] for row in found.rows for name in row.metrics if ":" in name)
    )
    systems: dict[str, dict[str, LengthScores]] = {}
    sentences: dict[str, int] = {}
    for row in found.rows:
        cells = {name.partition(":")[2]: cell for name, cell in row.metrics.items() if ":" in name}
        if not cells:
            continue
        buckets = tuple(
            SystemScore(cells[label].score, cells[label].interval) if label in cells else None
            for label in labels
        )
        sentences |= {label: cell.sentences for label, cell in cells.items() if cell.sentences is not None}
        total = SystemScore(math.nan)  # the file has no total score
        systems[row.row] = {"bleu": LengthScores("BLEU", "", buckets, total)}
    counts = [sentences[label] for label in labels] if sentences.keys() >= set(labels) else None
    return systems, labels, counts


def plot_training_curves(inputs: FigureInput) -> PlottedFigure:
    """Plot the training curves of one or more runs.

    Args:
        inputs: Model directories or their `record.jsonl` files.

    Raises:
        UsageError: If there is no file.
        DataError: If a directory has no training record.
    """
    from regard.plot.charts import training_chart
    from regard.reporting.training_curves import Points, read_curves
    from regard.training.metrics_logger import METRICS_FILE

    if not inputs.files:
        raise UsageError(f"figure training needs model directories or their {METRICS_FILE} files (--input)")
    # The file has the same name in all runs, so the label is the name of its directory.
    directories: list[Path] = [path.parent if path.name == METRICS_FILE else path for path in inputs.files]
    runs: dict[str, dict[str, Points]] = {}
    for name, directory in FigureInput(files=directories, names=inputs.names).named_files().items():
        curves = read_curves(directory)
        run_curves = {} if curves is None else _curves_by_kind(curves)
        if not run_curves:
            raise DataError(f"{directory / METRICS_FILE}: no record of training")
        runs[name] = run_curves
    rows = [["run", "curve", "points", "last step", "last", "best"]]
    for run, curves in runs.items():
        for kind, points in curves.items():
            values = [value for _, value in points]
            # A curve may contain NaN, for example if training diverged.
            finite_values = [value for value in values if not math.isnan(value)] or [math.nan]
            best = max(finite_values) if kind in ("bleu", "accuracy") else min(finite_values)
            rows.append(
                [
                    run,
                    kind,
                    str(len(points)),
                    f"{points[-1][0]:g}",
                    format_value(values[-1]),
                    format_value(best),
                ]
            )
    return PlottedFigure({"training": training_chart(runs)}, rows, {"runs": runs})


def _curves_by_kind(curves: "Curves") -> "dict[str, Points]":
    """Return the curves of a run by kind, as pairs of optimizer step and value; loss is log perplexity."""
    from regard.plot.charts import CURVES

    logs = {
        # A damaged record may contain 0, which has no logarithm. A perplexity is at least 1.
        name: tuple((step, math.log(max(value, 1.0))) for step, value in points)
        for name, points in (("training", curves.train), ("validation", curves.valid))
    }
    points_by_kind = logs | {name: points for name, points in curves.scores.items() if name in CURVES}
    return {name: points for name, points in points_by_kind.items() if points}
