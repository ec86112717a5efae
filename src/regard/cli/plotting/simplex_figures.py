"""Figures of softmax and sparsemax, with and without fertility constraints, that need no data."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from regard.cli.plotting.figure import FigureInput, PlottedFigure, format_value
from regard.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import torch

__all__ = ["plot_simplex"]


def plot_simplex(inputs: FigureInput) -> PlottedFigure:
    """Plot constrained attention over three time steps, and softmax and sparsemax in 2 and 3 dimensions.

    The figures are those of Malaviya et al. (2018), Figure 1, and of the lecture by Martins (2020).

    Args:
        inputs: The options of the command. No input file is allowed, as all values are computed.

    Raises:
        UsageError: If a file is given.
    """
    if inputs.files:
        raise UsageError("figure simplex needs no input files, so it cannot be used with --input")
    import torch

    from regard.functional import constrained_softmax_scan, constrained_sparsemax_scan, softmax, sparsemax
    from regard.functional.scans import remaining_bound
    from regard.report.landscape import Surface, plot_curves, plot_surfaces
    from regard.report.simplex import RoundAttention, plot_bars, plot_triangles

    # Double precision makes the plotted values the exact solutions to all printed digits.
    double = torch.float64
    scores = torch.tensor([[1.2, 0.8, -0.2], [0.7, 0.9, 0.1], [-0.2, 0.2, 0.9]], dtype=double)
    fertility = torch.ones(3, dtype=double)
    maps = [RoundAttention(free.__name__, free(scores).numpy()) for free in (softmax, sparsemax)]
    for scan, loose in zip((constrained_softmax_scan, constrained_sparsemax_scan), tuple(maps), strict=True):
        weights = scan(scores, fertility)
        bounds = remaining_bound(fertility.expand_as(weights), weights.cumsum(0) - weights)
        maps.append(
            RoundAttention(f"constrained {loose.name}", weights.numpy(), bounds.numpy(), loose.weights)
        )

    differences = torch.linspace(-3, 3, 121, dtype=double)
    pairs = torch.stack([differences, torch.zeros_like(differences)], -1)
    curves = {map.__name__: map(pairs)[:, 0].numpy() for map in (softmax, sparsemax)}

    def over(map: "Callable[..., torch.Tensor]", first: int, second: int) -> "np.ndarray":
        """Return the first weight on a grid of the first two scores, of shape [second, first]."""
        down, across = torch.meshgrid(
            torch.linspace(-3, 3, second, dtype=double),
            torch.linspace(-3, 3, first, dtype=double),
            indexing="ij",
        )
        return map(torch.stack([across, down, torch.zeros_like(down)], -1))[..., 0].numpy()

    surfaces = [
        Surface(map.__name__, 3, over(map, 19, 19), over(map, 241, 121), map is sparsemax)
        for map in (softmax, sparsemax)
    ]
    pictures = {
        "rounds.svg": plot_bars(maps, scores.numpy(), fertility.numpy()),
        "simplex.svg": plot_triangles(maps, scores.numpy()),
        "two-dimensions.svg": plot_curves(differences.numpy(), curves),
        "three-dimensions.svg": plot_surfaces(surfaces),
    }
    rows = [["map", "round", "word 1", "word 2", "word 3", "bound 1", "bound 2", "bound 3"]]
    numbers: dict[str, Any] = {"scores": scores.tolist(), "fertility": fertility.tolist(), "maps": {}}
    for each in maps:
        bounds = None if each.bounds is None else each.bounds.tolist()
        numbers["maps"][each.name] = {
            "rounds": each.weights.tolist(),
            "bounds": bounds,
            "cumulative": each.weights.sum(0).tolist(),
        }
        for r, weights in enumerate(each.weights.tolist()):
            limits = bounds[r] if bounds else [None] * 3
            rows.append([each.name, f"{r + 1}", *map(format_value, [*weights, *limits])])
        rows.append([each.name, "sum", *map(format_value, each.weights.sum(0).tolist()), "", "", ""])
    numbers["two_dimensions"] = {"difference": differences.tolist()} | {
        name: curve.tolist() for name, curve in curves.items()
    }
    return PlottedFigure(pictures, rows, numbers)
