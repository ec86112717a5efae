"""Print attention maps in a terminal: rows are target words, columns are source words, cells are shaded.

A color terminal shows background colors; other outputs (a pipe, a file) get the characters `·░▒▓█`. Only a
weight of exactly 0 is blank. A map that is too wide for the terminal is split into blocks of columns, one
below the other.
"""

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions
from rich.style import Style
from rich.text import Text

from regard.plot.style import Colormap, LabeledMaps, clip_label, label_maps

# From dark to bright through three hues: distinguishable on a dark and on a light terminal.
_COLORMAP = Colormap(((52, 24, 94), (58, 82, 139), (32, 145, 140), (94, 201, 97), (250, 230, 50)))
# A weight gets the first shade whose limit is larger than the weight.
_LIMITS = (0.05, 0.25, 0.5, 0.75)
_SHADES = "·░▒▓█"
_COLUMN = 2  # terminal cells per column, because a cell is about twice as high as wide
_LABEL_ROWS = 12
_LABEL_CELLS = 20


@dataclass(frozen=True)
class TerminalMap:
    """An attention map for `rich.console.Console.print`.

    Attributes:
        grid: The weights and their labels.
    """

    grid: LabeledMaps

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Render the map and a legend of the shades, in color if the console supports it."""
        # A console with 16 colors gets characters: 16 colors are too few for shades.
        color = console.color_system in ("256", "truecolor") and not console.no_color
        yield from _draw(self.grid, options.max_width, color)
        line = Text("blank 0   ")
        if color:
            shades = (_cell((i + 0.5) / 8, color) for i in range(8))
            yield line.append_text(Text.assemble(*shades, " 1"))
            return
        for low, high in zip((0.01, *_LIMITS), (*_LIMITS, 1), strict=True):
            line.append_text(Text.assemble(_cell(low, color), f" <{high}  " if high < 1 else " more"))
        yield line


def terminal_map(
    weights: Float[np.ndarray, "T S"], source: Sequence[str], target: Sequence[str]
) -> TerminalMap:
    """Return an attention map for a terminal, an object for `rich.console.Console.print`.

    Args:
        weights: The map.
        source: Source words, one per column.
        target: Target words, one per row.

    Raises:
        DataError: if the shapes of weights and words do not match.
    """
    return TerminalMap(label_maps(weights, source, target))


def _cell(weight: float, use_color: bool) -> Text:
    """Return a cell with a background color, or as characters."""
    if weight == 0:
        return Text(" " * _COLUMN)
    if not (np.isfinite(weight) and weight > 0):
        return Text("?" * _COLUMN, Style(bold=True))
    if use_color:
        return Text(" " * _COLUMN, Style(bgcolor=_COLORMAP.color(weight)))
    return Text(_SHADES[bisect.bisect_right(_LIMITS, weight)] * _COLUMN)


def _draw(grid: LabeledMaps, width: int, use_color: bool) -> Iterator[Text]:
    room = max(min(_LABEL_CELLS, width // 3), 1)
    names = [clip_label(label, room) for label in grid.target]
    margin = max((cell_len(name) for name in names), default=0) + 1
    fitting = max((width - margin) // _COLUMN, 1)
    for start in range(0, max(len(grid.source), 1), fitting):
        stop = min(start + fitting, len(grid.source))
        if start:
            yield Text()
        if stop - start < len(grid.source):
            # Counted from 1, for readers of the text.
            yield Text(f"source words {start + 1} to {stop} of {len(grid.source)}", Style(dim=True))
        yield from _header(grid.source[start:stop], margin)
        for t, name in enumerate(names):
            line = Text(" " * (margin - 1 - cell_len(name)) + name + " ", no_wrap=True, overflow="crop")
            # Omit blank cells at the end, which would be trailing spaces in a file.
            for weight in np.trim_zeros(grid.weights[0, t, start:stop], "b"):
                line.append_text(_cell(float(weight), use_color))
            yield line


def _header(labels: Sequence[str], margin: int) -> Iterator[Text]:
    """Return lines with the labels in vertical writing, each ending just above its column."""
    columns = [_characters(label) for label in labels]
    height = max((len(column) for column in columns), default=0)
    for row in range(height):
        cells = (column[i] if (i := row - (height - len(column))) >= 0 else "" for column in columns)
        line = "".join(set_cell_size(cell, _COLUMN) for cell in cells)
        yield Text((" " * margin + line).rstrip(), no_wrap=True, overflow="crop")


def _characters(label: str) -> list[str]:
    """Split a label into characters, each with its combining characters, and clip it to `_LABEL_ROWS`."""
    characters: list[str] = []
    for c in label:
        if characters and cell_len(c) == 0:
            characters[-1] += c
        else:
            characters.append(c)
    return characters if len(characters) <= _LABEL_ROWS else [*characters[: _LABEL_ROWS - 1], "…"]
