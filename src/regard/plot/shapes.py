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

__all__ = ["FONT", "Box", "Label", "Segment", "Shape", "ShapeGroup", "plot_shapes", "svg_document"]

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
        dashed: Whether the border is dashed.
        opacity: Opacity of the background.
        radius: Radius of the corners.
        tip: Tooltip of the SVG form. A box without one does not hide the tooltip of the box below it.
    """

    at: Point
    size: Point
    fill: str = "none"
    stroke: str = "none"
    stroke_width: Length = 1
    dashed: bool = False
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
        underlined: Whether the text is underlined in the SVG form.
        size: Size of the font.
        angle: Angle in degrees by which the text rises.
        tip: Tooltip of the SVG form.
    """

    at: Point
    content: str
    anchor: str = "start"
    color: str = INK
    bold: bool = False
    underlined: bool = False
    size: Length = FONT
    angle: int = 0
    tip: str = ""


@dataclass(frozen=True)
class Segment:
    """A straight line with round ends."""

    start: Point
    end: Point
    color: str
    width: Length
    opacity: Length


@dataclass(frozen=True)
class ShapeGroup:
    """Shapes whose positions are relative to a point."""

    at: Point
    shapes: Sequence["Shape"]


Shape = Box | Label | Segment | ShapeGroup


def svg_document(size: Point, title: str, description: str, shapes: Iterable[Shape]) -> str:
    """Return the text of an SVG file.

    Args:
        size: Width and height.
        title: Accessible title.
        description: Accessible description.
        shapes: The shapes, from the bottom to the top.
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
            *map(_element, shapes),
            "</svg>\n",
        ]
    )


def _element(shape: Shape) -> str:
    """Return a shape as an SVG element. Attributes with the default of SVG are omitted."""
    if isinstance(shape, ShapeGroup):
        x, y = (round(side, 1) for side in shape.at)
        return "\n".join([f'<g transform="translate({x:g} {y:g})">', *map(_element, shape.shapes), "</g>"])
    if isinstance(shape, Segment):
        (x, y), (u, v) = shape.start, shape.end
        place: dict[str, Any] = {"x1": x, "y1": y, "x2": u, "y2": v}
        style = {"stroke": shape.color, "stroke-width": shape.width, "opacity": shape.opacity}
        return f'<line{_attributes(place | style)} stroke-linecap="round"/>'
    x, y = shape.at
    if isinstance(shape, Label):
        style = {"transform": f"translate({x:.1f} {y:.1f}) rotate({-shape.angle})"} if shape.angle else {}
        style |= {} if shape.angle else {"x": x, "y": y}
        style |= {} if shape.anchor == "start" else {"text-anchor": shape.anchor}
        style |= {} if shape.color == INK else {"fill": shape.color}
        style |= {"font-weight": "bold"} if shape.bold else {}
        style |= {"text-decoration": "underline"} if shape.underlined else {}
        style |= {} if shape.size == FONT else {"font-size": shape.size}
        name, content = "text", escape(printable(shape.content))
    else:
        style = {"x": x, "y": y, "width": shape.size[0], "height": shape.size[1], "fill": shape.fill}
        if shape.stroke != "none":
            style |= {"stroke": shape.stroke, "stroke-width": shape.stroke_width}
        style |= {"stroke-dasharray": "4 3"} if shape.dashed else {}
        style |= {"fill-opacity": shape.opacity} if shape.opacity != 1 else {}
        style |= {"rx": shape.radius} if shape.radius else {}
        name, content = "rect", ""
    if shape.tip:
        content += f"<title>{escape(printable(shape.tip))}</title>"
    else:
        # Otherwise the shape would hide the tooltip of the box below it.
        style["pointer-events"] = "none"
    return f"<{name}{_attributes(style)}>{content}</{name}>"


def _attributes(style: dict[str, Any]) -> str:
    return "".join(
        f" {name}={quoteattr(value if isinstance(value, str) else f'{round(value, 3):g}')}"
        for name, value in style.items()
    )


def plot_shapes(ax: "matplotlib.axes.Axes", shapes: Iterable[Shape], origin: Point = (0, 0)) -> None:
    """Plot shapes on matplotlib axes whose unit is a pixel.

    Args:
        ax: The axes.
        shapes: The shapes, from the bottom to the top.
        origin: The point to which the positions of the shapes are relative.
    """
    from matplotlib.colors import to_rgba
    from matplotlib.patches import FancyBboxPatch

    left, top = origin
    for shape in shapes:
        if isinstance(shape, ShapeGroup):
            plot_shapes(ax, shape.shapes, (left + shape.at[0], top + shape.at[1]))
        elif isinstance(shape, Segment):
            xs, ys = zip(shape.start, shape.end, strict=True)
            style: dict[str, Any] = {"color": shape.color, "alpha": shape.opacity, "linestyle": "-"}
            style |= {"linewidth": _POINT * shape.width, "solid_capstyle": "round"}
            ax.plot([left + x for x in xs], [top + y for y in ys], **style)
        elif isinstance(shape, Label):
            side = {"start": "left", "middle": "center", "end": "right"}[shape.anchor]
            style = {"color": shape.color, "fontsize": _POINT * shape.size, "horizontalalignment": side}
            style |= {"rotation": shape.angle, "rotation_mode": "anchor"}
            style |= {"fontweight": "bold"} if shape.bold else {}
            ax.text(left + shape.at[0], top + shape.at[1], printable(shape.content), **style)
        else:
            fill = "none" if shape.fill == "none" else to_rgba(shape.fill, float(shape.opacity))
            style = {"facecolor": fill, "edgecolor": shape.stroke, "linewidth": _POINT * shape.stroke_width}
            style |= {"linestyle": (0, (2, 1.5))} if shape.dashed else {}
            corners = f"round,pad=0,rounding_size={shape.radius}" if shape.radius else "square,pad=0"
            at = left + shape.at[0], top + shape.at[1]
            ax.add_patch(FancyBboxPatch(at, *shape.size, boxstyle=corners, **style))
