"""The results of a table over all seeds, compared with the paper, as data and as Markdown."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from statistics import mean
from typing import Any

import numpy as np

from regard.config.results import Result
from regard.extensions.reproduce.experiment_text import ExperimentText
from regard.extensions.reproduce.plan import PlanOptions, RowJob, TableJob
from regard.extensions.reproduce.scores import METRIC_FUNCTIONS
from regard.extensions.reproduce.tables import Row, Table, TableMetric
from regard.metrics.base import Estimate, PairedComparison, bootstrap, paired_bootstrap
from regard.text.array_files import load_arrays


@dataclass(frozen=True)
class MetricResult:
    """The score of a row by one metric.

    Attributes:
        estimate: The mean over seeds and its 95 % confidence interval by bootstrap over sentences and seeds.
        seeds: The score of each seed.
        difference: The paired difference from the first row of the table and its p-value. None for the first
            row itself, if the two rows have different seeds, or for a single sentence.
        published: The number in the paper, if any.
        num_sentences: The number of scored sentences.
    """

    estimate: Estimate
    seeds: dict[int, float]
    difference: PairedComparison | None
    published: float | None
    num_sentences: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """The confidence interval, or None for a single sentence."""
        return (self.estimate.low, self.estimate.high) if self.num_sentences > 1 else None


@dataclass(frozen=True)
class RowResult:
    """A row with the results of its finished seeds.

    Attributes:
        row: The row.
        cells: The scores by metric; empty if no seed is finished.
        runs: The scores and statistics of each finished seed.
    """

    row: Row
    cells: dict[str, MetricResult]
    runs: list[dict[str, Any]]


@dataclass(frozen=True)
class TableResults(Result):
    """The results of a table on one text.

    Attributes:
        table: The table.
        text: The text of the experiment.
        options: The options of the reproduction.
        results: The results of the selected rows.
    """

    table: Table
    text: ExperimentText
    options: PlanOptions
    results: list[RowResult]
    schema = "reproduction"

    def to_data(self) -> dict[str, Any]:
        """Return the scores, the paper's numbers, and the statistics of the runs as JSON values."""
        text = {key: value for key, value in asdict(self.text).items() if key not in ("directory", "corpora")}
        return {
            "table": self.table.name,
            "title": self.table.title,
            "size": self.options.size,
            "settings": list(self.options.overrides),
            "data": text,
            "rows": [
                {
                    "row": result.row.label,
                    "recipe": result.row.recipe,
                    "metrics": {name: _cell_data(cell) for name, cell in result.cells.items()},
                    "runs": [{k: v for k, v in run.items() if k != "tuned"} for run in result.runs],
                }
                for result in self.results
            ],
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return the score of each row by each metric."""
        return [
            {"row": result.row.label, **{name: cell.estimate.value for name, cell in result.cells.items()}}
            for result in self.results
        ]

    def to_markdown(self) -> str:
        """Return scores with the paper's numbers, differences, and training costs as Markdown."""
        table, results, text = self.table, self.results, self.text
        where = text.pair if text.pair == text.name else f"{text.name} {text.pair}"
        run = f", `{self.options.size}`" if table.has_sizes else ""
        sizes = ", ".join(f"{count:,} {split}" for split, count in text.num_pairs.items())
        lines = [f"### {table.title}, {where}{run}", "", f"Pairs: {sizes}. Text: {text.preprocessing}.", ""]
        if self.options.overrides:
            changed = ", ".join(f"`{override}`" for override in self.options.overrides)
            lines += [f"Options changed from the recipes: {changed}.", ""]
        lines += _score_table(table, results, text.pair)
        # With one seed, the bootstrap resamples sentences alone.
        several = any(len(cell.seeds) > 1 for result in results for cell in result.cells.values())
        units = "sentences and seeds" if several else "sentences"
        lines += ["", f"* differs from {table.rows[0].label}, p < 0.05 (paired bootstrap over {units}).", ""]
        if compared := [row for row in results if any(cell.difference for cell in row.cells.values())]:
            heads = [f"difference from {table.rows[0].label}"]
            for metric in table.metrics:
                heads += [metric.label, "95 %", "p"]
            rows = [_metric_cells(table, result, _difference_cells) for result in compared]
            lines += [*_table(heads, rows), ""]
        heads = ["", "seeds", *(f"{metric.label} by seed" for metric in table.metrics)]
        heads += ["alpha, beta"] if any(row.tune_penalties for row in table.rows) else []
        heads += ["val. perplexity", "steps", "training, min", "search, s"]
        lines += _table(heads, [_details(table, result) for result in results if result.runs])
        return "\n".join(lines) + "\n"


def collect_results(
    table: Table,
    jobs: Sequence[TableJob],
    text: ExperimentText,
    options: PlanOptions,
) -> TableResults:
    """Collect the results of the finished rows; the language pair of the text selects the paper's numbers."""
    finished: dict[str, list[RowJob]] = {}
    for row in (row for job in jobs for row in job.rows if row.read_scores() is not None):
        finished.setdefault(row.recipe, []).append(row)
    # The first row is the baseline of all differences.
    first = finished.get(table.rows[0].recipe, [])
    pair = table.published_pair or text.pair
    planned = {row.recipe for job in jobs for row in job.rows}
    results = []
    for row in table.rows:
        # The user did not select this row.
        if row.recipe not in planned:
            continue
        row_jobs = finished.get(row.recipe, [])
        runs = [scores for scores in (job.read_scores() for job in row_jobs) if scores is not None]
        cells: dict[str, MetricResult] = {}
        for metric in table.metrics:
            counts = _counts(row_jobs, metric)
            if not any(map(len, counts.values())):
                continue  # not scored, or the text has no sentences in this length bin
            base = {} if row is table.rows[0] else _counts(first, metric)
            published = row.published.get(pair, {}).get(metric.name)
            cells[metric.name] = _cell(metric, counts, base, published)
        results.append(RowResult(row, cells, runs))
    return TableResults(table, text, options, results)


def _counts(rows: Sequence[RowJob], metric: TableMetric) -> dict[int, np.ndarray]:
    """Return the sentence statistics of each seed that has the metric."""
    counts_by_seed: dict[int, np.ndarray] = {}
    for row in rows:
        scores, counts = row.read_scores(), load_arrays(row.path("safetensors"))
        if scores is not None and metric.name in counts:
            counts_by_seed[scores["seed"]] = counts[metric.name]
    return counts_by_seed


def _cell(
    metric: TableMetric,
    counts: dict[int, np.ndarray],
    base: dict[int, np.ndarray],
    published: float | None,
) -> MetricResult:
    aggregate = METRIC_FUNCTIONS[metric.name].aggregate
    rows = np.stack(list(counts.values()))
    estimate = bootstrap(rows, aggregate)
    # Corpus scores are functions of summed counts, not means of the scores of sentences.
    scores = {seed: float(aggregate(array.sum(axis=0, keepdims=True))[0]) for seed, array in counts.items()}
    difference = None
    # A paired test needs the same sentences and seeds in both rows.
    if base.keys() == counts.keys() and rows.shape[1] > 1:
        difference = paired_bootstrap(np.stack([base[seed] for seed in counts]), rows, aggregate)
    return MetricResult(estimate, scores, difference, published, rows.shape[1])


def _cell_data(cell: MetricResult) -> dict[str, Any]:
    data: dict[str, Any] = {
        "score": cell.estimate.value,
        "sentences": cell.num_sentences,
        "interval": None if cell.interval is None else list(cell.interval),
        "seeds": cell.seeds,
        "paper": cell.published,
    }
    if cell.difference is not None:
        difference = cell.difference.difference
        data |= {
            "difference": difference.value,
            "difference_interval": [difference.low, difference.high],
            "p_value": cell.difference.p_value,
        }
    return data


def _score_table(table: Table, results: Sequence[RowResult], pair: str) -> list[str]:
    heads = [""]
    for metric in table.metrics:
        arrow = "↑" if metric.higher_is_better else "↓"
        heads += [f"{metric.label} {arrow}", "95 %", f"paper, {table.published_pair or pair}"]
    rows = [_metric_cells(table, result, _score_cells) for result in results]
    sizes = {name: cell.num_sentences for result in results for name, cell in result.cells.items()}
    # Metrics of length bins use only a part of the sentences, which the table must state.
    if len(set(sizes.values())) > 1:
        counts = (f"{sizes.get(metric.name, 0):,}" for metric in table.metrics)
        rows.append(["sentences", *chain.from_iterable((count, "", "") for count in counts)])
    # Columns of the paper are dropped if it has no number for this language pair.
    columns = [
        n for n, head in enumerate(heads) if not head.startswith("paper") or any(row[n] for row in rows)
    ]
    return _table([heads[n] for n in columns], [[row[n] for n in columns] for row in rows])


def _metric_cells(
    table: Table, result: RowResult, cells: Callable[[MetricResult], Sequence[str]]
) -> list[str]:
    """Return the label of a row and three cells for each metric, which are empty without a score."""
    scores = [result.cells.get(metric.name) for metric in table.metrics]
    texts = (("", "", "") if score is None else cells(score) for score in scores)
    return [result.row.label, *chain.from_iterable(texts)]


def _score_cells(cell: MetricResult) -> tuple[str, str, str]:
    mark = " *" if cell.difference is not None and cell.difference.p_value < 0.05 else ""
    interval = "" if cell.interval is None else f"{cell.interval[0]:.2f} to {cell.interval[1]:.2f}"
    published = "" if cell.published is None else f"{cell.published:.2f}"
    return f"{cell.estimate.value:.2f}{mark}", interval, published


def _difference_cells(cell: MetricResult) -> tuple[str, str, str]:
    """Return the difference from the first row, with paired confidence interval and p-value."""
    if cell.difference is None:
        return "", "", ""
    difference = cell.difference.difference
    interval = f"{difference.low:+.2f} to {difference.high:+.2f}"
    return f"{difference.value:+.2f}", interval, f"{cell.difference.p_value:.3f}"


def _details(table: Table, result: RowResult) -> list[str]:
    runs = result.runs
    cells = [result.row.label, ", ".join(str(run["seed"]) for run in runs)]
    for metric in table.metrics:
        cell = result.cells.get(metric.name)
        cells.append("" if cell is None else " / ".join(f"{score:.2f}" for score in cell.seeds.values()))
    if any(row.tune_penalties for row in table.rows):
        cells.append(" / ".join(f"{run['length_penalty']:g}, {run['coverage_penalty']:g}" for run in runs))
    cells.append(" / ".join(f"{run['validation_perplexity']:.2f}" for run in runs))
    # Seeds may stop after the same number of steps, which then appears only once.
    cells.append(" / ".join(dict.fromkeys(f"{run['steps']:,}" for run in runs)))
    cells.append(f"{mean(run['training_seconds'] for run in runs) / 60:.1f}")
    cells.append(f"{mean(run['search_seconds'] for run in runs):.0f}")
    return cells


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [" | ".join(heads), " | ".join("---" for _ in heads), *(" | ".join(row) for row in rows)]
    return [f"| {line} |" for line in lines]
