"""Output of commands: results to files or stdout, and progress bars and messages to stderr.

A file is written completely or not at all. Progress bars are shown only if stderr is a terminal.
"""

import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from regard.api import open_atomic, readable
from regard.errors import DataError

if TYPE_CHECKING:
    from rich.text import Text

    from regard.config.results import Result
    from regard.plot.figure import Figure

_T = TypeVar("_T")


@dataclass(frozen=True)
class Output:
    """A UTF-8 text stream whose errors contain its name."""

    stream: TextIO
    name: str

    @property
    def is_terminal(self) -> bool:
        """Whether the stream is connected to a terminal."""
        return self.stream.isatty()

    def write(self, text: str) -> None:
        """Write text.

        Raises:
            DataError: If writing fails, for example because the disk is full.
        """
        with self._translate_errors():
            self.stream.write(text)

    def flush(self) -> None:
        """Flush the buffer of the stream; see `write`."""
        with self._translate_errors():
            self.stream.flush()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        # `main` handles a closed pipe without a message.
        except BrokenPipeError:
            raise
        except OSError as error:
            if self.stream is sys.stdout:
                # Python flushes the buffer once more at exit; that would fail again.
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())
            raise DataError(f"{self.name}: cannot be written: {error.strerror or error}") from None


@contextmanager
def open_output(path: Path | None) -> Iterator[Output]:
    """Open a file (see `regard.text.files.open_atomic`) or, without a path, standard output for results.

    Raises:
        DataError: If the file cannot be written (missing directory, no permission, full disk).
    """
    if path is None:
        # A replaced stdout, for example in tests, may not have `reconfigure`.
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
        output = Output(sys.stdout, "standard output")
        yield output
        output.flush()
        return
    with open_atomic(path) as file:
        # Line ends are the same on all systems, so the files are identical.
        stream = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        output = Output(stream, str(path))
        yield output
        output.flush()
        # Reached only without an error. After an error, `open_atomic` closes the file and discards the rest.
        stream.detach()


def write_json(path: Path | None, result: "Result") -> None:
    """Write the result of a command to the file of --json, if there is one; see `Result.save`."""
    if path is not None:
        result.save(path)


def write_rows(file: Output, rows: Iterable[Iterable[Any]]) -> None:
    """Write tab-separated rows.

    Cells with a tab, a line break or a quotation mark are quoted. Otherwise `csv`, pandas and spreadsheets
    would take all rows up to the next quotation mark for one cell.
    """
    for row in rows:
        cells = [str(cell) for cell in row]
        # `csv.writer` of Python 3.11 does not quote carriage returns, and `csv.reader` ends a row there.
        quoted = [
            '"{}"'.format(cell.replace('"', '""')) if re.search('[\t\r\n"]', cell) else cell for cell in cells
        ]
        file.write("\t".join(quoted) + "\n")


def write_table(file: Output, rows: Sequence[Sequence[str]]) -> None:
    """Write a formatted table to a terminal, or tab-separated rows otherwise; see `write_rows`.

    Args:
        file: The output.
        rows: The cells of each row. The first row is the header.
    """
    from rich.console import Console
    from rich.table import Table

    if not file.is_terminal:
        write_rows(file, rows)
        return
    table = Table(box=None, pad_edge=False)
    for i, head in enumerate(rows[0]):
        table.add_column(head, justify="left" if i == 0 else "right")
    for row in rows[1:]:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


def write_tables(file: Output, tables: Iterable[Sequence[Sequence[str]]]) -> None:
    """Write tables with an empty line between two; see `write_table`."""
    for number, rows in enumerate(tables):
        if number:
            file.write("\n")
        write_table(file, rows)


def write_lines(file: Output, lines: "Callable[[int | None], Iterable[Text]]") -> None:
    """Write formatted lines; with colors on a terminal, to whose width `lines` formats them."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    for line in lines(console.width if file.is_terminal else None):
        if file.is_terminal:
            console.print(line)
        else:
            # Colors are escape sequences, which a file must not contain.
            file.write(line.plain + "\n")


def write_figures(directory: Path | None, figures: "Mapping[str, Figure]") -> None:
    """Write figures as NAME.svg to the directory of --figures-dir, if there is one, and print their names.

    Raises:
        DataError: If a file cannot be written.
        UsageError: If matplotlib is needed and not installed.
    """
    if directory is None:
        return
    # Render everything before writing, so that an error leaves no files behind.
    images = {name: figure.svg.encode() for name, figure in figures.items()}
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{directory}: the directory cannot be created: {error.strerror or error}") from None
    for name, content in images.items():
        # A name such as "a/b" must not create a subdirectory.
        path = directory / f"{name.replace('/', '-')}.svg"
        with open_atomic(path) as file:
            file.write(content)
        print_message(f"wrote {path}")


def track(items: Iterable[_T], name: str, total: int | None) -> Iterator[_T]:
    """Yield the items and show a progress bar with a label; the total is None if it is not known."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    console, columns = Console(stderr=True), (*Progress.get_default_columns(), MofNCompleteColumn())
    if not console.is_terminal:
        yield from items
        return
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=total)
        for item in items:
            bar.advance(task)
            yield item


def print_message(message: str) -> None:
    """Print a message to stderr."""
    from rich.console import Console

    # A message must not change: rich would wrap it, color its numbers and interpret its brackets.
    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(readable(message))
