"""`regard figures`: the papers' figures, drawn anew from what the code computes."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["figures"]


@dataclass(frozen=True)
class Figure:
    """What a figure's maker hands over.

    Attributes:
        pictures: SVG by file name.
        rows: A table of the numbers drawn, its head first.
        numbers: The same for a JSON file.
    """

    pictures: dict[str, str]
    rows: list[list[str]]
    numbers: dict[str, Any] = field(default_factory=dict)


def figures(
    name: Annotated[str, typer.Argument(help="Which figure: simplex.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the pictures; made if it is not there.")
    ] = Path("figures"),
    table: Annotated[bool, typer.Option("--table", help="Print the numbers drawn, as a table.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the numbers drawn to this file.")
    ] = None,
) -> None:
    """Draw the figures of the papers as SVG pictures, from the numbers that the code computes.

    simplex: softmax, sparsemax and their constrained versions on three words over three rounds (Malaviya et
    al. 2018, Figure 1), as bars and on the simplex; softmax against sparsemax in two and three dimensions.

    Example: regard figures simplex -o figures --table
    """
    from regard.cli.output import open_output, write_json
    from regard.errors import DataError, UsageError

    make = _FIGURES.get(name)
    if make is None:
        raise UsageError(f"no figure is called {name!r}; there is: {', '.join(_FIGURES)}")
    made = make()
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{output}: cannot be made: {error.strerror or error}") from None
    for file_name, svg in made.pictures.items():
        with open_output(output / file_name) as file:
            file.write(svg)
        print(f"figures: wrote {output / file_name}", file=sys.stderr)
    write_json(json_file, made.numbers)
    if table:
        _print(made.rows)


def _print(rows: list[list[str]]) -> None:
    """A table on a terminal, tab-separated lines in a pipe."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        print("\n".join("\t".join(row) for row in rows))
        return
    shown = Table(box=None, pad_edge=False)
    for i, head in enumerate(rows[0]):
        shown.add_column(head, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows[1:]:
        shown.add_row(*row)
    console.print(shown)


def _simplex() -> Figure:
    """Malaviya et al. (2018), Figure 1, and the lecture's softmax against sparsemax."""
    import numpy as np
    import torch

    from regard.functional import constrained_softmax_scan, constrained_sparsemax_scan, softmax, sparsemax
    from regard.functional.scans import remaining
    from regard.report.landscape import Surface, svg_curves, svg_surfaces
    from regard.report.simplex import Rounds, svg_bars, svg_triangles

    double = torch.float64
    scores = torch.tensor([[1.2, 0.8, -0.2], [0.7, 0.9, 0.1], [-0.2, 0.2, 0.9]], dtype=double)
    fertility = torch.ones(3, dtype=double)
    maps = [Rounds(free.__name__, free(scores).numpy()) for free in (softmax, sparsemax)]
    for scan, loose in zip((constrained_softmax_scan, constrained_sparsemax_scan), tuple(maps), strict=True):
        weights = scan(scores, fertility)
        bounds = remaining(fertility.expand_as(weights), weights.cumsum(0) - weights)
        maps.append(Rounds(f"constrained {loose.name}", weights.numpy(), bounds.numpy(), loose.weights))

    differences = torch.linspace(-3, 3, 121, dtype=double)
    pairs = torch.stack([differences, torch.zeros_like(differences)], -1)
    curves = {map.__name__: map(pairs)[:, 0].numpy() for map in (softmax, sparsemax)}

    def over(map: Callable[..., torch.Tensor], first: int, second: int) -> np.ndarray:
        """The first weight on a grid of so many first and second scores."""
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
        "rounds.svg": svg_bars(maps, scores.numpy(), fertility.numpy()),
        "simplex.svg": svg_triangles(maps, scores.numpy()),
        "two-dimensions.svg": svg_curves(differences.numpy(), curves),
        "three-dimensions.svg": svg_surfaces(surfaces),
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
            rows.append([each.name, f"{r + 1}", *map(_digits, [*weights, *limits])])
        rows.append([each.name, "sum", *map(_digits, each.weights.sum(0).tolist()), "", "", ""])
    numbers["two_dimensions"] = {"difference": differences.tolist()} | {
        name: curve.tolist() for name, curve in curves.items()
    }
    return Figure(pictures, rows, numbers)


def _digits(value: float | None) -> str:
    """Four digits, and none where it is exactly zero."""
    return "" if value is None else f"{value:.4f}" if value else "0"


_FIGURES: dict[str, Callable[[], Figure]] = {"simplex": _simplex}
