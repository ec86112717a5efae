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

    Example: regard prepare recipes/multi30k-lstm.toml data.cache_dir=prepared/multi30k
    """
    from rich.console import Console

    from regard.cli.progress import preparation_progress
    from regard.data.dataset import prepare_data
    from regard.data.text_checks import warn_if_swapped
    from regard.run_config import read_run_config

    settings = read_run_config(config, overrides or [])
    with preparation_progress() as progress:
        prepared = prepare_data(settings.data, progress=progress)
    warn_if_swapped(prepared)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    text = prepared.text
    console.print(
        f"{settings.data.cache_dir}: {len(prepared.split('train')):,} training pairs, vocabularies of "
        f"{len(text.source.vocabulary):,} and {len(text.target.vocabulary):,} tokens",
        markup=False,
    )
