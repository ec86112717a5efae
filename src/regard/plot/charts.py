"""Curves and histograms of several systems, the parts of charts with one or more panels; training curves.

A system has the same style in all panels (`regard.plot.style.series_style`). Values of NaN are gaps.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.plot.figure import Figure
from regard.plot.style import INK, MUTED, Length, add_legend, color_of, new_figure, series_style

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

__all__ = [
    "chart",
    "label_axes",
    "plot_curve",
    "plot_groups",
    "plot_histogram",
    "set_numeric_axis",
    "set_value_axis",
]

_PANEL = (4.1, 3.1)  # width and height of a panel in inches
# Distances within a group of width 1, so that error bars do not overlap.
_SYSTEM_GAP = 0.14
_MAX_SYSTEM_SPREAD = 0.5
_MAX_MARKED_POINTS = 30  # maximum number of points that get a marker; more markers would hide the line


def plot_curve(
    ax: "matplotlib.axes.Axes",
    number: int,
    positions: Float[np.ndarray, "N"],
    values: Float[np.ndarray, "N"],
    intervals: Float[np.ndarray, "N 2"] | None = None,
    name: str = "",
) -> None:
    """Plot the curve of system `number`, with its intervals as error bars and a gap at each NaN."""
    style = series_style(number)
    if len(values) > _MAX_MARKED_POINTS:
        style["marker"] = ""
    if intervals is not None:
        known = ~np.isnan(intervals).any(axis=1)
        ax.vlines(
            positions[known], *intervals[known].T, color=style["color"], alpha=0.6, linewidth=0.9, zorder=2
        )
    # Markers at the ends of the axes are shown whole.
    ax.plot(positions, values, label=name, clip_on=False, zorder=2.5, **style)


def plot_histogram(
    ax: "matplotlib.axes.Axes",
    number: int,
    edges: Sequence[Length],
    shares: Float[np.ndarray, "N"],
    name: str = "",
) -> None:
    """Plot the outline of a system's histogram over a light background; empty bins have no outline.

    There may be more edges than bins.
    """
    heights = np.where(shares > 0, shares, np.nan)
    bin_edges = edges[: len(shares) + 1]
    ax.stairs(heights, bin_edges, fill=True, color=color_of(number), alpha=0.1, zorder=1.5)
    style = series_style(number)
    outline = {key: style[key] for key in ("color", "linestyle")}
    ax.stairs(heights, bin_edges, linewidth=1.5, label=name, clip_on=False, zorder=2, **outline)


def plot_groups(
    ax: "matplotlib.axes.Axes",
    systems: Mapping[str, tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N 2"]]],
    labels: Sequence[str],
) -> None:
    """Plot a point with an interval for each system in each group, the systems of a group side by side.

    `systems` has the values and intervals of each group, by system name; NaN for none.
    """
    middles = np.arange(len(labels), dtype=np.float64)
    gap = min(_SYSTEM_GAP, _MAX_SYSTEM_SPREAD / max(len(systems) - 1, 1))
    for i, (name, (values, intervals)) in enumerate(systems.items()):
        plot_curve(ax, i, middles + (i - (len(systems) - 1) / 2) * gap, values, intervals, name)
    ax.set_xlim(-0.5, len(labels) - 0.5)
    ax.set_xticks(middles, labels, color=INK)
    set_value_axis(ax, [part.ravel() for pair in systems.values() for part in pair])


def label_axes(ax: "matplotlib.axes.Axes", title: str, x_label: str, note: str = "", pad: Length = 4) -> None:
    """Set the title, the label of the horizontal axis (`pad` points below its numbers) and a note."""
    ax.set_title(title)
    label = ax.set_xlabel(x_label, labelpad=pad)
    if note:
        ax.annotate(
            note,
            (0.5, 0),
            xycoords=label,
            xytext=(0, -3),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=8,
            color=MUTED,
        )


def set_numeric_axis(ax: "matplotlib.axes.Axes", low: Length, high: Length) -> None:
    """Let the horizontal axis extend from one number to another, with a comma between thousands."""
    from matplotlib.ticker import FuncFormatter

    ax.set_xlim(low, high)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}" if abs(x) >= 1000 else f"{x:g}"))


def set_value_axis(ax: "matplotlib.axes.Axes", values: Sequence[np.ndarray], percent: bool = False) -> None:
    """Let the vertical axis extend from 0 to a round number above all values, shown in percent for shares."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    finite = np.concatenate([np.zeros(1), *(each[~np.isnan(each)] for each in values)])
    locator = MaxNLocator(7, steps=[1, 2, 5, 10])
    # An axis of zero height would be an error.
    ticks = locator.tick_values(finite.min(), finite.max() or 1.0)
    ax.yaxis.set_major_locator(locator)
    ax.set_ylim(ticks[0], ticks[-1])
    if percent:
        ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 6):g} %"))


def chart(
    title: str,
    description: str,
    names: Sequence[str],
    panels: Sequence[Callable[["matplotlib.axes.Axes"], None]],
) -> Figure:
    """Return a figure of panels side by side below a common legend of the systems.

    Args:
        title: Accessible title.
        description: Accessible description, with the important numbers.
        names: Names of the systems. Empty for a figure without a legend.
        panels: Function that plots each panel.
    """

    def plot() -> "matplotlib.figure.Figure":
        figure = new_figure(_PANEL[0] * len(panels), _PANEL[1])
        for ax, plot_panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            plot_panel(ax)
        if names:
            add_legend(figure, names)
        return figure

    return Figure(title, description, plot, panels=panels)
