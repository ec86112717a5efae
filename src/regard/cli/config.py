"""`regard config`: the reference of all options, a template for a run, or the settings of a run in full."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["config"]


class ReferenceFormat(StrEnum):
    """The formats in which the options are printed."""

    text = "text"
    toml = "toml"


def config(
    what: Annotated[
        str | None,
        typer.Argument(
            help="A TOML file, whose settings are checked and printed in full, or the path of a table or "
            "option, such as model.attention. Default: all options.",
            show_default=False,
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Settings that override those of the file, as key=value.", show_default=False),
    ] = None,
    find: Annotated[
        str, typer.Option(help="Print only the options whose path or description contains this text.")
    ] = "",
    format: Annotated[
        ReferenceFormat,
        typer.Option(help="text: one line per option. toml: a commented template for a run."),
    ] = ReferenceFormat.text,
) -> None:
    """Print the options with their defaults, or check a run's file and print all its settings.

    Example: regard config model.attention
    """
    from rich.console import Console

    from regard.config import dump_toml
    from regard.config_reference import reference, select_tables
    from regard.config_rendering import render_text, render_toml
    from regard.errors import ConfigError
    from regard.run_config import RunConfig, read_run_config

    if what is not None and (what.endswith(".toml") or overrides or Path(what).is_file()):
        typer.echo(dump_toml(read_run_config(Path(what), overrides or [])), nl=False)
        return
    tables = reference(RunConfig)
    if what is not None:
        tables = select_tables(tables, what)
    if find:
        tables = [table.matching(find) for table in tables]
        tables = [table for table in tables if table.options]
        if not tables:
            raise ConfigError(f"no option contains {find!r} in its path or its description")
    if format is ReferenceFormat.toml:
        typer.echo(render_toml(tables), nl=False)
        return
    console = Console()
    lines = render_text(tables, width=console.width if console.is_terminal else None)
    typer.echo("\n".join(lines))
