"""A figure that a notebook displays and that is saved as SVG, PDF or PNG."""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from rich.console import Console

from regard.errors import UsageError
from regard.plot.style import add_fallback_fonts, matplotlib_style, printable
from regard.text.files import write_atomic

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

    from regard.plot.terminal import TerminalMap

FORMATS = ("svg", "pdf", "png")
"""File formats of figures."""
_PATH = re.compile(r'(?<= d=")[^"]+')
_DECIMALS = re.compile(r"-?[0-9]+\.[0-9]{3,}")


@dataclass(frozen=True, eq=False, repr=False)
class Figure:
    """A figure.

    Attributes:
        title: Accessible title.
        description: Accessible description, with the important numbers.
        plot: Function that plots the figure with matplotlib.
        panels: Functions that plot each panel on axes, for `plot_on`.
        text: What `print` shows in a terminal. Default: the title and the description.
    """

    title: str
    description: str
    plot: Callable[[], "matplotlib.figure.Figure"]
    panels: Sequence[Callable[["matplotlib.axes.Axes"], None]] = ()
    text: "TerminalMap | None" = None

    @cached_property
    def matplotlib(self) -> "matplotlib.figure.Figure":
        """Return the figure as plotted by matplotlib, for changes of your own before it is saved.

        Raises:
            UsageError: If matplotlib is not installed.
        """
        with matplotlib_style():
            figure = self.plot()
            add_fallback_fonts(figure)
            return figure

    def plot_on(self, ax: "matplotlib.axes.Axes", panel: int = 0) -> None:
        """Plot a panel (from 0) on matplotlib axes of your own, without the legend of the figure.

        Raises:
            UsageError: If there is no such panel.
        """
        if not 0 <= panel < len(self.panels):
            raise UsageError(f"panel {panel}: the figure has {len(self.panels)} panels, counted from 0")
        self.panels[panel](ax)

    @property
    def svg(self) -> str:
        """Return the text of the SVG file."""
        return self.render("svg").decode()

    def render(self, file_format: str) -> bytes:
        """Return the content of a file (`svg`, `pdf` or `png`), which is the same in every run.

        Raises:
            UsageError: If there is no such format, or matplotlib is not installed.
        """
        if file_format not in FORMATS:
            raise UsageError(f"{file_format!r} is no format of figures: expected one of {', '.join(FORMATS)}")
        title, description = printable(self.title), printable(self.description)
        metadata = {
            "svg": {"Title": title, "Date": None, "Creator": None},
            "pdf": {"Title": title, "Subject": description, "CreationDate": None, "Producer": None},
            "png": {"Title": title, "Description": description, "Software": None},
        }[file_format]
        content = io.BytesIO()
        with matplotlib_style(), warnings.catch_warnings():
            # The viewer of an SVG file may have a font with this character, whose width is estimated.
            warnings.filterwarnings("ignore", message=r"Glyph .* missing from font|constrained_layout not")
            self.matplotlib.savefig(content, format=file_format, metadata=metadata)
        if file_format != "svg":
            return content.getvalue()
        svg = _PATH.sub(_shorten_path, content.getvalue().decode())
        head, metadata_element, rest = svg.partition(" <metadata>")
        head = head.replace("<svg ", '<svg role="img" ', 1)
        return f"{head} <desc>{escape(description)}</desc>\n{metadata_element}{rest}".encode()

    def save(self, path: Path | str) -> Path:
        """Write the figure to a file `.svg`, `.pdf` or `.png` (300 dots per inch), completely or not at all.

        Returns:
            The path.

        Raises:
            UsageError: If the path has another extension, or the figure cannot be rendered.
            DataError: If the file cannot be written.
        """
        path = Path(path)
        kind = path.suffix.lower()
        if kind.removeprefix(".") not in FORMATS:
            extension = kind or "a name without extension"
            raise UsageError(f"{path}: a figure is saved as .svg, .pdf or .png, not as {extension}")
        write_atomic(path, self.render(kind.removeprefix(".")))
        return path

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        """Return the title."""
        return f"Figure({self.title!r})"

    def __str__(self) -> str:
        """Return the attention map for a terminal, or the title and the description."""
        if self.text is None:
            return f"{self.title}. {self.description}"
        # Python prints the text without colors, to a terminal as to a file.
        console = Console(file=io.StringIO(), highlight=False, markup=False)
        with console.capture() as capture:
            console.print(self.text)
        return capture.get().rstrip()


def _shorten_path(path: re.Match[str]) -> str:
    """Return path data on one line, rounded to a hundredth of a point."""
    return _DECIMALS.sub(lambda number: f"{float(number[0]):.2f}", path[0].replace("\n", " "))
