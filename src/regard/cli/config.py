"""`regard config`: every option with its default and sentence, or a run's settings in full."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["config"]


def config(
    file: Annotated[
        Path | None,
        typer.Argument(help="A TOML file whose settings are printed in full.", show_default=False),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Settings in the place of the file's, as key=value.", show_default=False),
    ] = None,
    find: Annotated[str, typer.Option(help="Print only options whose path or sentence has this.")] = "",
) -> None:
    """Print every option with its default, or check a file and print all its settings.

    Example: regard config --find attention
    """
    from rich.console import Console
    from rich.markup import escape

    from regard.config import dump_toml, options
    from regard.experiment import RunConfig, read_run

    if file is not None:
        typer.echo(dump_toml(read_run(file, overrides or [])), nl=False)
        return
    console = Console(highlight=False, soft_wrap=True)
    for entry in options(RunConfig):
        if find.lower() not in f"{entry.path} {entry.help}".lower():
            continue
        console.print(
            f"[bold]{escape(entry.path)}[/] = {escape(entry.default)}  [dim]({escape(entry.type)})[/]"
        )
        if entry.help:
            console.print(f"    {escape(entry.help)}")
