"""Input options and results of the functions that plot figures."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.plotting.figure import Figure

__all__ = [
    "AttentionSelection",
    "FigureInput",
    "PlottedFigure",
    "display_names",
    "format_value",
    "read_results",
]


_T = TypeVar("_T")


@dataclass(frozen=True)
class PlottedFigure:
    """A plotted figure.

    Attributes:
        images: Figures by file name, without its ending.
        rows: Table of the plotted values. The first row is the header.
        values: Plotted values as JSON-compatible values.
    """

    images: "dict[str, Figure]"
    rows: list[list[str]]
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AttentionSelection:
    """The options that select attention weights.

    Attributes:
        layer: Layer, from 0; -1 is the last. None uses the layer of the model's word links.
        head: Head, from 0; -1 is the last. None averages the heads of the model's word links.
        shift: Whether the attention of a token is that of the time step that has the token as input. None
            uses the model's setting for word links.
        prior: Whether to use the attention before the target token is observed.
    """

    layer: int | None = None
    head: int | None = None
    shift: bool | None = None
    prior: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """Return layer, head and shift as arguments of `search_settings`."""
        return {"layer": self.layer, "head": self.head, "shift": self.shift}


@dataclass(frozen=True)
class FigureInput:
    """The options of `regard figures`.

    Attributes:
        files: Files or model directories of the option `--input`.
        source: File with the source text.
        reference: File with the reference translations.
        line: Line number, from 1.
        names: Display names of the systems, separated by commas. None uses the names of the files.
        selection: Selection of attention weights.
        token: Position of a token, from 0; -1 is the last. None uses the token in the middle.
        device: Device of the computation.
    """

    files: list[Path]
    source: Path | None = None
    reference: Path | None = None
    line: int = 1
    names: str | None = None
    selection: AttentionSelection = field(default_factory=AttentionSelection)
    token: int | None = None
    device: str = "auto"

    def named_files(self) -> dict[str, Path]:
        """Return the files by display name.

        Raises:
            UsageError: If the number of names differs from the number of files, or a name is empty or occurs
                twice.
        """
        from regard.analysis.inputs import check_names

        chosen = None if self.names is None else [name.strip() for name in self.names.split(",")]
        names = check_names(chosen, display_names(self.files), "systems")
        return dict(zip(names, self.files, strict=True))

    def read_line(self) -> tuple[str, str | None]:
        """Return the chosen source line and its reference, which is None without a reference file.

        Raises:
            UsageError: If no source is given, or a file has fewer lines.
            DataError: If a file cannot be read.
        """
        from regard.data.corpus import read_lines

        if self.source is None:
            raise UsageError("model directories need a source text: give --source")
        found: list[str] = []
        for path in (self.source, *(() if self.reference is None else (self.reference,))):
            lines = list(read_lines(path))
            if self.line > len(lines):
                raise UsageError(f"--line {self.line}: {path} has only {len(lines)} lines")
            found.append(lines[self.line - 1])
        return found[0], found[1] if self.reference is not None else None


def display_names(files: list[Path]) -> list[str]:
    """Return display names of files and directories.

    These are the last parts of the paths, or the whole paths if the last parts are not unique.
    """
    short = [path.resolve().name if path.is_dir() else path.stem for path in files]
    return short if len(set(short)) == len(short) else [str(path) for path in files]


def read_results(path: Path, command: str, *schemas: type[_T]) -> _T:
    """Read a JSON file that was written by a command.

    Args:
        path: The file.
        command: Command that writes such files, for error messages.
        *schemas: Pydantic models of the possible formats, which are tried in this order.

    Raises:
        DataError: If the file cannot be read or has none of the formats.
    """
    from regard.data.reading import InvalidJsonError, read_json

    reason = ""
    for model in schemas:
        try:
            return read_json(path, model)
        except InvalidJsonError as error:
            # Report the error of the first format, which is the expected one.
            reason = reason or str(error)
    raise DataError(f"{path}: the file was not written by `{command}`: {reason}")


def format_value(value: float | None) -> str:
    """Return a number with four decimal places, "0" for an exact zero, or an empty text for None."""
    return "" if value is None else f"{value:.4f}" if value else "0"
