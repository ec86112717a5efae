"""`regard prepare`: tokenize the text of a run and store it in binary form."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["prepare"]


def prepare(
    config: Annotated[
        Path, typer.Argument(help="TOML file with the configuration of the run.", show_default=False)
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Settings that override those of the file, as key=value.", show_default=False),
    ] = None,
) -> None:
    """Tokenize the text of a run and store it as binary arrays.

    If the text and the settings of the data have not changed, existing files are reused.

    Example: regard prepare recipes/multi30k-lstm.toml data.folder=prepared/multi30k
    """
    from rich.console import Console

    from regard.cli.progress import preparing
    from regard.data.prepared import prepare as run
    from regard.data.swapped import tell_swapped
    from regard.experiment import read_run

    settings = read_run(config, overrides or [])
    with preparing() as progress:
        prepared = run(settings.data, progress=progress)
    tell_swapped(prepared)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    text = prepared.text
    console.print(
        f"{settings.data.folder}: {len(prepared.split('train')):,} training pairs, vocabularies of "
        f"{len(text.source.vocabulary):,} and {len(text.target.vocabulary):,} tokens",
        markup=False,
    )
