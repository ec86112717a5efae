"""Elements of self-contained SVG pictures: rectangles, labels and groups, whose lengths are in pixels.

A picture has no scripts, external fonts or styles. It has its own white background, so that it looks the same
on a light and on a dark page, and a title and a description for screen readers.
"""

from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from regard.plot.style import INK, Length, Point, printable

FONT = 13
"""Default size of text in pixels."""


def document(size: Point, title: str, description: str, elements: Iterable[str]) -> str:
    """Return the text of an SVG file with an accessible title and description, from the bottom to the top."""
    width, height = size
    place = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    head = f'font-family="sans-serif" font-size="{FONT}" fill="{INK}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {place} role="img" {head}>',
            f"<title>{escape(printable(title))}</title>",
            f"<desc>{escape(printable(description))}</desc>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *elements,
            "</svg>\n",
        ]
    )


def group(at: Point, elements: Iterable[str]) -> str:
    """Return elements whose positions are relative to a point."""
    x, y = (round(side, 1) for side in at)
    return "\n".join([f'<g transform="translate({x:g} {y:g})">', *elements, "</g>"])


def rectangle(at: Point, size: Point, fill: str = "none", tip: str = "", **style: Any) -> str:
    """Return a rectangle with its upper left corner at a point; `style` has further attributes."""
    place = {"x": at[0], "y": at[1], "width": size[0], "height": size[1], "fill": fill}
    return _element("rect", place | {name.replace("_", "-"): value for name, value in style.items()}, "", tip)


def label(
    at: Point,
    content: str,
    *,
    anchor: str = "start",
    color: str = INK,
    marked: bool = False,
    bold: bool = False,
    size: Length = FONT,
    angle: int = 0,
    tip: str = "",
) -> str:
    """Return a line of text; attributes with the default of SVG are omitted.

    Args:
        at: Position of the baseline's start or end.
        content: Plain text.
        anchor: The part of the baseline at `at`: `start` or `end`.
        color: Color of the text.
        marked: Whether the text is bold and underlined.
        bold: Whether the text is bold.
        size: Size of the font.
        angle: Angle in degrees by which the text rises.
        tip: Tooltip.
    """
    x, y = at
    turned = {"transform": f"translate({x:.1f} {y:.1f}) rotate({-angle})"}
    style: dict[str, Any] = turned if angle else {"x": x, "y": y}
    style |= {} if anchor == "start" else {"text-anchor": anchor}
    style |= {} if color == INK else {"fill": color}
    style |= {"font-weight": "bold"} if bold or marked else {}
    style |= {"text-decoration": "underline"} if marked else {}
    style |= {} if size == FONT else {"font-size": size}
    return _element("text", style, escape(printable(content)), tip)


def _element(name: str, style: dict[str, Any], content: str, tip: str) -> str:
    """Return an element with its tooltip. Without one, the tooltip of the element below it stays visible."""
    if tip:
        content += f"<title>{escape(printable(tip))}</title>"
    else:
        style["pointer-events"] = "none"
    attributes = "".join(
        f" {key}={quoteattr(value if isinstance(value, str) else f'{round(value, 3):g}')}"
        for key, value in style.items()
    )
    return f"<{name}{attributes}>{content}</{name}>"
