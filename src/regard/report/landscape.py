"""Plot softmax and sparsemax in two and three dimensions (Martins, 2020), with the last score fixed at 0.

In two dimensions the weight of the first position is a curve. In three dimensions it is a surface over the
two free scores, shown in perspective and from above. In the view from above, straight lines separate the
regions in which sparsemax has the same support. The support is A where z_i > tau_A for i in A and
z_i <= tau_A for all other i, with tau_A = (sum_A z_i - 1) / |A| (Martins & Astudillo (2016), Prop. 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float

from regard.plotting.colormap import Colormap
from regard.plotting.svg.document import (
    INK,
    MUTED,
    Length,
    Point,
    clip_polygon,
    line,
    polygon,
    svg_document,
    text,
)

__all__ = ["Surface", "plot_curves", "plot_surfaces", "support_regions"]

# From just above 0 to 1; exactly 0 is white, as in attention maps.
_RAMP = Colormap(((222, 235, 247), (158, 202, 225), (107, 174, 214), (49, 130, 189), (8, 69, 148)))
_COLORS = ("#c2410c", "#2f6db3", "#15803d")
_GRID = "#e3e3e3"
_HALO = {"stroke": "#ffffff", "stroke_width": 3, "paint_order": "stroke", "stroke_linejoin": "round"}
_FRAME = "#8a8f98"

# Lengths in pixels.
_MARGIN = 12
_PANEL = 404
_TOP_VIEW_SIZE = 270  # side of the square in the view from above
_TILT = 26.0  # horizontal length of one unit of score in the perspective view
_RISE = 0.46  # vertical length per horizontal length in the perspective view
_WEIGHT_HEIGHT = 112  # height of a weight of 1
_BANDS = 10


def plot_curves(differences: Float[np.ndarray, "N"], curves: dict[str, Float[np.ndarray, "N"]]) -> str:
    """Plot the weight of the first of two positions against the difference of their scores.

    Args:
        differences: z1 - z2, increasing.
        curves: The weight at each difference, by the name of the transformation.

    Returns:
        The text of an SVG file.
    """
    left, top, width, height = 64.0, 16.0, 430.0, 240.0
    low, high = float(differences[0]), float(differences[-1])

    def place(t: Length, p: Length) -> Point:
        return left + width * (t - low) / (high - low), top + height * (1 - p)

    parts: list[str] = []
    for t in range(int(np.ceil(low)), int(np.floor(high)) + 1):
        x, y = place(t, 0)
        parts.append(line([(x, y), (x, top)], stroke=_GRID))
        parts.append(text((x, y + 17), f"{t}".replace("-", "−"), "middle", fill=MUTED, font_size=12))
    for p in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = place(low, p)
        parts.append(line([(x, y), (x + width, y)], stroke=_GRID))
        parts.append(text((x - 7, y + 4), f"{p:g}", "end", fill=MUTED, font_size=12))
    parts.append(text((left + width / 2, top + height + 38), "z₁ − z₂", "middle"))
    parts.append(text((8, top + height / 2 + 4), "p₁"))
    for i, (name, curve) in enumerate(curves.items()):
        points = _simplify([place(float(t), float(p)) for t, p in zip(differences, curve, strict=True)])
        dashes = {"stroke_dasharray": "7 4"} if i else {}
        parts.append(line(points, stroke=_COLORS[i], stroke_width=2.5, **dashes))
        y = top + 26 + 22 * i
        parts.append(line([(left + 14, y), (left + 46, y)], stroke=_COLORS[i], stroke_width=2.5, **dashes))
        parts.append(text((left + 54, y + 4), name))
    summary = "The weight of the first of two positions against the difference of their scores: "
    summary += _ends(differences, curves)
    return svg_document(
        left + width + 20, top + height + 50, f"{' and '.join(curves)} of two scores", summary, parts
    )


def _ends(differences: np.ndarray, curves: dict[str, np.ndarray]) -> str:
    """Describe in words where each curve is exactly 0 and 1."""
    summary: list[str] = []
    for name, curve in curves.items():
        zeros, ones = differences[curve == 0], differences[curve == 1]
        if len(zeros) and len(ones):
            summary.append(f"{name} is 0 up to {zeros[-1]:g} and 1 from {ones[0]:g}")
        else:
            summary.append(f"{name} is never 0 or 1")
    return "; ".join(summary) + "."


@dataclass(frozen=True)
class Surface:
    """The weight of the first of three positions; the score of the third is 0.

    Attributes:
        name: Name of the transformation.
        max_score: The two free scores range from -max_score to max_score.
        coarse: Weights on a square grid for the perspective view; rows vary the second score, columns the
            first.
        fine: Weights on a finer grid for the view from above; non-decreasing in the first score.
        has_regions: Whether to plot the boundaries of the regions of sparsemax.
    """

    name: str
    max_score: Length
    coarse: Float[np.ndarray, "C C"]
    fine: Float[np.ndarray, "F2 F1"]
    has_regions: bool


def plot_surfaces(surfaces: Sequence[Surface]) -> str:
    """Plot surfaces side by side: in perspective, and below from above, with contours at every 0.1."""
    width = _MARGIN * 2 + _PANEL * len(surfaces)
    top = 34
    reach = surfaces[0].max_score
    middle = top + _WEIGHT_HEIGHT + 4 * _TILT * _RISE * reach + 50
    height = middle + _TOP_VIEW_SIZE + 72
    parts: list[str] = []
    for s, surface in enumerate(surfaces):
        x = _MARGIN + _PANEL * (s + 0.5)
        parts.append(text((x, 22), surface.name, "middle", font_weight="bold"))
        parts += _perspective((x, top + _WEIGHT_HEIGHT + 2 * _TILT * _RISE * reach), surface)
        parts += _top_view((x - _TOP_VIEW_SIZE / 2, middle + _TOP_VIEW_SIZE), surface)
    parts += _scale((width / 2 - 130, height - 26))
    summary = (
        "The weight p1 of the first of three positions over the scores z1 and z2, from "
        f"{-reach:g} to {reach:g}, with z3 = 0. Softmax is smooth and nowhere zero. Sparsemax is piecewise "
        "linear, with seven regions, one for each support; in three of them p1 is exactly zero."
    )
    return svg_document(
        width, height, f"{' and '.join(s.name for s in surfaces)} of three scores", summary, parts
    )


def _perspective(center: Point, surface: Surface) -> list[str]:
    """Return the facets of the surface from back to front, over the square of the scores."""
    reach, steps = surface.max_score, len(surface.coarse) - 1

    def place(first: Length, second: Length, weight: Length) -> Point:
        # The front corner has the smallest scores, where the surface is low and hides nothing.
        return (
            center[0] + _TILT * (first - second),
            center[1] - _TILT * _RISE * (first + second) - _WEIGHT_HEIGHT * weight,
        )

    floor = [place(x * reach, y * reach, 0) for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    parts = [polygon(floor, fill="#f4f4f5", stroke=_FRAME)]
    scores = np.linspace(-reach, reach, steps + 1).tolist()
    parts.append('<g stroke="#1f3b57" stroke-width=".4" stroke-linejoin="round">')
    for i, j in sorted(np.ndindex(steps, steps), key=lambda cell: -sum(cell)):
        # i is the index of the second score, j of the first.
        corners = ((i, j), (i, j + 1), (i + 1, j + 1), (i + 1, j))
        weights = [float(surface.coarse[corner]) for corner in corners]
        points = [place(scores[b], scores[a], w) for (a, b), w in zip(corners, weights, strict=True)]
        parts.append(polygon(points, fill=_fill(max(weights), float(np.mean(weights)))))
    parts.append("</g>")
    for value in (0, 1):
        x, y = place(-reach, reach, value)
        parts.append(text((x - 8, y + 4), f"{value}", "end", fill=MUTED, font_size=11))
    parts.append(line([place(-reach, reach, 0), place(-reach, reach, 1)], stroke=_FRAME))
    x, y = place(-reach, reach, 0.5)
    parts.append(text((x - 8, y + 4), "p₁", "end"))
    for name, side, anchor in (("z₁", 1, "start"), ("z₂", -1, "end")):
        for value in (-reach, 0, reach):
            x, y = place(value, -reach, 0) if side == 1 else place(-reach, value, 0)
            parts.append(
                text((x + 5 * side, y + 14), f"{value:g}".replace("-", "−"), anchor, fill=MUTED, font_size=11)
            )
        x, y = place(reach / 2, -reach, 0) if side == 1 else place(-reach, reach / 2, 0)
        parts.append(text((x + 10 * side, y + 20), name, anchor))
    return parts


def _top_view(at: Point, surface: Surface) -> list[str]:
    """Return bands of weight, each painted over the previous one; `at` is the lower left corner."""
    reach = surface.max_score

    def place(point: Point) -> Point:
        return (
            at[0] + _TOP_VIEW_SIZE * (point[0] / reach + 1) / 2,
            at[1] - _TOP_VIEW_SIZE * (point[1] / reach + 1) / 2,
        )

    square = [(-reach, -reach), (reach, -reach), (reach, reach), (-reach, reach)]
    parts = [polygon([place(p) for p in square], fill="#ffffff")]
    # The lowest band starts just above 0, so that exactly 0 stays white.
    least = np.finfo(np.float64).tiny
    for band in range(_BANDS + 1):
        border = _contour(surface, max(band / _BANDS, least))
        if border:
            points = _simplify([place(p) for p in [*border, (reach, reach), (reach, -reach)]])
            parts.append(polygon(points, fill=_RAMP.color((band + 0.5) / _BANDS)))
    regions = support_regions(reach) if surface.has_regions else {(1, 2, 3): square}
    for support, corners in regions.items():
        points = [place(p) for p in corners]
        parts.append(polygon(points, fill="none", stroke=INK, stroke_width=1))
        x, y = np.mean(points, axis=0)
        name = "{" + ",".join(map(str, support)) + "}"
        dark = _at(surface, np.mean(corners, axis=0)) > 0.8
        style = {"fill": "#ffffff"} if dark else _HALO
        parts.append(text((x, y + 4), name, "middle", font_size=12, **style))
    for value in (-reach, 0, reach):
        shown = f"{value:g}".replace("-", "−")
        (x, _), (_, y) = place((value, 0)), place((0, value))
        parts.append(text((x, at[1] + 15), shown, "middle", fill=MUTED, font_size=11))
        parts.append(text((at[0] - 6, y + 4), shown, "end", fill=MUTED, font_size=11))
    parts.append(text((place((reach / 2, 0))[0], at[1] + 17), "z₁", "middle"))
    parts.append(text((at[0] - 6, place((0, reach / 2))[1] + 4), "z₂", "end"))
    return parts


def _contour(surface: Surface, weight: Length) -> list[Point]:
    """Return the contour of a weight: for each second score, the smallest first score that reaches it."""
    rows, columns = surface.fine.shape
    first = np.linspace(-surface.max_score, surface.max_score, columns)
    second = np.linspace(-surface.max_score, surface.max_score, rows)
    found: list[Point] = []
    for y, row in zip(second, surface.fine, strict=True):
        reached = int(np.searchsorted(row, weight))
        if reached == columns:
            if not found:
                continue
            found.append((surface.max_score, float(y)))
            break
        share = 1.0
        if reached:
            share = (weight - row[reached - 1]) / (row[reached] - row[reached - 1])
        found.append((float(first[max(reached - 1, 0)] * (1 - share) + first[reached] * share), float(y)))
    return found


def _at(surface: Surface, point: np.ndarray) -> Length:
    """Return the weight at the nearest point of the fine grid."""
    rows, columns = surface.fine.shape
    across, down = (point / surface.max_score + 1) / 2
    return float(surface.fine[round(down * (rows - 1)), round(across * (columns - 1))])


def support_regions(reach: Length) -> dict[tuple[int, ...], list[Point]]:
    """Return the regions of the scores (z1, z2, 0) in which sparsemax has the same support.

    Args:
        reach: Both scores range from -reach to reach.

    Returns:
        The corners of each region, by its support (positions counted from 1, as z1 and p1 are).
    """
    square = [(-reach, -reach), (reach, -reach), (reach, reach), (-reach, reach)]
    regions: dict[tuple[int, ...], list[Point]] = {}
    for size in (1, 2, 3):
        for support in combinations(range(3), size):
            region = square
            for i in range(3):
                region = clip_polygon(region, lambda p, i=i, support=support: _margin(p, i, support))
            regions[tuple(i + 1 for i in support)] = region
    return regions


def _margin(point: Point, position: int, support: tuple[int, ...]) -> Length:
    """Return the signed distance of a score from tau; positive if it agrees with the support."""
    scores = (*point, 0.0)
    tau = (sum(scores[i] for i in support) - 1) / len(support)
    return (scores[position] - tau) * (1 if position in support else -1)


def _scale(at: Point) -> list[str]:
    x, y = at
    parts = [text((x - 18, y + 10), "p₁ =", "end", font_size=12)]
    box = [(0, 0), (0, 12), (12, 12), (12, 0)]
    parts.append(text((x - 5, y + 10), "0", "end", fill=MUTED, font_size=12))
    parts.append(polygon([(x + u, y + v) for u, v in box], fill="#ffffff", stroke=_FRAME))
    for band in range(_BANDS):
        left = x + 16 + 20 * band
        corners = [(left, y), (left, y + 12), (left + 20, y + 12), (left + 20, y)]
        parts.append(polygon(corners, fill=_RAMP.color((band + 0.5) / _BANDS)))
    parts.append(text((x + 16 + 20 * _BANDS + 6, y + 10), "1", fill=MUTED, font_size=12))
    summary = "{1,2}: support (positions with p > 0)"
    return [*parts, text((x + 250, y + 10), summary, fill=MUTED, font_size=12)]


def _fill(greatest: Length, mean: Length) -> str:
    return _RAMP.color(mean) if greatest > 0 else "#ffffff"


def _simplify(points: Sequence[Point]) -> list[Point]:
    """Return the line without points that lie on a straight segment, within 0.05 pixels."""
    kept = [points[0]]
    for i in range(1, len(points) - 1):
        (ax, ay), (bx, by), (cx, cy) = kept[-1], points[i], points[i + 1]
        length = np.hypot(cx - ax, cy - ay)
        if length and abs((cx - ax) * (by - ay) - (cy - ay) * (bx - ax)) / length > 0.05:
            kept.append(points[i])
    return [*kept, points[-1]]
