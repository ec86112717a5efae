"""Softmax against sparsemax in two and three dimensions (Martins 2020), the last position's score held at 0.

In two dimensions the first position's weight is a curve; in three it is a surface over the two free scores,
drawn once in perspective and once from above. From above, straight lines part the regions in which sparsemax
attends to the same positions: A is its support where z_i > tau_A for i in A and z_i <= tau_A elsewhere,
tau_A = (sum_A z_i - 1) / |A| (Martins & Astudillo 2016, Prop. 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float

from regard.report.grid import Ramp
from regard.report.svg import INK, MUTED, Length, Point, clip, line, picture, polygon, text

__all__ = ["Surface", "support_regions", "svg_curves", "svg_surfaces"]

# From just above 0 to 1; exactly 0 is white, as in the maps of attention.
_RAMP = Ramp(((222, 235, 247), (158, 202, 225), (107, 174, 214), (49, 130, 189), (8, 69, 148)))
_COLOURS = ("#c2410c", "#2f6db3", "#15803d")
_GRID = "#e3e3e3"
_HALO = {"stroke": "#ffffff", "stroke_width": 3, "paint_order": "stroke", "stroke_linejoin": "round"}
_FRAME = "#8a8f98"

# Lengths in pixels.
_MARGIN = 12
_PANEL = 404
_ABOVE = 270  # side of a square seen from above
_TILT = 26.0  # of a unit of score, sideways in perspective
_RISE = 0.46  # upwards for what goes sideways
_TALL = 112  # of a weight of 1
_BANDS = 10


def svg_curves(differences: Float[np.ndarray, "N"], curves: dict[str, Float[np.ndarray, "N"]]) -> str:
    """Draw the weight of the first of two positions against the difference of their scores.

    Args:
        differences: z1 - z2, rising.
        curves: By the name of its map, the weight at each difference.
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
        points = _straightened([place(float(t), float(p)) for t, p in zip(differences, curve, strict=True)])
        dashes = {"stroke_dasharray": "7 4"} if i else {}
        parts.append(line(points, stroke=_COLOURS[i], stroke_width=2.5, **dashes))
        y = top + 26 + 22 * i
        parts.append(line([(left + 14, y), (left + 46, y)], stroke=_COLOURS[i], stroke_width=2.5, **dashes))
        parts.append(text((left + 54, y + 4), name))
    said = "The weight of the first of two positions against the difference of their scores: "
    said += _ends(differences, curves)
    return picture(left + width + 20, top + height + 50, f"{' and '.join(curves)} of two scores", said, parts)


def _ends(differences: np.ndarray, curves: dict[str, np.ndarray]) -> str:
    """In words, where each curve is exactly 0 and 1."""
    said: list[str] = []
    for name, curve in curves.items():
        zeros, ones = differences[curve == 0], differences[curve == 1]
        if len(zeros) and len(ones):
            said.append(f"{name} is 0 up to {zeros[-1]:g} and 1 from {ones[0]:g}")
        else:
            said.append(f"{name} is never 0 or 1")
    return "; ".join(said) + "."


@dataclass(frozen=True)
class Surface:
    """The weight of the first of three positions, the score of the third being 0.

    Attributes:
        name: Of the map.
        reach: The two free scores go from -reach to reach.
        coarse: On a square grid for the view in perspective, the first score across, the second down.
        fine: On a finer one for the view from above; not falling as the first score rises.
        sparse: Whether to part it into the regions of sparsemax.
    """

    name: str
    reach: Length
    coarse: Float[np.ndarray, "C C"]
    fine: Float[np.ndarray, "F2 F1"]
    sparse: bool


def svg_surfaces(surfaces: Sequence[Surface]) -> str:
    """Draw surfaces side by side, in perspective and, below, from above with contours at every tenth."""
    width = _MARGIN * 2 + _PANEL * len(surfaces)
    top = 34
    reach = surfaces[0].reach
    middle = top + _TALL + 4 * _TILT * _RISE * reach + 50
    height = middle + _ABOVE + 72
    parts: list[str] = []
    for s, surface in enumerate(surfaces):
        x = _MARGIN + _PANEL * (s + 0.5)
        parts.append(text((x, 22), surface.name, "middle", font_weight="bold"))
        parts += _perspective((x, top + _TALL + 2 * _TILT * _RISE * reach), surface)
        parts += _from_above((x - _ABOVE / 2, middle + _ABOVE), surface)
    parts += _scale((width / 2 - 130, height - 26))
    said = (
        "The weight p1 of the first of three positions over the scores z1 and z2, from "
        f"{-reach:g} to {reach:g}, with z3 = 0. Softmax bends and is nowhere zero; sparsemax is flat in "
        "pieces: seven regions, one for each set of positions that it attends to, three of them with p1 "
        "exactly zero."
    )
    return picture(width, height, f"{' and '.join(s.name for s in surfaces)} of three scores", said, parts)


