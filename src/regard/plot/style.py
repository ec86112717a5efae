"""The style of all figures: colors and labels, and the style of matplotlib.

`regard.mplstyle` contains the sizes and colors of matplotlib, which is imported only when it plots. Each
system has the same color, dash pattern and marker in all panels of a figure, so that the systems can be
distinguished without color.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len, set_cell_size

from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

# The runtime type checks of the tests do not accept an int for a float.
Length = int | float

INK = "#1a1a1a"
MUTED = "#555555"
# Ten colors, chosen for color-blind readers (the first after Okabe & Ito, 2008).
_COLORS = (
    *("#0072b2", "#d55e00", "#009e73", "#b0508c", "#1a1a1a"),
    *("#56a0d8", "#b8860b", "#8a5cc2", "#7f3b08", "#6b8e23"),
)
_DASHES = ((0, ()), (0, (4.7, 2)), (0, (1.3, 1.7)), (0, (6, 2, 1.3, 2)), (0, (2.7, 1.3)))
_MARKERS = (("o", 5.2), ("s", 4.8), ("^", 6), ("D", 4.5), ("v", 6))  # with sizes in points
_CHARACTER = 0.078  # width of a half-width character in inches
_LEGEND_LINE = 0.65  # width of the line of a legend entry, with its gaps, in inches

# Control characters, line separators, direction overrides that extend beyond the word, and characters that
# XML does not allow.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


@contextmanager
def matplotlib_style() -> Iterator[None]:
    """Use the style of this package instead of the user's own matplotlib settings.

    Raises:
        UsageError: If matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
    except ImportError:
        raise UsageError("figures need the package matplotlib: pip install 'regard[plot]'") from None
    with as_file(files("regard.plot") / "regard.mplstyle") as path, rc_context(fname=path):
        yield


def new_figure(width: Length, height: Length) -> "matplotlib.figure.Figure":
    """Return an empty figure that is not registered with pyplot; width and height are in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def series_style(number: int) -> dict[str, Any]:
    """Return the color, dash pattern and marker of a system, as arguments of `Axes.plot`."""
    marker, size = _MARKERS[number % len(_MARKERS)]
    return {
        "color": _COLORS[number % len(_COLORS)],
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
        covered = missing & _characters(entry.fname)
        if covered:
            families.append(entry.name)
            missing -= covered
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


# Colors and labels


@dataclass(frozen=True)
class LabeledMaps:
    """One or more attention maps over the same words.

    Attributes:
        weights: One map per head; rows are target words, columns are source words.
        source: Labels of the columns, printable.
        target: Labels of the rows, printable.
        captions: One caption per head; an empty caption is omitted.
    """

    weights: Float[np.ndarray, "H T S"]
    source: tuple[str, ...]
    target: tuple[str, ...]
    captions: tuple[str, ...]


@dataclass(frozen=True)
class Colormap:
    """A sequential color scale for weights from just above 0 to 1.

    Attributes:
        stops: Red, green and blue (0 to 255) of evenly spaced colors along the scale.
    """

    stops: tuple[tuple[int, int, int], ...]

    def color(self, weight: float) -> str:
        """Return the color of a weight as `#rrggbb`; weights are clipped to between 0 and 1."""
        place = min(max(weight, 0.0), 1.0) * (len(self.stops) - 1)
        left = min(int(place), len(self.stops) - 2)
        share = place - left
        mixed = (
            round(a + share * (b - a)) for a, b in zip(self.stops[left], self.stops[left + 1], strict=True)
        )
        return "#" + "".join(f"{part:02x}" for part in mixed)


def label_maps(
    weights: Float[np.ndarray, "T S"] | Float[np.ndarray, "H T S"],
    source: Sequence[str],
    target: Sequence[str],
    captions: Sequence[str] | None = None,
) -> LabeledMaps:
    """Check that the shapes of weights and words match, and make the words printable.

    By default, several heads have captions with their numbers from 0, and a single head has none.

    Raises:
        DataError: if the shapes do not match.
    """
    if weights.ndim not in (2, 3) or weights.shape[-2:] != (len(target), len(source)):
        raise DataError(
            f"attention weights have shape {weights.shape}: expected target x source, "
            f"{len(target)} x {len(source)}, or one such map per head"
        )
    heads = weights[None] if weights.ndim == 2 else weights  # (H, T, S)
    if captions is None:
        captions = [f"head {head}" for head in range(len(heads))] if len(heads) > 1 else [""] * len(heads)
    if len(captions) != len(heads):
        raise DataError(f"{len(captions)} captions for {len(heads)} heads: expected one caption per head")
    return LabeledMaps(
        weights=heads.astype(np.float64),
        source=tuple(map(printable, source)),
        target=tuple(map(printable, target)),
        captions=tuple(map(printable, captions)),
    )


def printable(text: str) -> str:
    """Return the text with U+FFFD instead of each character that would break a picture."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def clip_label(label: str, cells: int) -> str:
    """Return the label cut to a number of terminal cells; `…` marks a label that was longer."""
    if cell_len(label) <= cells:
        return label
    return set_cell_size(label, max(cells - 1, 0)).rstrip() + "…"
