"""Plot softmax and sparsemax in two and three dimensions (Martins, 2020), with the last score fixed at 0.

In two dimensions the weight of the first position is a curve. In three dimensions it is a surface over the
two free scores, shown in perspective and from above. In the view from above, straight lines separate the
regions in which sparsemax has the same support. The support is A where z_i > tau_A for i in A and
z_i <= tau_A for all other i, with tau_A = (sum_A z_i - 1) / |A| (Martins & Astudillo (2016), Prop. 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from regard.plot.figure import Figure
from regard.plot.simplex import clip_polygon
from regard.plot.style import INK, Colormap, Length, Point, new_figure

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure
    from mpl_toolkits.mplot3d import Axes3D

__all__ = [
    "Surface",
    "curves_chart",
    "plot_curves",
    "plot_regions",
    "plot_surface",
    "support_regions",
    "surfaces_chart",
]

# From just above 0 to 1; exactly 0 is white, as in attention maps.
_RAMP = Colormap(((222, 235, 247), (158, 202, 225), (107, 174, 214), (49, 130, 189), (8, 69, 148)))
_COLORS = ("#c2410c", "#2f6db3", "#15803d")
_FRAME = "#8a8f98"
_BANDS = 10


def plot_curves(
    ax: "matplotlib.axes.Axes", differences: Float[np.ndarray, "N"], curves: dict[str, Float[np.ndarray, "N"]]
) -> None:
    """Plot the weight of the first of two positions against the difference of their scores.

    Args:
        ax: The axes.
        differences: z1 - z2, increasing.
        curves: The weight at each difference, by the name of the transformation.
    """
    for i, (name, curve) in enumerate(curves.items()):
        dashes = (0, (4, 2)) if i else "-"
        ax.plot(
            differences, curve, color=_COLORS[i], linestyle=dashes, linewidth=1.9, label=name, clip_on=False
        )
    ax.set_xlim(differences[0], differences[-1])
    ax.set_ylim(0, 1)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    ax.grid(True, axis="both")
    ax.set_xlabel("z₁ − z₂")
    ax.set_ylabel("p₁", rotation=0, va="center", labelpad=12)
    ax.legend(loc="upper left", borderpad=1)


def curves_chart(differences: Float[np.ndarray, "N"], curves: dict[str, Float[np.ndarray, "N"]]) -> Figure:
    """Return the figure of `plot_curves`, with a description of where each curve is exactly 0 and 1.

    Args:
        differences: z1 - z2, increasing.
        curves: The weight at each difference, by the name of the transformation.
    """

    def plot() -> "matplotlib.figure.Figure":
        figure = new_figure(5.2, 3.0)
        plot_curves(figure.subplots(), differences, curves)
        return figure

    summary = "The weight of the first of two positions against the difference of their scores: "
    summary += _ends(differences, curves)
    return Figure(f"{' and '.join(curves)} of two scores", summary, plot)


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
        fine: Weights on a finer grid for the view from above.
        has_regions: Whether to plot the boundaries of the regions of sparsemax.
    """

    name: str
    max_score: Length
    coarse: Float[np.ndarray, "C C"]
    fine: Float[np.ndarray, "F2 F1"]
    has_regions: bool

    def scores(
        self, weights: Float[np.ndarray, "M N"]
    ) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "M"]]:
        """Return the first and the second scores of a grid of weights."""
        second, first = (np.linspace(-self.max_score, self.max_score, size) for size in weights.shape)
        return first, second


def plot_surface(ax: "Axes3D", surface: Surface) -> None:
    """Plot a surface in perspective; facets of exactly 0 are white.

    Args:
        ax: Axes with the projection `3d`.
        surface: The surface.
    """
    weights, reach = surface.coarse, surface.max_score
    first, second = np.meshgrid(*surface.scores(weights))
    corners = np.stack([weights[:-1, :-1], weights[1:, :-1], weights[:-1, 1:], weights[1:, 1:]])
    colors = np.full(weights.shape, "#ffffff", dtype=object)
    for cell in np.ndindex(*corners.shape[1:]):
        # A facet with any positive corner has a color, so that white means exactly 0.
        if corners[(slice(None), *cell)].any():
            colors[cell] = _RAMP.color(float(corners[(slice(None), *cell)].mean()))
    style: dict[str, Any] = {"edgecolor": "#1f3b57", "linewidth": 0.3, "shade": False, "clip_on": False}
    view: Any = ax  # the type stubs of mplot3d are incomplete
    view.plot_surface(first, second, weights, rstride=1, cstride=1, facecolors=colors, **style)
    # The corner in front has the smallest scores, where the surface is low and hides nothing.
    view.view_init(elev=28, azim=-135)
    view.set_box_aspect((1, 1, 0.55), zoom=1.3)
    view.set_xlim(-reach, reach)
    view.set_ylim(-reach, reach)
    view.set_zlim(0, 1)
    view.set_xticks([-reach, 0, reach])
    view.set_yticks([-reach, 0, reach])
    view.set_zticks([0, 1])
    view.set_xlabel("z₁", labelpad=-6)
    view.set_ylabel("z₂", labelpad=-6)
    view.set_zlabel("p₁", labelpad=-8)
    view.tick_params(pad=-2)
    view.grid(False)
    for axis in (view.xaxis, view.yaxis):
        axis.set_pane_color((0, 0, 0, 0))
    view.zaxis.set_pane_color("#f4f4f5")
    view.set_title(surface.name, loc="center")