def _perspective(centre: Point, surface: Surface) -> list[str]:
    """Facets from the farthest to the nearest, over the square on which they stand."""
    reach, steps = surface.reach, len(surface.coarse) - 1

    def place(first: Length, second: Length, weight: Length) -> Point:
        # The nearest corner has both scores at their lowest, where the surface is low and hides nothing.
        return (
            centre[0] + _TILT * (first - second),
            centre[1] - _TILT * _RISE * (first + second) - _TALL * weight,
        )

    floor = [place(x * reach, y * reach, 0) for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    parts = [polygon(floor, fill="#f4f4f5", stroke=_FRAME)]
    scores = np.linspace(-reach, reach, steps + 1).tolist()
    parts.append('<g stroke="#1f3b57" stroke-width=".4" stroke-linejoin="round">')
    for i, j in sorted(np.ndindex(steps, steps), key=lambda cell: -sum(cell)):
        # i counts the second score, j the first
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


def _from_above(at: Point, surface: Surface) -> list[str]:
    """Bands of weight, each painted over the last; at is the lower left corner."""
    reach = surface.reach

    def place(point: Point) -> Point:
        return (
            at[0] + _ABOVE * (point[0] / reach + 1) / 2,
            at[1] - _ABOVE * (point[1] / reach + 1) / 2,
        )

    square = [(-reach, -reach), (reach, -reach), (reach, reach), (-reach, reach)]
    parts = [polygon([place(p) for p in square], fill="#ffffff")]
    least = np.finfo(np.float64).tiny
    for band in range(_BANDS + 1):
        border = _border(surface, max(band / _BANDS, least))
        if border:
            points = _straightened([place(p) for p in [*border, (reach, reach), (reach, -reach)]])
            parts.append(polygon(points, fill=_RAMP.colour((band + 0.5) / _BANDS)))
    regions = support_regions(reach) if surface.sparse else {(1, 2, 3): square}
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


def _border(surface: Surface, weight: Length) -> list[Point]:
    """Where the weight is first reached as the first score rises, from the lowest second score up."""
    rows, columns = surface.fine.shape
    first = np.linspace(-surface.reach, surface.reach, columns)
    second = np.linspace(-surface.reach, surface.reach, rows)
    found: list[Point] = []
    for y, row in zip(second, surface.fine, strict=True):
        reached = int(np.searchsorted(row, weight))
        if reached == columns:
            if not found:
                continue
            found.append((surface.reach, float(y)))
            break
        share = 1.0
        if reached:
            share = (weight - row[reached - 1]) / (row[reached] - row[reached - 1])
        found.append((float(first[max(reached - 1, 0)] * (1 - share) + first[reached] * share), float(y)))
    return found


def _at(surface: Surface, point: np.ndarray) -> Length:
    """The weight at the point of the fine grid that is nearest."""
    rows, columns = surface.fine.shape
    across, down = (point / surface.reach + 1) / 2
    return float(surface.fine[round(down * (rows - 1)), round(across * (columns - 1))])


def support_regions(reach: Length) -> dict[tuple[int, ...], list[Point]]:
    """The regions in which sparsemax of (z1, z2, 0) attends to the same positions.

    Args:
        reach: Both scores go from -reach to reach.

    Returns:
        By the positions attended to, counted from 1, the corners of the region.
    """
    square = [(-reach, -reach), (reach, -reach), (reach, reach), (-reach, reach)]
    regions: dict[tuple[int, ...], list[Point]] = {}
    for size in (1, 2, 3):
        for support in combinations(range(3), size):
            region = square
            for i in range(3):
                region = clip(region, lambda p, i=i, support=support: _margin(p, i, support))
            regions[tuple(i + 1 for i in support)] = region
    return regions


def _margin(point: Point, position: int, support: tuple[int, ...]) -> Length:
    """How far a position's score lies on the side of tau on which the support wants it."""
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
        parts.append(polygon(corners, fill=_RAMP.colour((band + 0.5) / _BANDS)))
    parts.append(text((x + 16 + 20 * _BANDS + 6, y + 10), "1", fill=MUTED, font_size=12))
    said = "{1,2}: the positions attended to"
    return [*parts, text((x + 250, y + 10), said, fill=MUTED, font_size=12)]


def _fill(greatest: Length, mean: Length) -> str:
    return _RAMP.colour(mean) if greatest > 0 else "#ffffff"


def _straightened(points: Sequence[Point]) -> list[Point]:
    """The line without the points that lie on a straight piece of it, to a twentieth of a pixel."""
    kept = [points[0]]
    for i in range(1, len(points) - 1):
        (ax, ay), (bx, by), (cx, cy) = kept[-1], points[i], points[i + 1]
        length = np.hypot(cx - ax, cy - ay)
        if length and abs((cx - ax) * (by - ay) - (cy - ay) * (bx - ax)) / length > 0.05:
            kept.append(points[i])
    return [*kept, points[-1]]
