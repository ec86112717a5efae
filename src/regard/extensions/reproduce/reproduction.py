"""The reproduction of a table of a paper: text, training, scores."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from regard.errors import UsageError
from regard.extensions.reproduce.experiment_text import (
    DEFAULT_COLUMNS,
    ExperimentText,
    find_tables,
    write_text,
)
from regard.extensions.reproduce.job import run_jobs
from regard.extensions.reproduce.plan import PlanOptions, plan
from regard.extensions.reproduce.results import TableResults, collect_results
from regard.extensions.reproduce.scores import unavailable_reason
from regard.extensions.reproduce.tables import Table, paper_tables


def reproduce_table(
    table: str,
    data_dir: Path | str,
    *,
    target_language: str = "en",
    max_train_pairs: int = 0,
    columns: Sequence[int] = DEFAULT_COLUMNS,
    size: Literal["small", "paper"] = "small",
    seeds: Sequence[int] = (1,),
    rows: Sequence[str] = (),
    overrides: Sequence[str] = (),
    train: bool = True,
    output_dir: Path | str | None = None,
    device: str = "auto",
    on_message: Callable[[str], None] = lambda message: None,
) -> TableResults:
    """Train the models of a table in a paper, one after another, and score them. Finished ones are reused.

    Args:
        table: Name of the table: malaviya2018-table1, malaviya2018-table2, shankar2019-table1,
            shankar2019-table2, shankar2019-table3, indurthi2019-table1, indurthi2019-figure2 or
            sutskever2014.
        data_dir: Directory with parallel text: train*, val* or dev*, and test*, in two languages (.de, .en).
            For inflection tables: the common prefix of the file names (DIR/de_noun).
        target_language: Target language, given as the extension of its files.
        max_train_pairs: Number of training pairs, from the start of the text. 0 uses all.
        columns: For inflection tables: column numbers (from 1) of the lemma, the features (any number of
            columns) and the form. Tables of SIGMORPHON need 1,3,2.
        size: Size of the models: small (for two CPU cores) or paper (for a GPU).
        seeds: Random seeds.
        rows: Rows to train, as names of recipes. Default: all rows.
        overrides: Setting for all runs, as key=value, or for some rows, as row,row:key=value.
        train: Whether to train. Otherwise, the finished results are shown.
        output_dir: Output directory. Default: a directory in reproduce/, named after the paper, the
            data and the options.
        device: Device: auto (a GPU if available), cpu, cuda or cuda:N.
        on_message: Function that is called with the progress: one line per model.

    Raises:
        UsageError: if there is no such table, or an option does not apply to it.
    """
    tables = paper_tables()
    if table not in tables:
        raise UsageError(f"unknown table {table!r}: expected one of {', '.join(tables)}")
    paper, data = tables[table], Path(data_dir)
    _check_numbers(seeds, columns, paper)
    name = f"{_text_name(paper, data, target_language, max_train_pairs)}-{size}"
    directory = Path(output_dir or Path("reproduce") / paper.recipes / name)
    if paper.text_kind == "tables":
        text = find_tables(data, directory / "text", columns)
    else:
        is_raw = paper.text_kind == "raw"
        text = write_text(data, directory / "text", target_language, max_train_pairs, is_raw)
    metrics = _available_metrics(paper, text, on_message)
    seeds = list(dict.fromkeys(seeds))  # a repeated seed would train the same model twice
    options = PlanOptions(size, seeds, metrics, list(rows), list(overrides), device)
    jobs = plan(paper, directory, text, options)
    if train:
        run_jobs(jobs, text, on_message)
    return collect_results(paper, jobs, text, options)


def _check_numbers(seeds: Sequence[int], columns: Sequence[int], table: Table) -> None:
    """Raise UsageError if the seeds or the columns are wrong, or the table needs no columns."""
    if not seeds or min(seeds) < 0:
        raise UsageError(f"--seeds {','.join(map(str, seeds))}: expected numbers of 0 or more")
    if len(columns) < 2 or min(columns) < 1 or len(set(columns)) < len(columns):
        raise UsageError(f"--columns {columns}: expected at least two different numbers, counted from 1")
    if table.text_kind != "tables" and tuple(columns) != DEFAULT_COLUMNS:
        raise UsageError("--columns applies to inflection tables only; the others use parallel text")


def _text_name(table: Table, data_dir: Path, target_language: str, max_train_pairs: int) -> str:
    """Return a name of the text that differs between texts."""
    parts = [data_dir.resolve().name]
    if table.text_kind != "tables":
        # Default values are left out, which keeps the name short.
        parts += [] if target_language == "en" else [target_language]
        parts += [str(max_train_pairs)] if max_train_pairs else []
        parts += ["raw"] if table.text_kind == "raw" else []
    return "-".join(parts)


def _available_metrics(table: Table, text: ExperimentText, on_message: Callable[[str], None]) -> list[str]:
    """Return the metrics that can be computed, and report the others."""
    reasons = {metric.name: unavailable_reason(metric.name, text.target) for metric in table.metrics}
    for name, reason in reasons.items():
        if reason is not None:
            on_message(f"{name} is omitted: {reason}")
    return [name for name, reason in reasons.items() if reason is None]
