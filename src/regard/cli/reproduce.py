"""`regard reproduce`: train the models of a table in a paper and compare the scores."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.column_option import column_numbers
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.reproduce.results import RowResult
    from regard.reproduce.tables import Table

__all__ = ["reproduce"]


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
    data_dir: Annotated[
        Path,
        typer.Option(
            help="Directory with parallel text: train*, val* or dev*, and test*, in two languages (.de, "
            ".en). For inflection tables: the common prefix of the file names (DIR/de_noun).",
            show_default=False,
        ),
    ],
    size: Annotated[
        str,
        typer.Option(help="Size of the models: small (for two CPU cores) or paper (for a GPU)."),
    ] = "small",
    seeds: Annotated[str, typer.Option(help="Random seeds, separated by commas.")] = "1",
    rows: Annotated[
        str | None,
        typer.Option(
            help="Rows to train, as names of recipes separated by commas. Default: all rows.",
            show_default=False,
        ),
    ] = None,
    num_jobs: Annotated[
        int, typer.Option(help="Number of models that are trained in parallel.", min=1, max=1_024)
    ] = 1,
    target_language: Annotated[
        str, typer.Option(help="Target language, given as the extension of its files.")
    ] = "en",
    max_train_pairs: Annotated[
        int,
        typer.Option(
            help="Number of training pairs, from the start of the text. 0 uses all.",
            min=0,
            max=1_000_000_000,
        ),
    ] = 0,
    columns: Annotated[
        str,
        typer.Option(
            help="For inflection tables: column numbers (from 1) of the lemma, the features and the form. "
            "Tables of SIGMORPHON need 1,3,2."
        ),
    ] = "1,2,3",
    output_dir: Annotated[
        Path | None,
        typer.Option(
            help="Directory for all files. Default: a directory in reproduce/, named after the paper, the "
            "data and the options.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Setting of all runs, as key=value, or only of some rows, as row,row:key=value.",
            show_default=False,
        ),
    ] = None,
    no_train: Annotated[
        bool, typer.Option("--no-train", help="Do not train; show the finished results.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto (a GPU if available), cpu, cuda or cuda:N.")] = "auto",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Output file for the table in Markdown. Default: standard output."
        ),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the results to this JSON file.")
    ] = None,
) -> None:
    """Train the models of a table in a paper, score them, and print the scores next to those of the paper.

    Finished models are reused. Run the same command again to resume after an interruption. The log of each
    run is in the directory `runs`.

    Example: regard reproduce malaviya2018-table1 --data-dir multi30k --size small --num-jobs 2
    """
    chosen = _table(table)
    seed_list = _seeds(seeds)
    column_list = column_numbers(columns)

    from regard.cli.output import open_output, write_json
    from regard.reproduce.experiment_text import find_tables, write_text
    from regard.reproduce.plan import MODEL_SIZES, PlanOptions, plan
    from regard.reproduce.results import collect_results
    from regard.reproduce.runner import run_jobs, threads_per_job
    from regard.reproduce.scores import unavailable_reason

    if size not in MODEL_SIZES:
        raise UsageError(f"--size {size!r}: expected {' or '.join(MODEL_SIZES)}")
    tables = chosen.text_kind == "tables"
    parts = [data_dir.resolve().name, *([] if tables or target_language == "en" else [target_language])]
    if not tables and columns != "1,2,3":
        raise UsageError(f"--columns applies to inflection tables only; {table} uses parallel text")
    raw = chosen.text_kind == "raw"
    parts += [
        *([] if tables or not max_train_pairs else [str(max_train_pairs)]),
        *(["raw"] if raw else []),
        size,
    ]
    directory = output_dir or Path("reproduce") / chosen.recipes / "-".join(parts)
    text_dir = directory / "text"
    text = (
        find_tables(data_dir, text_dir, column_list)
        if tables
        else write_text(data_dir, text_dir, target_language, max_train_pairs, raw)
    )
    missing = {metric.name: unavailable_reason(metric.name, text.target) for metric in chosen.metrics}
    for name, why in missing.items():
        if why is not None:
            typer.echo(f"{name} is omitted: {why}", err=True)
    options = PlanOptions(
        size,
        seed_list,
        metrics=[name for name, why in missing.items() if why is None],
        rows=[] if rows is None else rows.split(","),
        overrides=settings or [],
        device=device,
        num_threads=threads_per_job(num_jobs),
    )
    planned = plan(chosen, directory, text, options)
    if not no_train:
        try:
            run_jobs(planned, text, num_jobs, lambda line: typer.echo(line, err=True))
        except KeyboardInterrupt:
            typer.echo("The state is saved. Run the same command again to resume.", err=True)
            raise typer.Exit(130) from None
    results = collect_results(chosen, planned, text, options)
    with open_output(output) as file:
        if output is None and sys.stdout.isatty():
            _show(chosen, results.results)
        else:
            file.write(results.to_markdown())
    write_json(json_file, results.to_dict())


def _table(name: str) -> "Table":
    from regard.reproduce.tables import PAPER_TABLES

    if name not in PAPER_TABLES:
        raise UsageError(f"unknown table {name!r}: expected one of {', '.join(PAPER_TABLES)}")
    return PAPER_TABLES[name]


def _seeds(text: str) -> list[int]:
    try:
        found = [int(field) for field in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 0:
        raise UsageError(f"--seeds {text!r}: expected numbers of 0 or more, separated by commas")
    # A repeated seed would train the same model twice.
    return list(dict.fromkeys(found))


def _show(table: "Table", results: "list[RowResult]") -> None:
    """Print the table to a terminal. A metric has a column for the paper only if the paper reports it."""
    from rich.console import Console
    from rich.table import Table as Grid

    from regard.reproduce.results import sentence_counts

    published = {name for one in results for name, cell in one.cells.items() if cell.published is not None}
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
    notes = [f"* differs from {table.rows[0].label}, p < 0.05. For intervals, use --output or --json."]
    notes += [f"Plot this figure with: {table.plot_command}"] if table.plot_command else []
    for note in notes:
        console.print(note, style="dim", soft_wrap=True)
