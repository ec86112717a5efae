"""`regard average`: a model whose weights are the mean of several models' or checkpoints'."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["average"]


def average(
    out: Annotated[Path, typer.Argument(help="The new model folder.", show_default=False)],
    models: Annotated[
        list[Path],
        typer.Argument(help="Model folders, or files of weights in their `training/`.", show_default=False),
    ],
    last: Annotated[
        int,
        typer.Option(
            help="Take the last N epochs that each folder keeps (training.checkpoint.keep).",
            min=0,
            max=1_000_000,
        ),
    ] = 0,
) -> None:
    """Average the weights of models with the same parts and vocabularies.

    Averaging the last epochs of a run often translates better than any one of them.

    Example: regard average runs/averaged runs/first --last 5
    """
    from rich.console import Console

    from regard.averaging import average_models

    files = average_models(out, models, last)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"{out}: the mean of {len(files)} files of weights", markup=False)
