"""Pictures made of boxes, labels and lines, as self-contained SVG and with matplotlib.

Positions and lengths are in pixels of 1/96 inch, from the upper left corner. An SVG picture has no scripts,
external fonts or styles. It has its own white background, so that it looks the same on a light and on a dark
page, and a title and a description for screen readers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from regard.plot.style import INK, Length, Point, printable

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = [
    "FONT",
    "Box",
    "Label",
    "Segment",
    "Shape",
    "plot_shapes",
    "svg_document",
    "svg_parts",
]

FONT = 13
"""Default size of text in pixels."""
_POINT = 0.75  # pixels in points


@dataclass(frozen=True)
class Box:
    """A rectangle.

    Attributes:
        at: Upper left corner.
        size: Width and height.
        fill: Color; `none` for no background.
        stroke: Color of the border.
        stroke_width: Width of the border.
        opacity: Opacity of the background.
        radius: Radius of the corners.
        tip: Tooltip of the SVG form.
    """

    at: Point
    size: Point
    fill: str = "none"
    stroke: str = "none"
    stroke_width: Length = 1
    opacity: Length = 1
    radius: Length = 0
    tip: str = ""


@dataclass(frozen=True)
class Label:
    """A line of text.

    Attributes:
        at: Position of the baseline's start, middle or end.
        content: Plain text.
        anchor: The part of the baseline at `at`: `start`, `middle` or `end`.
        color: Color of the text.
        bold: Whether the text is bold.
        size: Size of the font.
    """

    at: Point
    content: str
    anchor: str = "start"
    color: str = INK
    bold: bool = False
    size: Length = FONT


@dataclass(frozen=True)
class Segment:
    """A straight line with round ends."""

    start: Point
    end: Point
    color: str
    width: Length
    opacity: Length


Shape = Box | Label | Segment


def svg_document(size: Point, title: str, description: str, parts: Iterable[str]) -> str:
    """Return the text of an SVG file.

    Args:
        size: Width and height.
        title: Accessible title.
        description: Accessible description.
        parts: SVG elements, from the bottom to the top.
    """
    width, height = size
    place = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {place} role="img" '
            f'font-family="sans-serif" font-size="{FONT}" fill="{INK}">',
            f"<title>{escape(printable(title))}</title>",
            f"<desc>{escape(printable(description))}</desc>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def svg_parts(shapes: Iterable[Shape]) -> list[str]:
    """Return shapes as SVG elements."""
    return [_element(shape) for shape in shapes]


def _element(shape: Shape) -> str:
    x, y = shape.start if isinstance(shape, Segment) else shape.at
    if isinstance(shape, Segment):
        u, v = shape.end
        place: dict[str, str | Length] = {"x1": x, "y1": y, "x2": u, "y2": v}
        style = {"stroke": shape.color, "stroke-width": shape.width, "opacity": shape.opacity}
        return f'<line{_attributes(place | style)} stroke-linecap="round"/>'
    place = {"x": x, "y": y}
    if isinstance(shape, Label):
        style = {} if shape.anchor == "start" else {"text-anchor": shape.anchor}
        style |= {} if shape.color == INK else {"fill": shape.color}
        style |= {"font-weight": "bold"} if shape.bold else {}
        style |= {} if shape.size == FONT else {"font-size": shape.size}
        # A label does not hide the tooltip of the box below it.
        attributes = _attributes(place | style | {"pointer-events": "none"})
        return f"<text{attributes}>{escape(printable(shape.content))}</text>"
    place |= {"width": shape.size[0], "height": shape.size[1], "fill": shape.fill}
    style = {} if shape.stroke == "none" else {"stroke": shape.stroke, "stroke-width": shape.stroke_width}
    style |= {"fill-opacity": shape.opacity} if shape.opacity != 1 else {}
    style |= {"rx": shape.radius} if shape.radius else {}
    head = f"<rect{_attributes(place | style)}"
    return f"{head}><title>{escape(printable(shape.tip))}</title></rect>" if shape.tip else f"{head}/>"


def _attributes(style: dict[str, Any]) -> str:
    return "".join(
        f" {name}={quoteattr(value if isinstance(value, str) else f'{round(value, 3):g}')}"
        for name, value in style.items()
    )


def plot_shapes(ax: "matplotlib.axes.Axes", shapes: Sequence[Shape], size: Point | None = None) -> None:
    """Plot shapes with matplotlib.

    Args:
        ax: The axes. Their frame and numbers are hidden.
        shapes: The shapes, from the bottom to the top.
        size: Width and height of the picture, to which the limits of the axes are set. Default: no change.
    """
    from matplotlib.colors import to_rgba
    from matplotlib.patches import FancyBboxPatch

    if size is not None:
        ax.set(xlim=(0, size[0]), ylim=(size[1], 0))
    ax.set_axis_off()
    for shape in shapes:
        if isinstance(shape, Segment):
            ends = zip(shape.start, shape.end, strict=True)
            style: dict[str, Any] = {"color": shape.color, "alpha": shape.opacity, "linestyle": "-"}
            ax.plot(*ends, linewidth=_POINT * shape.width, solid_capstyle="round", **style)
        elif isinstance(shape, Label):
            side = {"start": "left", "middle": "center", "end": "right"}[shape.anchor]
            style = {"color": shape.color, "fontsize": _POINT * shape.size, "horizontalalignment": side}
            style |= {"fontweight": "bold"} if shape.bold else {}
            ax.text(*shape.at, printable(shape.content), **style)
        else:
            fill = "none" if shape.fill == "none" else to_rgba(shape.fill, float(shape.opacity))
            style = {"facecolor": fill, "edgecolor": shape.stroke, "linewidth": _POINT * shape.stroke_width}
            corners = f"round,pad=0,rounding_size={shape.radius}" if shape.radius else "square,pad=0"
            ax.add_patch(FancyBboxPatch(shape.at, *shape.size, boxstyle=corners, **style))
