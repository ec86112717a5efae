"""Plot softmax and sparsemax of two and of three scores, the last of which is 0: Martins (2020).

    python recipes/figures/softmax_sparsemax.py OUTPUT_DIR

It writes `two-dimensions.svg`, with the first of two weights as a curve, and `three-dimensions.svg`, with the
first of three weights as a surface, in perspective and from above. Lines separate the supports of sparsemax
(Martins & Astudillo (2016), Proposition 1). White is exactly 0.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib import figure as pictures

from regard.functional import softmax, sparsemax
from regard.plot import Figure

TRANSFORMATIONS = (softmax, sparsemax)
REACH = 3  # the scores range from -REACH to REACH
COLORS = ("#c2410c", "#2f6db3")
BLUES = colormaps["Blues"].with_extremes(under="white")
INK = "#1a1a1a"


def curves_picture() -> pictures.Figure:
    """Return the first of two weights against the difference of the scores."""
    picture = pictures.Figure(figsize=(5.2, 3.0))
    ax = picture.subplots()
    differences = torch.linspace(-REACH, REACH, 121, dtype=torch.float64)
    pairs = torch.stack([differences, torch.zeros_like(differences)], -1)
    for transform, color, style in zip(TRANSFORMATIONS, COLORS, ("-", (0, (4, 2))), strict=True):
        weights = transform(pairs)[:, 0]
        ax.plot(differences, weights, color=color, linestyle=style, label=transform.__name__, clip_on=False)
    ax.set(xlim=(-REACH, REACH), ylim=(0, 1), xlabel="z₁ − z₂", yticks=[0, 0.25, 0.5, 0.75, 1])
    ax.set_ylabel("p₁", rotation=0, labelpad=12)
    ax.grid(True, axis="both")
    ax.legend(loc="upper left", borderpad=1)
    return picture


def grid(size: int) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    """Return the first and the second scores of a square grid, and all three scores of each point."""
    axis = torch.linspace(-REACH, REACH, size, dtype=torch.float64)
    second, first = torch.meshgrid(axis, axis, indexing="ij")
    return first.numpy(), second.numpy(), torch.stack([first, second, torch.zeros_like(first)], -1)


def plot_surface(ax, transform) -> None:
    """Plot the first of three weights in perspective; facets of exactly 0 are white."""
    first, second, scores = grid(19)
    weights = transform(scores)[..., 0].numpy()
    corners = np.stack([weights[:-1, :-1], weights[1:, :-1], weights[:-1, 1:], weights[1:, 1:]])
    colors = BLUES(np.where(corners.any(0), corners.mean(0), -1.0))
    style = {"edgecolor": "#1f3b57", "linewidth": 0.3, "shade": False, "clip_on": False}
    ax.plot_surface(first, second, weights, rstride=1, cstride=1, facecolors=colors, **style)
    # The corner in front has the smallest scores, where the surface is low and hides nothing.
    ax.view_init(elev=28, azim=-135)
    ax.set_box_aspect((1, 1, 0.55), zoom=1.2)
    ax.set(zlim=(0, 1), xticks=[-REACH, 0, REACH], yticks=[-REACH, 0, REACH], zticks=[0, 1])
    ax.set_xlabel("z₁", labelpad=-6)
    ax.set_ylabel("z₂", labelpad=-6)
    ax.set_zlabel("p₁", labelpad=-8)
    ax.tick_params(pad=-2)
    ax.grid(False)
    ax.set_title(transform.__name__, loc="center")


def plot_regions(ax, transform) -> None:
    """Plot the first of three weights from above, with the support of each region."""
    first, second, scores = grid(121)
    weights = transform(scores).numpy()
    levels = [1e-9, *np.arange(1, 10) / 10, 1.0 + 1e-9]
    bands = ax.contourf(first, second, weights[..., 0], levels, cmap=BLUES, vmin=0, vmax=1)
    # Edges in the color of the bands, as viewers would otherwise show gaps between the bands.
    bands.set(edgecolor="face", linewidth=0.3)
    for position in range(3):
        if not weights[..., position].all():
            ax.contour(first, second, weights[..., position], [1e-9], colors=INK, linewidths=0.8)
    for support in product((False, True), repeat=3):
        inside = ((weights > 0) == support).all(-1)
        if inside.any():
            name = ",".join(str(position + 1) for position in range(3) if support[position])
            dark = weights[inside, 0].mean() > 0.8
            place = first[inside].mean(), second[inside].mean()
            ax.text(*place, f"{{{name}}}", ha="center", va="center", color="white" if dark else INK)
    ax.set_aspect("equal")
    ax.set(xticks=[-REACH, 0, REACH], yticks=[-REACH, 0, REACH], xlabel="z₁")
    ax.set_ylabel("z₂", rotation=0)
    ax.grid(False)


def surfaces_picture() -> pictures.Figure:
    """Return the first of three weights under both transformations, in perspective and from above."""
    picture = pictures.Figure(figsize=(8.2, 6.6))
    for column, transform in enumerate(TRANSFORMATIONS, 1):
        plot_surface(picture.add_subplot(2, 2, column, projection="3d"), transform)
        plot_regions(picture.add_subplot(2, 2, column + 2), transform)
    return picture


def main() -> None:
    """Write both figures."""
    parser = argparse.ArgumentParser(description="Plot softmax and sparsemax in two and three dimensions.")
    parser.add_argument("output_dir", type=Path)
    output_dir = parser.parse_args().output_dir
    output_dir.mkdir(parents=True, exist_ok=True)
    curves = "Softmax is never 0 or 1. Sparsemax is 0 up to a difference of -1 and 1 from a difference of 1."
    Figure("Softmax and sparsemax of two scores", curves, curves_picture).save(
        output_dir / "two-dimensions.svg"
    )
    surfaces = (
        "Softmax is smooth and nowhere zero. Sparsemax is piecewise linear, with seven regions, one for each "
        "support; in three of them the first weight is exactly zero."
    )
    Figure("Softmax and sparsemax of three scores", surfaces, surfaces_picture).save(
        output_dir / "three-dimensions.svg"
    )


if __name__ == "__main__":
    main()
