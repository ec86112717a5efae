"""The style of the figures that matplotlib plots, which is imported only when a figure is plotted.

`regard.mplstyle` contains sizes and colors. Each system has the same color, dash pattern and marker in all
panels of a figure, so that the systems can be distinguished without color.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from regard.errors import UsageError
from regard.plotting.colormap import color_of, printable
from regard.plotting.shapes import Length, Point

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

__all__ = [
    "add_fallback_fonts",
    "add_legend",
    "matplotlib_style",
    "new_figure",
    "pixel_figure",
    "require_matplotlib",
    "series_style",
]

_DASHES = ((0, ()), (0, (4.7, 2)), (0, (1.3, 1.7)), (0, (6, 2, 1.3, 2)), (0, (2.7, 1.3)))
_MARKERS = (("o", 5.2), ("s", 4.8), ("^", 6), ("D", 4.5), ("v", 6))  # with sizes in points
_CHARACTER = 0.078  # width of a half-width character in inches
_LEGEND_LINE = 0.65  # width of the line of a legend entry, with its gaps, in inches


def require_matplotlib() -> None:
    """Check that matplotlib is installed.

    Raises:
        UsageError: If it is not.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("figures need the package matplotlib: pip install 'regard[plot]'") from None


@contextmanager
def matplotlib_style() -> Iterator[None]:
    """Use the style of this package instead of the user's own matplotlib settings.

    Raises:
        UsageError: If matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib import rc_context

    with as_file(files("regard.plotting") / "regard.mplstyle") as path, rc_context(fname=path):
        yield


def new_figure(width: Length, height: Length) -> "matplotlib.figure.Figure":
    """Return an empty figure that is not registered with pyplot; width and height are in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def series_style(number: int) -> dict[str, Any]:
    """Return the color, dash pattern and marker of a system, as arguments of `Axes.plot`."""
    marker, size = _MARKERS[number % len(_MARKERS)]
    return {
        "color": color_of(number),
        "linestyle": _DASHES[number % len(_DASHES)],
        "marker": marker,
        "markersize": size,
        "markeredgecolor": "white",
        "markeredgewidth": 0.7,
    }


def add_legend(figure: "matplotlib.figure.Figure", names: Sequence[str]) -> None:
    """Add a legend of the systems above all panels, in several rows if the width requires it."""
    from matplotlib.lines import Line2D

    labels = [printable(name) for name in names]
    widths = [_LEGEND_LINE + _CHARACTER * cell_len(label) for label in labels]
    fitting = int(figure.get_figwidth() / max(widths))
    columns = len(labels) if sum(widths) < figure.get_figwidth() else max(1, fitting)
    handles = [Line2D([], [], **series_style(i)) for i in range(len(labels))]
    figure.legend(handles, labels, loc="outside upper left", ncols=columns)


def add_fallback_fonts(figure: "matplotlib.figure.Figure") -> None:
    """Give all texts of a figure additional installed fonts for characters that DejaVu Sans does not have."""
    from matplotlib.font_manager import findfont, fontManager
    from matplotlib.text import Text

    texts = figure.findobj(Text)
    missing = {ord(character) for text in texts for character in text.get_text() if character != "\n"}
    families = ["DejaVu Sans"]
    missing -= _characters(findfont(families[0]))
    for entry in fontManager.ttflist if missing else ():
        found = missing & _characters(entry.fname)
        if found:
            families.append(entry.name)
            missing -= found
    if len(families) > 1:
        for text in texts:
            text.set_fontfamily(families)


@lru_cache(maxsize=1000)
def _characters(path: str) -> frozenset[int]:
    """Return the characters of a font; none if the font is no longer installed."""
    from matplotlib.font_manager import get_font

    with suppress(OSError, RuntimeError):
        return frozenset(get_font(path).get_charmap())
    return frozenset()


def pixel_figure(size: Point) -> "matplotlib.figure.Figure":
    """Return an empty figure of a size in pixels of 1/96 inch, whose axes are placed in pixels, too."""
    figure = new_figure(size[0] / 96, size[1] / 96)
    figure.set_layout_engine("none")
    return figure
