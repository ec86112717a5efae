"""Figures of softmax and sparsemax, with and without fertility constraints, that need no data."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from regard.cli.figures import FigureInput, format_value
from regard.errors import UsageError
from regard.plot.figure import PlottedFigure

if TYPE_CHECKING:
    import numpy as np
    import torch

    from regard.plot.landscape import Surface
    from regard.plot.simplex import RoundAttention

__all__ = ["plot_transformations"]


def plot_transformations(inputs: FigureInput) -> PlottedFigure:
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

    from regard.functional import softmax, sparsemax
    from regard.plot.landscape import curves_chart, surfaces_chart
    from regard.plot.simplex import rounds_chart, simplex_chart

    # Double precision makes the plotted values the exact solutions to all printed digits.
    double = torch.float64
    scores = torch.tensor([[1.2, 0.8, -0.2], [0.7, 0.9, 0.1], [-0.2, 0.2, 0.9]], dtype=double)
    fertility = torch.ones(3, dtype=double)
    transformations = _rounds(scores, fertility)
    differences = torch.linspace(-3, 3, 121, dtype=double)
    pairs = torch.stack([differences, torch.zeros_like(differences)], -1)
    curves = {free.__name__: free(pairs)[:, 0].numpy() for free in (softmax, sparsemax)}
    plotted = {
        "rounds": rounds_chart(transformations, scores.numpy(), fertility.numpy()),
        "simplex": simplex_chart(transformations, scores.numpy()),
        "two-dimensions": curves_chart(differences.numpy(), curves),
        "three-dimensions": surfaces_chart(_surfaces()),
    }
    rows = [["map", "round", "word 1", "word 2", "word 3", "bound 1", "bound 2", "bound 3"]]
    values: dict[str, Any] = {"scores": scores.tolist(), "fertility": fertility.tolist(), "maps": {}}
    for one in transformations:
        bounds = None if one.bounds is None else one.bounds.tolist()
        total = one.weights.sum(0).tolist()
        values["maps"][one.name] = {"rounds": one.weights.tolist(), "bounds": bounds, "cumulative": total}
        for r, weights in enumerate(one.weights.tolist()):
            limits = bounds[r] if bounds else [None] * 3
            rows.append([one.name, f"{r + 1}", *map(format_value, [*weights, *limits])])
        rows.append([one.name, "sum", *map(format_value, total), "", "", ""])
    values["two_dimensions"] = {"difference": differences.tolist()} | {
        name: curve.tolist() for name, curve in curves.items()
    }
    return PlottedFigure(plotted, rows, values)


def _rounds(scores: "torch.Tensor", fertility: "torch.Tensor") -> "list[RoundAttention]":
    """Return the attention of three time steps under each transformation, free and with fertilities."""
    from regard.functional import constrained_softmax_scan, constrained_sparsemax_scan, softmax, sparsemax
    from regard.functional.scans import remaining_bound
    from regard.plot.simplex import RoundAttention

    free = [RoundAttention(one.__name__, one(scores).numpy()) for one in (softmax, sparsemax)]
    bounded = []
    scans = (constrained_softmax_scan, constrained_sparsemax_scan)
    for scan, loose in zip(scans, free, strict=True):
        weights = scan(scores, fertility)
        bounds = remaining_bound(fertility.expand_as(weights), weights.cumsum(0) - weights)
        bounded.append(
            RoundAttention(f"constrained {loose.name}", weights.numpy(), bounds.numpy(), loose.weights)
        )
    return [*free, *bounded]


def _surfaces() -> "list[Surface]":
    """Return the first weight of softmax and of sparsemax as a function of the first two of three scores."""
    from regard.functional import softmax, sparsemax
    from regard.plot.landscape import Surface

    return [
        Surface(one.__name__, 3, _first_weight(one, 19, 19), _first_weight(one, 61, 31), one is sparsemax)
        for one in (softmax, sparsemax)
    ]


def _first_weight(transform: "Callable[..., torch.Tensor]", first: int, second: int) -> "np.ndarray":
    """Return the first weight on a grid of the first two scores, of shape [second, first]."""
    import torch

    down, across = torch.meshgrid(
        torch.linspace(-3, 3, second, dtype=torch.float64),
        torch.linspace(-3, 3, first, dtype=torch.float64),
        indexing="ij",
    )
    return transform(torch.stack([across, down, torch.zeros_like(down)], -1))[..., 0].numpy()
