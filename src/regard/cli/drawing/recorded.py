"""Figures from files that other commands left: analyses, tables of papers, records of training."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.drawing.figure import Figure, Given, digits, read_written
from regard.cli.drawing.written import Attention, ByLength, PaperTable, Score
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.metrics.by_length import LengthScores

__all__ = ["draw_attention", "draw_by_length", "draw_training"]

_BY_LENGTH = "regard analyse --by-length --json` or `regard reproduce indurthi2019-figure2 --json"
_LABELS = {"bleu": "BLEU", "rep": "REP", "drop": "DROP", "sacrebleu": "BLEU"}


def draw_attention(given: Given) -> Figure:
    """Shankar & Sarawagi (2019), Figures 3 and 4.

    Args:
        given: Files of `regard analyse --attention --json`.

    Raises:
        UsageError: if there is none.
        DataError: if a file holds something else, or two models of one name.
    """
    from regard.metrics.attention import AttentionFigures
    from regard.report.attention import svg_coverage, svg_entropy

    what = "regard analyse --attention --json"
    if not given.files:
        raise UsageError(f"figure attention is drawn --from what `{what}` wrote")
    records: dict[str, Any] = {}
    models: dict[str, AttentionFigures] = {}
    for path in given.files:
        for name, own in read_written(path, what, Attention).models.items():
            if name in models:
                raise DataError(f"{path}: {name!r} comes twice; `regard analyse --names` tells models apart")
            record = own.model_dump(exclude={"lines"}, exclude_none=True)
            try:
                models[name] = AttentionFigures.from_record(record)
            except DataError as error:
                raise DataError(f"{path}: {name}: {error}") from None
            records[name] = record
    single = ("accuracy", "entropy", "support", "coverage")
    rows = [
        ["model", *single],
        *([name, *(digits(getattr(one, key)) for key in single)] for name, one in models.items()),
    ]
    pictures = {"entropy.svg": svg_entropy(models), "coverage.svg": svg_coverage(models)}
    return Figure(pictures, rows, {"models": records})


def draw_by_length(given: Given) -> Figure:
    """Indurthi et al. (2019), Figure 2.

    Args:
        given: Files of `regard analyse --by-length --json`, or of `regard reproduce indurthi2019-figure2`.

    Raises:
        UsageError: if there is none.
        DataError: if a file holds something else, two systems of one name, or other groups of lengths than
            the file before.
    """
    from regard.report.by_length import svg_groups

    if not given.files:
        raise UsageError(f"figure by-length is drawn --from what `{_BY_LENGTH}` wrote")
    systems: dict[str, dict[str, LengthScores]] = {}
    groups: tuple[list[str], list[int] | None] | None = None
    for path in given.files:
        found = read_written(path, _BY_LENGTH, ByLength, PaperTable)
        own, labels, counts = _reproduced(found) if isinstance(found, PaperTable) else _analysed(found)
        if not own:
            raise DataError(f"{path}: not what `{_BY_LENGTH}` writes")
        if groups is not None and groups[0] != labels:
            raise DataError(f"{path}: its lengths are {', '.join(labels)}; before: {', '.join(groups[0])}")
        for name, scores in own.items():
            if name in systems:
                raise DataError(f"{path}: {name!r} comes twice; `regard analyse --names` tells systems apart")
            systems[name] = scores
        # Other texts have other numbers of sentences, which one axis cannot name.
        same = groups is None or groups[1] == counts
        groups = (labels, counts if same else None)
    assert groups is not None
    common = [
        metric for metric in next(iter(systems.values())) if all(metric in one for one in systems.values())
    ]
    if not common:
        raise DataError("the files have no metric in common")
    systems = {name: {metric: scores[metric] for metric in common} for name, scores in systems.items()}
    labels, counts = groups
    rows = [["system", "metric", *labels, "all"]]
    for name, scores in systems.items():
        for one in scores.values():
            cells = ["" if bucket is None else f"{bucket.value:.2f}" for bucket in one.buckets]
            total = one.total.value
            rows.append([name, one.name, *cells, "" if math.isnan(total) else f"{total:.2f}"])
    numbers = {
        "lengths": labels,
        "sentences": counts,
        "systems": {
            name: {metric: one.record()["buckets"] for metric, one in scores.items()}
            for name, scores in systems.items()
        },
    }
    return Figure({"by-length.svg": svg_groups(systems, labels, counts)}, rows, numbers)


def _analysed(
    found: ByLength,
) -> "tuple[dict[str, dict[str, LengthScores]], list[str], list[int] | None]":
    """The systems, the lengths and the sentences of an analysis."""
    import numpy as np

    from regard.metrics.by_length import Bucket, LengthScores

    buckets = [Bucket(each.low, each.high, np.zeros(0, dtype=np.int64)) for each in found.buckets]
    counts = [each.sentences for each in found.buckets]
    systems = {
        name: {
            metric: LengthScores(
                _LABELS[metric],
                own.signature,
                tuple(None if each is None else _score(each) for each in own.buckets),
                _score(own.all),
            )
            for metric, own in system
            if own is not None
        }
        for name, system in found.systems.items()
    }
    return systems, [bucket.label for bucket in buckets], counts


def _score(found: Score) -> Any:
    from regard.metrics.by_length import BucketScore

    return BucketScore(found.value, found.interval)


def _reproduced(
    found: PaperTable,
) -> "tuple[dict[str, dict[str, LengthScores]], list[str], list[int] | None]":
    """The same of a paper's table whose columns are lengths; those the text has not are not in it."""
    from regard.metrics.by_length import BucketScore, LengthScores

    labels = list(
        dict.fromkeys(name.partition(":")[2] for row in found.rows for name in row.metrics if ":" in name)
    )
    systems: dict[str, dict[str, LengthScores]] = {}
    sentences: dict[str, int] = {}
    for row in found.rows:
        cells = {name.partition(":")[2]: cell for name, cell in row.metrics.items() if ":" in name}
        if not cells:
            continue
        buckets = tuple(
            BucketScore(cells[label].score, cells[label].interval) if label in cells else None
            for label in labels
        )
        sentences |= {label: cell.sentences for label, cell in cells.items() if cell.sentences is not None}
        total = BucketScore(math.nan)  # not in the file
        systems[row.row] = {"bleu": LengthScores("BLEU", "", buckets, total)}
    counts = [sentences[label] for label in labels] if sentences.keys() >= set(labels) else None
    return systems, labels, counts


