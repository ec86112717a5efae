"""Build SVG pictures with pure functions from numbers to text, without scripts, external fonts or styles.

Every picture has its own white background, so that it looks the same on a light and on a dark page. It has a
title and a description for screen readers.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

from regard.plotting.colormap import INK, printable

__all__ = [
    "Length",
    "Point",
    "format_coordinate",
    "line",
    "polygon",
    "svg_document",
    "text",
]

# The runtime type checks of the tests do not accept an int for a float.
Length = int | float
Point = tuple[Length, Length]

_FONT = 13


def svg_document(width: Length, height: Length, title: str, description: str, parts: Iterable[str]) -> str:
    """Return the text of an SVG file.

    Args:
        width: Width in pixels.
        height: Height in pixels.
        title: Accessible title.
        description: Accessible description.
        parts: SVG elements, from the bottom to the top.
    """
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
            f'font-family="sans-serif" font-size="{_FONT}" fill="{INK}">',
            f"<title>{escape(printable(title))}</title>",
            f"<desc>{escape(printable(description))}</desc>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def format_coordinate(value: Length) -> str:
    """Return a coordinate rounded to a tenth of a pixel."""
    shown = f"{value:.1f}"
    shown = shown[:-2] if shown.endswith(".0") else shown
    return "0" if shown == "-0" else shown


def text(at: Point, content: str, anchor: str = "start", **style: str | Length) -> str:
    """Return a text element.

    Args:
        at: Position of the baseline's start, middle or end.
        content: Plain text.
        anchor: The part of the baseline at `at`: `start`, `middle` or `end`.
        style: SVG attributes; `_` in a name becomes `-`.
    """
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    place = f'x="{format_coordinate(at[0])}" y="{format_coordinate(at[1])}"'
    return f"<text {place}{where}{_attributes(style)}>{escape(printable(content))}</text>"


def line(points: Sequence[Point], **style: str | Length) -> str:
    """Return an open line through points; `_` in the name of an attribute becomes `-`."""
    return f'<path d="{_path(points)}" fill="none"{_attributes(style)}/>'


def polygon(points: Sequence[Point], tooltip: str = "", **style: str | Length) -> str:
    """Return a closed polygon, or an empty text for fewer than three corners.

    Args:
        points: The corners.
        tooltip: Tooltip.
        style: SVG attributes; `_` in a name becomes `-`.
    """
    return _element("path", f' d="{_path(points)}z"', tooltip, style) if len(points) >= 3 else ""


def _path(points: Sequence[Point]) -> str:
    """Return path data of relative moves in tenths of a pixel, so that rounding errors do not accumulate."""
    tenths = [(round(10 * x), round(10 * y)) for x, y in points]
    moves = [f"M{_tenths(tenths[0][0])} {_tenths(tenths[0][1])}"] if tenths else []
    for (x, y), (u, v) in pairwise(tenths):
        moves.append(f"l{_tenths(u - x)} {_tenths(v - y)}")
    return "".join(moves)


def _tenths(value: int) -> str:
    return format_coordinate(value / 10)


def _element(name: str, place: str, tip: str, style: dict[str, str | Length]) -> str:
    head = f"<{name}{place}{_attributes(style)}"
    return f"{head}><title>{escape(tip)}</title></{name}>" if tip else f"{head}/>"


def _attributes(style: dict[str, str | Length]) -> str:
    return "".join(
        f" {name.replace('_', '-')}={quoteattr(value if isinstance(value, str) else f'{value:g}')}"
        for name, value in style.items()
    )
