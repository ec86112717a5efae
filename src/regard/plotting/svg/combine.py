"""Combine several SVG pictures into one, each with its name above it."""

import re
from collections.abc import Mapping

from rich.cells import cell_len

from regard.plotting.svg.document import svg_document, text

__all__ = ["combine_svgs"]

_GAP = 10.0
_HEAD = 26.0
_MARGIN = 12.0
_CHARACTER = 7.6
_SIZE = re.compile(r'<svg [^>]*?width="(\d+)" height="(\d+)"')


def combine_svgs(pictures: Mapping[str, str], title: str, description: str, max_width: int = 1400) -> str:
    """Arrange pictures from left to right, and start a new row where the width is exceeded.

    Args:
        pictures: SVG texts by name.
        title: Accessible title of the combined picture.
        description: Accessible description of the combined picture.
        max_width: Maximum width of a row in pixels.

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
        if x and x + width > max_width:
            x, y, tallest = 0.0, y + tallest + _GAP, 0.0
        parts.append(text((x + _MARGIN, y + _HEAD - 6), name, font_weight="bold"))
        parts.append(svg.replace("<svg ", f'<svg x="{x:g}" y="{y + _HEAD:g}" ', 1))
        x, tallest = x + width + _GAP, max(tallest, _HEAD + height)
        across = max(across, x - _GAP)
    return svg_document(across, y + tallest, title, description, parts)
