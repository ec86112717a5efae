"""`regard reproduce`: train the models of a table in a paper and compare the scores."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from regard.cli.command import expand_groups
from regard.cli.options import (
    ColumnsOption,
    DeviceOption,
    JsonOption,
    OutputOption,
    RunDirOption,
    SettingsOption,
    column_numbers,
)
from regard.cli.output import open_output, print_message, write_json
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.extensions.reproduce.experiment_text import ExperimentText
    from regard.extensions.reproduce.plan import PlanOptions, TableJob
    from regard.extensions.reproduce.results import RowResult
    from regard.extensions.reproduce.tables import Table

__all__ = ["reproduce"]


@dataclass(frozen=True)
class ExperimentData:
    """The text of the experiment."""

    panel: ClassVar[str] = "Text"

    data_dir: Annotated[
        Path,
        typer.Option(
            help="Directory with parallel text: train*, val* or dev*, and test*, in two languages (.de, "
            ".en). For inflection tables: the common prefix of the file names (DIR/de_noun).",
            show_default=False,
        ),
    ]
    target_language: Annotated[
        str, typer.Option(help="Target language, given as the extension of its files.")
    ] = "en"
    max_train_pairs: Annotated[
        int,
        typer.Option(
            help="Number of training pairs, from the start of the text. 0 uses all.",
            min=0,
            max=1_000_000_000,
        ),
    ] = 0
    columns: ColumnsOption = "1,2,3"

    def name(self, table: "Table") -> str:
        """Return a name of the text that differs between texts."""
        if table.text_kind == "tables":
            return self.data_dir.resolve().name
        parts = [self.data_dir.resolve().name]
        # Default values are left out, which keeps the name short.
        parts += [] if self.target_language == "en" else [self.target_language]
        parts += [str(self.max_train_pairs)] if self.max_train_pairs else []
        parts += ["raw"] if table.text_kind == "raw" else []
        return "-".join(parts)

    def write(self, table: "Table", directory: Path) -> "ExperimentText":
        """Find the inflection tables, or write the text in the form that the experiment needs.

        Raises:
            UsageError: If an option does not apply to the table.
            DataError: If a file is missing or malformed.
        """
        from regard.extensions.reproduce.experiment_text import find_tables, write_text

        columns = column_numbers(self.columns)
        if table.text_kind == "tables":
            return find_tables(self.data_dir, directory, columns)
        raw = table.text_kind == "raw"
        return write_text(self.data_dir, directory, self.target_language, self.max_train_pairs, raw)


@dataclass(frozen=True)
class ExperimentRuns:
    """The models that are trained."""

    panel: ClassVar[str] = "Runs"

    size: Annotated[
        Literal["small", "paper"],
        typer.Option(help="Size of the models: small (for two CPU cores) or paper (for a GPU)."),
    ] = "small"
    seeds: Annotated[str, typer.Option(help="Random seeds, separated by commas.")] = "1"
    rows: Annotated[
        str | None,
        typer.Option(
            help="Rows to train, as names of recipes separated by commas. Default: all rows.",
            show_default=False,
        ),
    ] = None
    settings: SettingsOption = None
    no_train: Annotated[bool, typer.Option("--no-train", help="Do not train; show the finished results.")] = (
        False
    )
    output_dir: RunDirOption = None
    device: DeviceOption = "auto"


@expand_groups
def reproduce(
    table: Annotated[
        str,
        typer.Argument(
            help="Name of the table: malaviya2018-table1, malaviya2018-table2, shankar2019-table1, "
            "shankar2019-table2, shankar2019-table3, indurthi2019-table1, indurthi2019-figure2 or "
            "sutskever2014.",
            show_default=False,
        ),
    ],
    data: ExperimentData,
    runs: ExperimentRuns,
    output: OutputOption = None,
    json_file: JsonOption = None,
) -> None:
    """Train the models of a table in a paper, score them, and print the scores next to those of the paper.

    Models are trained one after another, and finished models are reused. Run the same command again to resume
    after an interruption. The output is a table in Markdown. A setting of --set applies to all runs,
    or to the rows before a colon, as in row,row:key=value. By default, all files are in a directory in
    reproduce/, named after the paper, the data and the options.

    Example: regard reproduce malaviya2018-table1 --data-dir multi30k --size small
    """
    # Wrong options are reported before any file is written.
    chosen = _table(table)
    seeds = _seeds(runs.seeds)
    # The result is not needed yet: the call only checks the option.
    column_numbers(data.columns)
    if chosen.text_kind != "tables" and data.columns != "1,2,3":
        raise UsageError(f"--columns applies to inflection tables only; {table} uses parallel text")

    from regard.extensions.reproduce.plan import plan
    from regard.extensions.reproduce.results import collect_results

    directory = runs.output_dir or Path("reproduce") / chosen.recipes / f"{data.name(chosen)}-{runs.size}"
    text = data.write(chosen, directory / "text")
    options = _plan_options(chosen, text, runs, seeds)
    planned = plan(chosen, directory, text, options)
    if not runs.no_train:
        _train(planned, text)
    results = collect_results(chosen, planned, text, options)
    with open_output(output) as file:
        if output is None and sys.stdout.isatty():
            _show(chosen, results.results)
        else:
            file.write(results.to_markdown())
    write_json(json_file, results)


def _plan_options(
    table: "Table", text: "ExperimentText", runs: ExperimentRuns, seeds: list[int]
) -> "PlanOptions":
    """Return the options of a table's runs, with the metrics that can be computed, and report the others."""
    from regard.extensions.reproduce.plan import PlanOptions
    from regard.extensions.reproduce.scores import unavailable_reason

    missing = {metric.name: unavailable_reason(metric.name, text.target) for metric in table.metrics}
    for name, why in missing.items():
        if why is not None:
            print_message(f"{name} is omitted: {why}")
    return PlanOptions(
        runs.size,
        seeds,
        metrics=[name for name, why in missing.items() if why is None],
        rows=[] if runs.rows is None else runs.rows.split(","),
        overrides=runs.settings or [],
        device=runs.device,
    )


