"""`regard reproduce`: train the models of a table in a paper and compare the scores."""

import sys
from typing import TYPE_CHECKING

from regard.cli.api_flags import ApiCall, from_api
from regard.cli.command import Writes
from regard.cli.options import JsonOption, OutputOption
from regard.cli.output import open_output, print_message, write_json

if TYPE_CHECKING:
    from regard.extensions.reproduce.results import RowResult
    from regard.extensions.reproduce.tables import Table

__all__ = ["reproduce"]


@from_api(
    "regard.extensions.reproduce.reproduction:reproduce_table",
    ["table"],
    panels={
        "Text": "data_dir target_language max_train_pairs columns",
        "Runs": "size seeds rows overrides train output_dir device",
    },
    writes={"output_dir": Writes.INTO},
)
def reproduce(call: ApiCall, output: OutputOption = None, json_file: JsonOption = None) -> None:
    """Train the models of a table in a paper, score them, and print the scores next to those of the paper.

    Models are trained one after another, and finished models are reused. Run the same command again to resume
    after an interruption. The output is a table in Markdown. A setting of --set applies to all runs,
    or to the rows before a colon, as in row,row:key=value. By default, all files are in a directory in
    reproduce/, named after the paper, the data and the options.

    Example: regard reproduce malaviya2018-table1 --data-dir multi30k --size small
    """
    results = call(on_message=print_message)
    with open_output(output) as file:
        if output is None and sys.stdout.isatty():
            _show(results.table, results.results)
        else:
            file.write(results.to_markdown())
    write_json(json_file, results)


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