def draw_training(given: Given) -> Figure:
    """Curves of training, runs side by side.

    Args:
        given: Model folders, or the `record.jsonl` in them.

    Raises:
        UsageError: if there is none.
        DataError: if one has no record.
    """
    from regard.report.curves import read_curves
    from regard.report.training import Points, drawn_curves, svg_training
    from regard.training.record import RECORD_FILE

    if not given.files:
        raise UsageError(f"figure training is drawn --from model folders, or the {RECORD_FILE} in them")
    folders: list[Path] = [path.parent if path.name == RECORD_FILE else path for path in given.files]
    runs: dict[str, dict[str, Points]] = {}
    for name, folder in Given(folders, names=given.names).systems().items():
        curves = read_curves(folder)
        found = {} if curves is None else drawn_curves(curves)
        if not found:
            raise DataError(f"{folder / RECORD_FILE}: no record of training")
        runs[name] = found
    rows = [["run", "curve", "points", "last update", "last", "best"]]
    for run, curves in runs.items():
        for kind, points in curves.items():
            values = [value for _, value in points]
            numbers = [value for value in values if not math.isnan(value)] or [math.nan]
            best = max(numbers) if kind in ("bleu", "accuracy") else min(numbers)
            rows.append([run, kind, str(len(points)), f"{points[-1][0]:g}", digits(values[-1]), digits(best)])
    return Figure({"training.svg": svg_training(runs)}, rows, {"runs": runs})
