"""The color scales of attention maps, linear, square root and logarithmic, with their legends."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from rich.cells import cell_len

from regard.errors import UsageError
from regard.plot.style import Colormap

__all__ = [
    "INVALID_COLOR",
    "LEGEND_STEP",
    "ColorScale",
    "MapScale",
    "weight_color",
    "weight_scale",
]

MapScale = Literal["linear", "sqrt", "log"]

_BLUES = Colormap(((234, 242, 251), (150, 191, 229), (70, 136, 199), (26, 80, 152), (6, 34, 84)))
INVALID_COLOR = "#ff4fa3"
LEGEND_STEP = 8
"""Width of a color in the legend in pixels."""
_SMALL_CHARACTER = 6.2  # width of a character of a legend in pixels


@dataclass(frozen=True)
class ColorScale:
    """A color scale with its legend.

    Attributes:
        fill: Function from a number to its color.
        low: Label of the first color in the legend.
        high: Label of the last color in the legend.
        steps: Colors in the legend.
        outline: Color of the outline of gold links.
        white_box: Whether the legend begins with a white box for exactly 0.
    """

    fill: Callable[[float], str]
    low: str
    high: str
    steps: tuple[str, ...]
    outline: str
    white_box: bool = False

    @property
    def places(self) -> tuple[float, float, float]:
        """Return the left edges of the lower label, of the colors and of the upper label in pixels."""
        start = 18.0 if self.white_box else 0.0
        bar = start + _SMALL_CHARACTER * cell_len(self.low) + 10
        return start, bar, bar + LEGEND_STEP * len(self.steps) + 6

    @property
    def width(self) -> float:
        """Return the width of the legend in pixels."""
        return self.places[2] + _SMALL_CHARACTER * cell_len(self.high)


def weight_color(weight: float, scale: str = "linear") -> str:
    """Return the color of a weight: white for exactly 0, pink for negative or non-finite values."""
    if weight == 0:
        return "#ffffff"
    # An invalid value must not look like a weight.
    return _BLUES.color(_PLACES[scale](weight)) if np.isfinite(weight) and weight > 0 else INVALID_COLOR


def weight_scale(scale: str) -> ColorScale:
    """Return the color scale of attention weights, with its legend.

    Args:
        scale: `linear`; `sqrt` and `log` give small weights more colors, as on the pages of regard.

    Raises:
        UsageError: if there is no such scale.
    """
    if scale not in _PLACES:
        raise UsageError(f"scale={scale!r}: expected {', '.join(map(repr, _PLACES))}")
    steps = tuple(_BLUES.color((step + 0.5) / 10) for step in range(10))
    low, high = _LEGENDS[scale]
    return ColorScale(partial(weight_color, scale=scale), low, high, steps, outline="#e0521b", white_box=True)


_DECADES = 4  # of the logarithmic scale; smaller weights have its first color
_PLACES: dict[str, Callable[[float], float]] = {
    "linear": float,
    "sqrt": math.sqrt,
    "log": lambda weight: max(0.0, 1 + math.log10(weight) / _DECADES),
}
_LEGENDS = {"linear": ("0", "1"), "sqrt": ("0", "1 (square root)"), "log": ("0, 0.0001", "1 (logarithmic)")}
