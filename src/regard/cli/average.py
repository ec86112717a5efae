"""`regard average`: average the weights of several models or checkpoints."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["average"]


def average(
    output_dir: Annotated[Path, typer.Argument(help="Directory for the averaged model.", show_default=False)],
    model_paths: Annotated[
        list[Path],
        typer.Argument(
            help="Model directories, or checkpoint files in their `training/` directories.",
            show_default=False,
        ),
    ],
    last_epochs: Annotated[
        int,
        typer.Option(
            help="Number of most recent epoch checkpoints to average from each model directory; "
            "training.checkpoint.keep_last_epochs determines how long they are kept. 0 averages the models "
            "themselves.",
            min=0,
            max=1_000_000,
        ),
    ] = 0,
) -> None:
    """Average the weights of models with the same architecture and vocabularies.

    The average of the last epochs of a run often translates better than any single epoch.

    Example: regard average runs/averaged runs/first --last-epochs 5
    """
    from rich.console import Console

    from regard.averaging import average_models

    files = average_models(output_dir, model_paths, last_epochs)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"{output_dir}: averaged the weights of {len(files)} checkpoints", markup=False)
