"""What a figure is made of, and what a user gives for it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from regard.errors import DataError, UsageError

__all__ = ["Chosen", "Figure", "Given", "digits", "file_names", "read_written"]


T = TypeVar("T")


@dataclass(frozen=True)
class Figure:
    """What a figure's maker hands over.

    Attributes:
        pictures: SVG by file name.
        rows: A table of the numbers drawn, its head first.
        numbers: The same for a JSON file.
    """

    pictures: dict[str, str]
    rows: list[list[str]]
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Chosen:
    """Which attention a user chose.

    Attributes:
        layer: From 0, -1 the last; none: the one that word links come from.
        head: The same of heads; none: the mean of those that word links come from.
        shift: Whether a token's attention is that of the time step that has it as input; none: as for links.
        prior: Whether to take the attention before each token was known.
    """

    layer: int | None = None
    head: int | None = None
    shift: bool | None = None
    prior: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """The same as `search_settings` takes them."""
        return {"layer": self.layer, "head": self.head, "shift": self.shift}


@dataclass(frozen=True)
class Given:
    """What a user gave.

    Attributes:
        files: `--from`: files or model folders.
        source: The text.
        reference: Its translations.
        line: Which line of it, from 1.
        names: What to call the systems, separated by commas; none: as their folders.
        chosen: Which attention.
        word: Which token, from 0, -1 the last; none: the one in the middle.
        device: Where models run.
    """

    files: list[Path]
    source: Path | None = None
    reference: Path | None = None
    line: int = 1
    names: str | None = None
    chosen: Chosen = field(default_factory=Chosen)
    word: int | None = None
    device: str = "auto"

    def systems(self) -> dict[str, Path]:
        """The files by what they are called.

        Raises:
            UsageError: if there are not as many names as files, or two of one name.
        """
        if self.names is not None:
            names = [name.strip() for name in self.names.split(",")]
            if len(names) != len(self.files):
                raise UsageError(f"--names gives {len(names)} names to {len(self.files)} systems")
        else:
            names = file_names(self.files)
        if len(set(names)) < len(names) or not all(names):
            raise UsageError(f"systems must have names of their own, not {', '.join(names)}; give --names")
        return dict(zip(names, self.files, strict=True))

    def text(self) -> tuple[str, str | None]:
        """The line asked for, and its translation where there is one.

        Raises:
            UsageError: if there is no source, or it has no such line.
            DataError: if a file cannot be read.
        """
        from regard.data.corpus import read_lines

        if self.source is None:
            raise UsageError("models look at a text: give --source")
        found: list[str] = []
        for path in (self.source, *(() if self.reference is None else (self.reference,))):
            lines = list(read_lines(path))
            if self.line > len(lines):
                raise UsageError(f"--line {self.line}: {path} has {len(lines)} lines")
            found.append(lines[self.line - 1])
        return found[0], found[1] if self.reference is not None else None


def file_names(files: list[Path]) -> list[str]:
    """What files and folders are called: by their last part, or by the whole where that would not do."""
    short = [path.resolve().name if path.is_dir() else path.stem for path in files]
    return short if len(set(short)) == len(short) else [str(path) for path in files]


def read_written(path: Path, what: str, *models: type[T]) -> T:
    """What a command wrote, as the first pydantic model that it fits.

    Args:
        path: The file.
        what: The command that writes such files, for messages.
        *models: What it may hold.

    Raises:
        DataError: if it cannot be read or holds something else.
    """
    from regard.data.reading import NotJson, read_json

    reason = ""
    for model in models:
        try:
            return read_json(path, model)
        except NotJson as error:
            reason = reason or str(error)
    raise DataError(f"{path}: not what `{what}` writes: {reason}")


def digits(value: float | None) -> str:
    """Four digits, and none where it is exactly zero."""
    return "" if value is None else f"{value:.4f}" if value else "0"