def plot_regions(ax: "matplotlib.axes.Axes", surface: Surface) -> None:
    """Plot a surface from above in bands of 0.1, with the support of sparsemax in each region.

    Args:
        ax: The axes.
        surface: The surface.
    """
    reach = surface.max_score
    # The lowest band starts just above 0, so that exactly 0 stays white.
    levels = [1e-9, *np.arange(1, _BANDS) / _BANDS, 1 - 1e-9, 2]
    colors = [*_band_colors(), _RAMP.color(1.0)]
    # Edges in the color of the bands, as viewers would otherwise show gaps between the bands.
    bands = ax.contourf(*surface.scores(surface.fine), surface.fine, levels, colors=colors)
    bands.set(edgecolor="face", linewidth=0.3)
    square = [(-reach, -reach), (reach, -reach), (reach, reach), (-reach, reach)]
    regions = support_regions(reach) if surface.has_regions else {(1, 2, 3): square}
    from matplotlib.patheffects import withStroke

    for support, corners in regions.items():
        ax.fill(*np.array(corners).T, facecolor="none", edgecolor=INK, linewidth=0.8, clip_on=False)
        x, y = np.mean(corners, axis=0)
        dark = _at(surface, np.array([x, y])) > 0.8
        name = "{" + ",".join(map(str, support)) + "}"
        halo = [] if dark else [withStroke(linewidth=2.5, foreground="white")]
        color = "white" if dark else INK
        ax.text(x, y, name, ha="center", va="center", color=color, path_effects=halo)
    ax.set_aspect("equal")
    ax.set_xlim(-reach, reach)
    ax.set_ylim(-reach, reach)
    ax.set_xticks([-reach, 0, reach])
    ax.set_yticks([-reach, 0, reach])
    ax.tick_params(length=0)
    ax.grid(False)
    ax.set_xlabel("z₁")
    ax.set_ylabel("z₂", rotation=0, va="center")
    # Between the numbers of the axes.
    ax.xaxis.set_label_coords(0.75, -0.02)
    ax.yaxis.set_label_coords(-0.04, 0.75)


def surfaces_chart(surfaces: Sequence[Surface]) -> Figure:
    """Return the figure of surfaces side by side: in perspective, and below from above.

    Args:
        surfaces: The surfaces.
    """

    def plot() -> "matplotlib.figure.Figure":
        figure = new_figure(4.1 * len(surfaces), 6.6)
        columns = len(surfaces)
        above = [figure.add_subplot(2, columns, s + 1, projection="3d") for s in range(columns)]
        below = [figure.add_subplot(2, columns, columns + s + 1) for s in range(columns)]
        for i, surface in enumerate(surfaces):
            plot_surface(above[i], surface)
            plot_regions(below[i], surface)
        _add_scale(figure, below)
        return figure

    reach = surfaces[0].max_score
    summary = (
        "The weight p1 of the first of three positions over the scores z1 and z2, from "
        f"{-reach:g} to {reach:g}, with z3 = 0. Softmax is smooth and nowhere zero. Sparsemax is piecewise "
        "linear, with seven regions, one for each support; in three of them p1 is exactly zero."
    )
    return Figure(f"{' and '.join(s.name for s in surfaces)} of three scores", summary, plot)


def _add_scale(figure: "matplotlib.figure.Figure", axes: Sequence["matplotlib.axes.Axes"]) -> None:
    """Add a scale of the weights: white for exactly 0, and the color of each band."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap

    colors = ListedColormap(_band_colors()).with_extremes(under="white")
    norm = BoundaryNorm(np.arange(_BANDS + 1) / _BANDS, _BANDS)
    bar = figure.colorbar(
        ScalarMappable(norm, colors),
        ax=axes,
        location="bottom",
        shrink=0.5,
        aspect=28,
        extend="min",
        extendrect=True,
        extendfrac=0.08,
        ticks=[0, 0.5, 1],
        format="%g",
        label="p₁ (white: exactly 0)\n{1,2}: support (positions with p > 0)",
    )
    assert bar.solids is not None
    bar.solids.set(edgecolor="face")
    bar.outline.set(edgecolor=_FRAME, linewidth=0.6)


def _band_colors() -> list[str]:
    return [_RAMP.color((band + 0.5) / _BANDS) for band in range(_BANDS)]


def _at(surface: Surface, point: np.ndarray) -> float:
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
    # The third score can be fixed, as a constant added to all scores does not change the weights.
    scores = (*point, 0.0)
    # Martins & Astudillo (2016), Proposition 1: the weights of the support, z_i - tau, sum to 1.
    tau = (sum(scores[i] for i in support) - 1) / len(support)
    return (scores[position] - tau) * (1 if position in support else -1)
