"""Curves and histograms of several systems as SVG charts.

Each system has the same color (Okabe & Ito, 2008, a palette for color-blind readers), dash pattern and marker
in all panels of a picture, so that the systems can be distinguished without color.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len

from regard.plotting.colormap import printable
from regard.plotting.svg.document import (
    INK,
    MUTED,
    Length,
    Point,
    color_of,
    dot,
    line,
    polygon,
    svg_document,
    text,
)

__all__ = ["Groups", "Panel", "Series", "plot_panels"]

_DASHES = ("", "7 3", "2 2.5", "9 3 2 3", "4 2")
_GRID = "#e3e3e3"
_FRAME = "#8a8f98"

# Lengths in pixels.
_LEFT = 76.0
_WIDTH = 400.0
_HEIGHT = 230.0
_BELOW = 62.0
_GAP = 24.0
_MARGIN = 14.0
_LINE = 22.0
_CHARACTER = 7.4
_SAMPLE = 34.0
_MARKER = 3.6
_COUNT_HEIGHT = 16.0  # height of the row of counts below the group names
_SYSTEM_GAP = 8.0  # between two systems of a group, so that their error bars do not overlap
_MAX_SYSTEM_SPREAD = 28.0  # maximum distance between the first and the last system of a group
_MAX_MARKED_POINTS = 30  # maximum number of points that get a marker; more markers would hide the line


@dataclass(frozen=True)
class Series:
    """The shares or scores of one system.

    Attributes:
        name: Name of the system.
        values: One value per bin; shares are between 0 and 1. NaN values are not plotted.
        interval: Lower and upper end of the interval of each value. NaN for a value without an interval.
        positions: Position of each value on the horizontal axis. Default: the middle of each bin.
    """

    name: str
    values: Float[np.ndarray, "N"]
    interval: Float[np.ndarray, "N 2"] | None = None
    positions: Float[np.ndarray, "N"] | None = None


@dataclass(frozen=True)
class Groups:
    """Named bins that are plotted with equal width.

    Attributes:
        names: Name of each bin.
        counts: Number of items in each bin; None if unknown.
        item_name: Name of the counted items, such as "sentences".
    """

    names: Sequence[str]
    counts: Sequence[int] | None
    item_name: str


@dataclass(frozen=True)
class Panel:
    """One chart.

    Attributes:
        title: Title above the chart.
        x_label: Label of the horizontal axis, with its unit.
        edges: Edges of the bins, increasing; a series may have fewer bins. For series with `positions`, the
            two ends of the axis.
        series: The systems, in the same order in all panels.
        kind: A curve through the middles of the bins, or a histogram.
        note: Line of text below the chart.
        groups: Names of the bins, which replace the edges as labels.
        unit: `%` for shares, whose curves have an axis up to 100 %; empty for scores.
    """

    title: str
    x_label: str
    edges: Sequence[Length]
    series: Sequence[Series]
    kind: Literal["curve", "histogram"]
    note: str = ""
    groups: Groups | None = None
    unit: Literal["%", ""] = "%"

    @property
    def y_max(self) -> float:
        """Upper end of the vertical axis."""
        if self.kind == "curve" and self.unit:
            return 1.0
        ends = [each for one in self.series for each in (one.values, one.interval) if each is not None]
        # `or 1.0`: an axis of zero height would divide by zero.
        most = max((float(each[~np.isnan(each)].max(initial=0.0)) for each in ends), default=0.0) or 1.0
        step = _tick_distance(most)
        return math.ceil(most / step - 1e-9) * step

    def format_value(self, value: float) -> str:
        """Return the text of a value for its tooltip."""
        return f"{value:.1%}" if self.unit else f"{value:.2f}"

    def bin_name(self, b: int) -> str:
        """Return the name of a bin."""
        if self.groups is not None:
            return self.groups.names[b]
        return f"{self.edges[b]:g} to {self.edges[b + 1]:g}"


def plot_panels(panels: Sequence[Panel], title: str, description: str) -> str:
    """Plot charts side by side below a common legend.

    Args:
        panels: The charts.
        title: Accessible title.
        description: Accessible description.

    Returns:
        The text of an SVG file.
    """
    names = [series.name for series in panels[0].series]
    column = _LEFT + _WIDTH + _GAP
    legend, rows = _legend(names, len(panels) * column)
    top = _MARGIN + rows * _LINE + 30
    parts = [*legend]
    for i, panel in enumerate(panels):
        parts += _Chart((_LEFT + i * column, top + _HEIGHT), panel).parts()
    noted = any(panel.note for panel in panels)
    grouped = any(panel.groups for panel in panels)
    height = top + _HEIGHT + _BELOW - (0 if noted else 16) + (_COUNT_HEIGHT if grouped else 0)
    return svg_document(len(panels) * column - 4, height, title, description, parts)


def _legend(names: Sequence[str], width: Length) -> tuple[list[str], int]:
    """Return the elements of the legend and its number of rows."""
    parts: list[str] = []
    x, rows = _LEFT, 1
    for i, name in enumerate(names):
        needed = _SAMPLE + 8 + _CHARACTER * cell_len(name) + 22
        if x > _LEFT and x + needed > width:
            x, rows = _LEFT, rows + 1
        y = _MARGIN + _LINE * (rows - 0.5)
        parts.append(line([(x, y), (x + _SAMPLE, y)], **_stroke(i)))
        parts.append(_marker((x + _SAMPLE / 2, y), i))
        parts.append(text((x + _SAMPLE + 8, y + 4.5), name))
        x += needed
    return parts, rows


def _stroke(i: int) -> dict[str, str | Length]:
    style: dict[str, str | Length] = {"stroke": color_of(i), "stroke_width": 2}
    dashes = _DASHES[i % len(_DASHES)]
    return style | ({"stroke_dasharray": dashes} if dashes else {})


def _marker(at: Point, i: int, tip: str = "") -> str:
    """Return the marker of a system (circle, square, triangle, ...) around a point."""
    style: dict[str, str | Length] = {"fill": color_of(i), "stroke": "#ffffff"}
    if i % len(_DASHES) == 0:
        return dot(at, _MARKER, tip, **style)
    corners, turn, radius = ((4, 0.25, 1.35), (3, 1, 1.4), (4, 0, 1.4), (3, 0, 1.4))[i % len(_DASHES) - 1]
    angles = [math.tau * (k / corners + turn / 2) for k in range(corners)]
    reach = radius * _MARKER
    return polygon([(at[0] + reach * math.sin(a), at[1] + reach * math.cos(a)) for a in angles], tip, **style)


@dataclass(frozen=True)
class _Chart:
    """A panel placed on the page; `at` is the lower left corner of the plot area."""

    at: Point
    panel: Panel

    def to_pixels(self, x: Length, share: Length) -> Point:
        first, last = self.panel.edges[0], self.panel.edges[-1]
        return (
            self.at[0] + _WIDTH * (x - first) / (last - first),
            self.at[1] - _HEIGHT * share / self.panel.y_max,
        )

    def parts(self) -> list[str]:
        panel = self.panel
        left, base = self.at
        parts = [text((left, base - _HEIGHT - 12), panel.title, font_weight="bold"), *self._axes()]
        draw = self._curve if panel.kind == "curve" else self._histogram
        for i, series in enumerate(panel.series):
            parts += draw(i, series)
        parts.append(line([(left, base), (left + _WIDTH, base)], stroke=_FRAME))
        if panel.kind == "histogram":
            parts += self._tooltips()
        middle, below = left + _WIDTH / 2, base + (_COUNT_HEIGHT if panel.groups else 0)
        parts.append(text((middle, below + 38), panel.x_label, "middle"))
        if panel.note:
            parts.append(text((middle, below + 55), panel.note, "middle", fill=MUTED, font_size=11))
        return parts

    def _axes(self) -> list[str]:
        panel, parts = self.panel, []
        left = self.at[0]
        step = _tick_distance(panel.y_max)
        # 1e-9 keeps the last tick in spite of rounding errors.
        for n in range(math.floor(panel.y_max / step + 1e-9) + 1):
            _, y = self.to_pixels(panel.edges[0], n * step)
            parts.append(line([(left, y), (left + _WIDTH, y)], stroke=_GRID))
            label = f"{round(100 * n * step, 6):g} %" if panel.unit else f"{round(n * step, 6):g}"
            parts.append(text((left - 7, y + 4), label, "end", fill=MUTED, font_size=12))
        return parts + (self._ticks() if panel.groups is None else self._names(panel.groups))

    def _ticks(self) -> list[str]:
        """Return a numeric horizontal axis."""
        panel, parts = self.panel, []
        base = self.at[1]
        step = _tick_distance(panel.edges[-1] - panel.edges[0])
        for n in range(math.ceil(panel.edges[0] / step), math.floor(panel.edges[-1] / step + 1e-9) + 1):
            x, _ = self.to_pixels(n * step, 0)
            parts.append(line([(x, base), (x, base + 4)], stroke=_FRAME))
            label = f"{round(n * step, 6):g}" if step < 1000 else f"{n * step:,.0f}"
            parts.append(text((x, base + 18), label, "middle", fill=MUTED, font_size=12))
        return parts

    def _names(self, groups: Groups) -> list[str]:
        """Return a horizontal axis of named bins with their counts."""
        left, base = self.at
        style: dict[str, str | Length] = {"fill": MUTED, "font_size": 11}
        parts = (
            []
            if groups.counts is None
            else [text((left - 7, base + 18 + _COUNT_HEIGHT), groups.item_name, "end", **style)]
        )
        for b, ((low, high), name) in enumerate(zip(pairwise(self.panel.edges), groups.names, strict=True)):
            x, _ = self.to_pixels((low + high) / 2, 0)
            parts.append(line([(x, base), (x, base + 4)], stroke=_FRAME))
            parts.append(text((x, base + 18), name, "middle", fill=INK, font_size=12))
            if groups.counts is not None:
                parts.append(text((x, base + 18 + _COUNT_HEIGHT), f"{groups.counts[b]:,}", "middle", **style))
        return parts

    def _system_offset(self, i: int) -> float:
        """Return the horizontal offset of a system's points from the middle of a group, in pixels."""
        most = len(self.panel.series) - 1
        if self.panel.groups is None or not most:
            return 0.0
        return (i - most / 2) * min(_SYSTEM_GAP, _MAX_SYSTEM_SPREAD / most)

    def _curve(self, i: int, series: Series) -> list[str]:
        """Return a line through the points that is interrupted at NaN, with markers and error bars."""
        segments: list[list[Point]] = [[]]
        marks: list[str] = []
        middles = [(low + high) / 2 for low, high in pairwise(self.panel.edges)]
        where = middles if series.positions is None else series.positions.tolist()
        for b, (at, value) in enumerate(zip(where, series.values.tolist(), strict=False)):
            if math.isnan(value):
                segments.append([])
                continue
            x, y = self.to_pixels(at, value)
            x += self._system_offset(i)
            segments[-1].append((x, y))
            if len(where) > _MAX_MARKED_POINTS:
                continue
            place = self.panel.bin_name(b) if series.positions is None else f"{at:,g}"
            tip = f"{series.name}, {place}: {self.panel.format_value(value)}"
            if series.interval is not None and not np.isnan(series.interval[b]).any():
                ends = [float(end) for end in series.interval[b]]
                tip += f" ({self.panel.format_value(ends[0])} to {self.panel.format_value(ends[1])})"
                bar = [(x, self.to_pixels(at, end)[1]) for end in ends]
                marks.append(line(bar, stroke=color_of(i), stroke_width=1.2, opacity=0.6))
            marks.append(_marker(segments[-1][-1], i, printable(tip)))
        return [*(line(segment, **_stroke(i)) for segment in segments if len(segment) > 1), *marks]

    def _histogram(self, i: int, series: Series) -> list[str]:
        """Return the outline of a histogram over a light background; empty bins have no outline."""
        segments: list[list[Point]] = []
        before = 0.0
        for (low, high), value in zip(pairwise(self.panel.edges), series.values.tolist(), strict=False):
            if value and not before:
                segments.append([self.to_pixels(low, 0)])
            if value:
                segments[-1] += [self.to_pixels(low, value), self.to_pixels(high, value)]
            elif before:
                segments[-1].append(self.to_pixels(low, 0))
            before = value
        if before:
            segments[-1].append(self.to_pixels(self.panel.edges[len(series.values)], 0))
        color = color_of(i)
        backgrounds = [polygon(segment, fill=color, opacity=0.1) for segment in segments]
        return [*backgrounds, *(line(segment, **_stroke(i), stroke_linejoin="round") for segment in segments)]

    def _tooltips(self) -> list[str]:
        """Return invisible areas over the bins whose tooltips list the shares of all systems."""
        parts: list[str] = []
        for b, (low, high) in enumerate(pairwise(self.panel.edges)):
            found = [(one.name, one.values[b] if b < len(one.values) else 0.0) for one in self.panel.series]
            shown = ", ".join(f"{name} {self.panel.format_value(value)}" for name, value in found)
            tip = f"{self.panel.bin_name(b)}: {shown}"
            corners = [(low, 0), (low, self.panel.y_max), (high, self.panel.y_max), (high, 0)]
            parts.append(polygon([self.to_pixels(*c) for c in corners], printable(tip), fill=INK, opacity=0))
        return parts


def _tick_distance(reach: Length) -> float:
    """Return a tick distance of 1, 2 or 5 times a power of ten that divides a length into 4 to 10 parts."""
    power = 10.0 ** math.floor(math.log10(reach / 4))
    return next(power * times for times in (5, 2, 1) if reach / (power * times) >= 4)