def _train(planned: "list[TableJob]", text: "ExperimentText") -> None:
    from regard.extensions.reproduce.runner import run_jobs

    stopped_by = run_jobs(planned, text, print_message)
    if stopped_by is not None:
        print_message("The state is saved. Run the same command again to resume.")
        raise typer.Exit(128 + stopped_by)


def _table(name: str) -> "Table":
    from regard.extensions.reproduce.tables import PAPER_TABLES

    if name not in PAPER_TABLES:
        raise UsageError(f"unknown table {name!r}: expected one of {', '.join(PAPER_TABLES)}")
    return PAPER_TABLES[name]


def _seeds(text: str) -> list[int]:
    try:
        seeds = [int(field) for field in text.split(",")]
    except ValueError:
        seeds = []
    if not seeds or min(seeds) < 0:
        raise UsageError(f"--seeds {text!r}: expected numbers of 0 or more, separated by commas")
    # A repeated seed would train the same model twice.
    return list(dict.fromkeys(seeds))


def _show(table: "Table", results: "list[RowResult]") -> None:
    """Print the table to a terminal. A metric has a column for the paper only if the paper reports it."""
    from rich.console import Console
    from rich.table import Table as Grid

    from regard.extensions.reproduce.results import sentence_counts

    published = {name for row in results for name, cell in row.cells.items() if cell.published is not None}
    grid = Grid(box=None, pad_edge=False, title=table.title, title_justify="left")
    grid.add_column("", no_wrap=True)
    for metric in table.metrics:
        grid.add_column(metric.label, justify="right", no_wrap=True)
        if metric.name in published:
            grid.add_column("paper", justify="right", style="dim", no_wrap=True)
    for result in results:
        cells = [result.row.label]
        for metric in table.metrics:
            cell = result.cells.get(metric.name)
            mark = "*" if cell and cell.difference is not None and cell.difference.p_value < 0.05 else " "
            # The space has the width of the mark, which keeps the digits of a column aligned.
            cells.append("- " if cell is None else f"{cell.estimate.value:.2f}{mark}")
            if metric.name in published:
                cells.append("" if cell is None or cell.published is None else f"{cell.published:.2f}")
        grid.add_row(*cells)
    if counts := sentence_counts(table, results):
        cells = ["sentences"]
        for metric, count in zip(table.metrics, counts, strict=True):
            cells += [f"{count} ", *([""] if metric.name in published else [])]
        grid.add_row(*cells, style="dim")
    console = Console(highlight=False)
    # Let a row that is wider than the terminal wrap, because truncated numbers would be misleading.
    console.width = max(console.width, console.measure(grid).maximum)
    console.print(grid, soft_wrap=True)
    note = f"* differs from {table.rows[0].label}, p < 0.05. For intervals, use --output or --json."
    console.print(note, style="dim", soft_wrap=True)
