"""The difference of two attention maps: red where one system attends more, blue where the other does.

Shankar & Sarawagi (2019), Figure 2. Exactly equal weights are white; every other difference has a color.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.data.links import GoldLinks
from regard.errors import DataError
from regard.plotting.colormap import Colormap, clip_label, label_maps, printable
from regard.plotting.heatmap import INVALID_COLOR, ColorScale, HeatMap

__all__ = ["difference_heatmap"]

_REDS = Colormap(((253, 238, 232), (246, 178, 147), (217, 95, 70), (168, 22, 40), (92, 0, 24)))
_BLUES = Colormap(((234, 242, 251), (156, 198, 232), (70, 136, 199), (26, 80, 152), (6, 34, 84)))
_GOLD = "#f0b000"  # visible on the darkest red and blue and on white
_NAME = 40
_STEPS = 6  # colors of each sign in the legend


def difference_heatmap(
    differences: Float[np.ndarray, "T S"] | Float[np.ndarray, "N T S"],
    source: Sequence[str],
    target: Sequence[str],
    names: tuple[str, str],
    title: str | None = None,
    captions: Sequence[str] | None = None,
    gold: GoldLinks | None = None,
) -> HeatMap:
    """Return the difference of maps (`regard.metrics.maps.map_difference`) as a heat map.

    Args:
        differences: One difference, or several over the same words; values between -1 and 1.
        source: Source words, one per column.
        target: Target words, one per row.
        names: The system that has more attention where a difference is positive (red), and the one where it
            is negative (blue).
        title: Title above the picture.
        captions: One caption per difference.
        gold: Gold links to outline.

    Raises:
        DataError: if the names are equal, or the shapes of differences, words and captions do not match.
    """
    if len(set(names)) != 2:
        raise DataError(f"both systems of a difference are named {names[0]!r}: give them different names")
    red, blue = (f"more in {clip_label(printable(name), _NAME)}" for name in names)
    steps = tuple(_cell_color((step + 0.5) / _STEPS) for step in range(-_STEPS, _STEPS))
    scale = ColorScale(_cell_color, blue, red, steps, _GOLD)
    return HeatMap(label_maps(differences, source, target, captions), scale, title, gold)


def _cell_color(difference: float) -> str:
    if not np.isfinite(difference):
        return INVALID_COLOR
    if difference == 0:
        return "#ffffff"
    return (_REDS if difference > 0 else _BLUES).color(abs(difference))
