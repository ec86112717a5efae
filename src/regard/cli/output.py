"""Where a command writes its results: standard output, or a file that appears whole or not at all."""

import io
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from regard.cli.progress import say
from regard.data.files import open_whole
from regard.errors import DataError

__all__ = ["Output", "open_output", "write_json", "write_pictures", "write_table"]


class Output:
    """A stream of text in UTF-8 whose errors name it."""

    def __init__(self, stream: TextIO, name: str) -> None:
        """Write to an open stream."""
        self._stream = stream
        self._name = name

    @property
    def is_terminal(self) -> bool:
        """Whether a person is watching."""
        return self._stream.isatty()

    def write(self, text: str) -> None:
        """Write text.

        Raises:
            DataError: if it cannot be written (disk full).
        """
        with self._naming():
            self._stream.write(text)

    def flush(self) -> None:
        """Pass on what was written.

        Raises:
            DataError: if it cannot be written (disk full).
        """
        with self._naming():
            self._stream.flush()

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            if self._stream is sys.stdout:
                # What is left in its buffer would fail once more when the interpreter ends.
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            raise _error(self._name, error) from None


@contextmanager
def open_output(path: Path | None) -> Iterator[Output]:
    """Open a place for results.

    Args:
        path: A file, see `regard.data.files.open_whole`; none for standard output.

    Raises:
        DataError: if it cannot be written (no such folder, no permission, disk full).
    """
    if path is None:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
        output = Output(sys.stdout, "standard output")
        yield output
        output.flush()
        return
    with open_whole(path) as file:
        stream = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        output = Output(stream, str(path))
        yield output
        output.flush()
        stream.detach()  # what is left in it after an error is dropped: the file below is closed first


def _error(name: str, error: OSError) -> DataError:
    return DataError(f"{name}: cannot be written: {error.strerror or error}")


def write_json(path: Path | None, figures: Any) -> None:
    """Write the figures of a command to a file, whole or not at all; none: nowhere.

    Raises:
        DataError: if it cannot be written.
    """
    if path is not None:
        with open_output(path) as file:
            file.write(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")


def write_table(file: Output, rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal, tab-separated lines elsewhere; its head comes first.

    Raises:
        DataError: if it cannot be written.
    """
    from rich.console import Console
    from rich.table import Table

    if not file.is_terminal:
        file.write("".join("\t".join(row) + "\n" for row in rows))
        return
    table = Table(box=None, pad_edge=False)
    for i, head in enumerate(rows[0]):
        table.add_column(head, justify="left" if i == 0 else "right")
    for row in rows[1:]:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


def write_pictures(folder: Path, pictures: Mapping[str, str]) -> None:
    """Write pictures by their names into a folder, made if it is not there, and tell of each.

    Raises:
        DataError: if one cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made: {error.strerror or error}") from None
    for name, svg in pictures.items():
        path = folder / name.replace("/", "-")
        with open_output(path) as file:
            file.write(svg)
        say(f"wrote {path}")
