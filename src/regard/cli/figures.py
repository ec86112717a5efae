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
    name: Annotated[str, typer.Argument(help="Which figure: simplex, attention.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the pictures; made if it is not there.")
    ] = Path("figures"),
    source: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            help="attention: what `regard analyse --attention --json` wrote; may be repeated.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[bool, typer.Option("--table", help="Print the numbers drawn, as a table.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the numbers drawn to this file.")
    ] = None,
) -> None:
    """Draw the figures of the papers as SVG pictures, from the numbers that the code computes.

    simplex: softmax, sparsemax and their constrained versions on three words over three rounds (Malaviya et
    al. 2018, Figure 1), as bars and on the simplex; softmax against sparsemax in two and three dimensions.

    attention: accuracy against the entropy of attention, both histograms, of models that were analysed before
    (Shankar & Sarawagi 2019, Figures 3 and 4).

    Example: regard figures simplex -o figures --table
    """
    from regard.cli.output import open_output, write_json
    from regard.errors import DataError, UsageError

    make = _FIGURES.get(name)
    if make is None:
        raise UsageError(f"no figure is called {name!r}; there is: {', '.join(_FIGURES)}")
    made = make(source or [])
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


def _attention(files: list[Path]) -> Figure:
    """Shankar & Sarawagi (2019), Figures 3 and 4."""
    import json

    from regard.data.files import read_bytes
    from regard.errors import DataError, UsageError
    from regard.metrics.attention import AttentionFigures
    from regard.report.attention import svg_coverage, svg_entropy

    if not files:
        raise UsageError("figure attention is drawn --from what `regard analyse --attention --json` wrote")
    records: dict[str, Any] = {}
    models: dict[str, AttentionFigures] = {}
    for path in files:
        try:
            found = json.loads(read_bytes(path))["models"].items()
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError(f"{path}: not what `regard analyse --attention --json` writes") from None
        for name, record in found:
            if name in models:
                raise DataError(f"{path}: {name!r} comes twice; `regard analyse --names` tells models apart")
            try:
                models[name] = AttentionFigures.from_record(record)
            except DataError as error:
                raise DataError(f"{path}: {name}: {error}") from None
            records[name] = {key: value for key, value in record.items() if key != "lines"}
    single = ("accuracy", "entropy", "support", "coverage")
    rows = [
        ["model", *single],
        *([name, *(_digits(getattr(one, key)) for key in single)] for name, one in models.items()),
    ]
    pictures = {"entropy.svg": svg_entropy(models), "coverage.svg": svg_coverage(models)}
    return Figure(pictures, rows, {"models": records})


def _simplex(files: list[Path]) -> Figure:
    """Malaviya et al. (2018), Figure 1, and the lecture's softmax against sparsemax."""
    from regard.errors import UsageError

    if files:
        raise UsageError("figure simplex is drawn from nothing: --from has no place beside it")
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


_FIGURES: dict[str, Callable[[list[Path]], Figure]] = {"simplex": _simplex, "attention": _attention}
