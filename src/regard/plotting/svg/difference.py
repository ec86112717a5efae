"""Plot the difference of two attention maps: red where one system attends more, blue where the other does.

Shankar & Sarawagi (2019), Figure 2. Exactly equal weights are white; every other difference has a color.
"""

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len

from regard.data.links import GoldLinks
from regard.errors import DataError
from regard.metrics.maps import AttentionMap, map_difference, match_columns
from regard.plotting.colormap import Colormap, clip_label, label_maps, printable
from regard.plotting.svg.heatmap import INVALID_COLOR, ColorScale, attention_svg, heatmap_svg

__all__ = ["difference_svg", "plot_maps_and_differences"]

_REDS = Colormap(((253, 238, 232), (246, 178, 147), (217, 95, 70), (168, 22, 40), (92, 0, 24)))
_BLUES = Colormap(((234, 242, 251), (156, 198, 232), (70, 136, 199), (26, 80, 152), (6, 34, 84)))
_GOLD = "#f0b000"  # visible on the darkest red and blue and on white
_CHARACTER = 6.2
_NAME = 40


def difference_svg(
    differences: Float[np.ndarray, "T S"] | Float[np.ndarray, "N T S"],
    source: Sequence[str],
    target: Sequence[str],
    names: tuple[str, str],
    title: str | None = None,
    captions: Sequence[str] | None = None,
    gold: GoldLinks | None = None,
) -> str:
    """Plot the difference of maps (`regard.metrics.maps.map_difference`) as a heat map.

    Args:
        differences: One difference, or several over the same words; values between -1 and 1.
        source: Source words, one per column.
        target: Target words, one per row.
        names: The system that has more attention where a difference is positive (red), and the one where it
            is negative (blue).
        title: Title above the picture.
        captions: One caption per difference.
        gold: Gold links to outline.

    Returns:
        The text of an SVG file.

    Raises:
        DataError: if the shapes of differences, words and captions do not match.
    """
    if len(set(names)) != 2:
        raise DataError(f"both systems of a difference are named {names[0]!r}: give them different names")
    grid = label_maps(differences, source, target, captions)
    return heatmap_svg(
        grid, _diverging_colormap(*(clip_label(printable(name), _NAME) for name in names)), title, gold
    )


def plot_maps_and_differences(
    line: int,
    maps: Mapping[str, AttentionMap],
    gold: GoldLinks | None = None,
) -> dict[str, str]:
    """Return pictures of the maps of several systems, and of their differences from the first system.

    Args:
        line: Number of the sentence, for file names and titles.
        maps: Map of each system by name, over the same words. If one has a sink, all get its column.
        gold: Gold links to outline.

    Returns:
        SVG texts by file name: `maps-LINE.svg`, and `difference-LINE.svg` or one file per system.

    Raises:
        DataError: if the maps have different words.
    """
    matched = match_columns(maps)
    (first, base), *others = matched.items()
    source, target = base.columns, base.target
    stacked = np.stack([one.weights for one in matched.values()])
    title = f"Line {line}"
    pictures = {f"maps-{line}.svg": attention_svg(stacked, source, target, title, list(maps), gold)}
    for name, one in others:
        file = f"difference-{line}.svg" if len(others) == 1 else f"difference-{line}-{name}.svg"
        difference = map_difference(one, base, (name, first)).weights
        pictures[file] = difference_svg(difference, source, target, (name, first), title, gold=gold)
    return pictures


def _cell_color(difference: float) -> str:
    if not np.isfinite(difference):
        return INVALID_COLOR
    if difference == 0:
        return "#ffffff"
    return (_REDS if difference > 0 else _BLUES).color(abs(difference))


def _diverging_colormap(red: str, blue: str) -> ColorScale:
    """Return a diverging color scale from blue (-1) to red (1), with its legend."""
    red, blue = f"more in {red}", f"more in {blue}"
    width = _CHARACTER * cell_len(blue)
    steps = [(step + 0.5) / 6 for step in range(-6, 6)]
    parts = [f'<text x="0" y="10">{escape(blue)}</text>']
    parts += [
        f'<rect x="{width + 10 + 9 * i:.1f}" width="9" height="12" fill="{_cell_color(step)}"/>'
        for i, step in enumerate(steps)
    ]
    end = width + 10 + 9 * len(steps) + 10
    parts.append(f'<text x="{end:.1f}" y="10">{escape(red)}</text>')
    return ColorScale(_cell_color, tuple(parts), end + _CHARACTER * cell_len(red), outline=_GOLD)
