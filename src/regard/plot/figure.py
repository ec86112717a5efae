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

from regard.errors import UsageError
from regard.plot.shapes import Shape, plot_shapes, svg_document
from regard.plot.style import Point, add_fallback_fonts, matplotlib_style, new_figure, printable
from regard.text.files import write_atomic

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

__all__ = ["DPI", "FORMATS", "Figure", "shapes_figure"]

DPI = 300
"""Default resolution of PNG files in dots per inch, suitable for print."""
FORMATS = ("svg", "pdf", "png")
"""File formats of figures."""
_PATH = re.compile(r'(?<= d=")[^"]+')
_DECIMALS = re.compile(r"-?[0-9]+\.[0-9]{3,}")


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure.

    Attributes:
        title: Accessible title.
        description: Accessible description, with the important numbers.
        plot: Function that plots the figure with matplotlib.
        own_svg: SVG text of an attention map. None for a figure whose SVG form is plotted by matplotlib, too.
        panels: Functions that plot each panel on axes, for `plot_on`.
    """

    title: str
    description: str
    plot: Callable[[], "matplotlib.figure.Figure"]
    own_svg: str | None = None
    panels: Sequence[Callable[["matplotlib.axes.Axes"], None]] = ()

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
        """Plot a panel of the figure on matplotlib axes of your own, without the legend of the figure.

        Args:
            ax: The axes.
            panel: Index of the panel, from 0.

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

    def render(self, file_format: str, dpi: int = DPI) -> bytes:
        """Return the content of a file, which is the same in every run.

        Args:
            file_format: One of `svg`, `pdf` and `png`.
            dpi: Resolution of a PNG file in dots per inch.

        Raises:
            UsageError: If there is no such format, matplotlib is not installed, or `dpi` is below 1.
        """
        if file_format not in FORMATS:
            raise UsageError(f"{file_format!r} is no format of figures: expected one of {', '.join(FORMATS)}")
        if dpi < 1:
            raise UsageError(f"the resolution of a figure is {dpi} dots per inch: expected at least 1")
        if file_format == "svg" and self.own_svg is not None:
            return self.own_svg.encode()
        title, description = printable(self.title), printable(self.description)
        metadata = {
            "svg": {"Title": title, "Date": None, "Creator": None},
            "pdf": {"Title": title, "Subject": description, "CreationDate": None, "Producer": None},
            "png": {"Title": title, "Description": description, "Software": None},
        }[file_format]
        content = io.BytesIO()
        with matplotlib_style(), warnings.catch_warnings():
            # The viewer of an SVG file may have a font with this character.
            warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
            self.matplotlib.savefig(content, format=file_format, dpi=dpi, metadata=metadata)
        if file_format != "svg":
            return content.getvalue()
        svg = _PATH.sub(_shorten_path, content.getvalue().decode())
        head, metadata_element, rest = svg.partition(" <metadata>")
        head = head.replace("<svg ", '<svg role="img" ', 1)
        return f"{head} <desc>{escape(description)}</desc>\n{metadata_element}{rest}".encode()

    def save(self, path: Path | str, dpi: int = DPI) -> Path:
        """Write the figure to a file, completely or not at all.

        Args:
            path: Path that ends in `.svg`, `.pdf` or `.png`.
            dpi: Resolution of a PNG file in dots per inch.

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
        write_atomic(path, self.render(kind.removeprefix("."), dpi))
        return path

    def _repr_svg_(self) -> str:
        return self.svg


def shapes_figure(
    title: str,
    description: str,
    shapes: Sequence[Shape],
    size: Point,
    panels: Sequence[Callable[["matplotlib.axes.Axes"], None]] = (),
) -> Figure:
    """Return a figure made of shapes, whose SVG form is our own.

    Args:
        title: Accessible title.
        description: Accessible description.
        shapes: The shapes, from the bottom to the top.
        size: Width and height in pixels of 1/96 inch.
        panels: Functions that plot each panel on axes. Default: the whole picture.
    """

    def plot_picture(ax: "matplotlib.axes.Axes") -> None:
        ax.set(xlim=(0, size[0]), ylim=(size[1], 0))
        ax.set_axis_off()
        plot_shapes(ax, shapes)

    def plot() -> "matplotlib.figure.Figure":
        figure = new_figure(size[0] / 96, size[1] / 96)
        figure.set_layout_engine("none")
        plot_picture(figure.add_axes((0, 0, 1, 1)))
        return figure

    svg = svg_document(size, title, description, shapes)
    return Figure(title, description, plot, svg, panels or [plot_picture])


def _shorten_path(path: re.Match[str]) -> str:
    """Return path data on one line, rounded to a hundredth of a point."""
    return _DECIMALS.sub(lambda number: f"{float(number[0]):.2f}", path[0].replace("\n", " "))
