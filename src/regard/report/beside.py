"""Finished pictures beside each other in one, each with a name above it."""

import re
from collections.abc import Mapping

from rich.cells import cell_len

from regard.report.svg import picture, text

__all__ = ["svg_beside"]

_GAP = 10.0
_HEAD = 26.0
_MARGIN = 12.0
_CHARACTER = 7.6
_SIZE = re.compile(r'<svg [^>]*?width="(\d+)" height="(\d+)"')


def svg_beside(pictures: Mapping[str, str], title: str, description: str, widest: int = 1400) -> str:
    """Put pictures into one: from left to right, and on below where they would be too wide.

    Args:
        pictures: SVG by name.
        title: What they are, for screen readers.
        description: What there is to see, for screen readers.
        widest: Pixels across before the next goes below.

    Returns:
        The text of an SVG file.
    """
    parts: list[str] = []
    x = y = tallest = across = 0.0
    for name, svg in pictures.items():
        found = _SIZE.search(svg)
        assert found is not None
        own_width, height = (float(size) for size in found.groups())
        width = max(own_width, 2 * _MARGIN + _CHARACTER * cell_len(name))
        if x and x + width > widest:
            x, y, tallest = 0.0, y + tallest + _GAP, 0.0
        parts.append(text((x + _MARGIN, y + _HEAD - 6), name, font_weight="bold"))
        parts.append(svg.replace("<svg ", f'<svg x="{x:g}" y="{y + _HEAD:g}" ', 1))
        x, tallest = x + width + _GAP, max(tallest, _HEAD + height)
        across = max(across, x - _GAP)
    return picture(across, y + tallest, title, description, parts)
