"""Commands of the command line: the paths that they write, their help and the flag `--plugin`.

`regard.cli.api_flags` gives a command the flags of an API function. A path is an input, unless its
declaration contains a `Writes`; an output that would overwrite an input or another output is refused.
"""

import functools
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeVar, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from regard.api import check_outputs

R = TypeVar("R")

MAX_WIDTH = 120
"""Width of texts on a wide terminal, in columns; longer lines are hard to read."""


class Writes(Enum):
    """How a command writes the path of an argument or option, for its declaration."""

    FILE = auto()
    """It writes this file."""
    DIRECTORY = auto()
    """It writes or replaces this directory as a whole."""
    INTO = auto()
    """It adds files to this directory."""


def check_paths(command: Callable[..., R]) -> Callable[..., R]:
    """Return a command that does not start if an output would overwrite an input or another output."""
    marks = {
        name: next((mark for mark in get_args(parameter.annotation) if isinstance(mark, Writes)), None)
        for name, parameter in inspect.signature(command).parameters.items()
    }

    @functools.wraps(command)
    def call(**values: Any) -> R:
        paths: dict[Writes | None, list[Path]] = {None: [], **{mark: [] for mark in Writes}}
        for name, value in values.items():
            items = value if isinstance(value, list | tuple) else [value]
            paths[marks[name]] += [path for path in items if isinstance(path, Path)]
        # `--links-output -` writes to the same stream as the translations.
        files = [path for path in paths[Writes.FILE] if path != Path("-")]
        check_outputs(paths[None], files, paths[Writes.DIRECTORY])
        return command(**values)

    return call


class _Help:
    """The help of a command or a group.

    The tables of typer have a column for each kind of name, which leaves descriptions 21 of 80 columns.
    """

    def format_help(self: Any, ctx: Any, formatter: Any) -> None:
        """Write the usage and the docstring, and panels of its flags and commands."""
        from rich.console import Console
        from rich.panel import Panel
        from rich.table import Table

        rows: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            # The order of `--help` and `-h` varies from run to run.
            names = ", ".join([*sorted(parameter.opts, key=len, reverse=True), *parameter.secondary_opts])
            if parameter.param_type_name == "argument":
                names = parameter.display_name_raw + ("..." if parameter.nargs != 1 else "")
            elif not parameter.is_flag:
                # Choices are wrapped at spaces. Ranges and repetition are part of the description.
                choices = parameter.display_type_rich(ctx).replace("|", " | ")
                names += " " + re.sub(r"list\[|\]| range", "", choices)
            names += " (required)" if parameter.required else ""
            shown = parameter.default if parameter.show_default else None
            default = f" Default: {shown}." if shown else ""
            panel = parameter.rich_help_panel or f"{parameter.param_type_name}s".title()
            rows.setdefault(panel, []).append((names, f"{parameter.help}{default}"))
        for name, member in getattr(self, "commands", {}).items():
            rows.setdefault(member.rich_help_panel or "Commands", []).append((name, _paragraphs(member)[0]))
        console = Console(highlight=False, markup=False, emoji=False)
        width = min(console.width, MAX_WIDTH)
        for text in (self.get_usage(ctx), *_paragraphs(self)):
            typer.echo(textwrap.fill(text, width, break_on_hyphens=False) + "\n")
        for title, entries in rows.items():
            table = Table.grid(padding=(0, 2, 0, 0))
            # Flags, some with a type after a space, have the same width in all panels; long ones are wrapped.
            table.add_column(width=26 if any(" " in name for name, _ in entries) else 13, style="bold")
            for entry in entries:
                table.add_row(*entry)
            console.print(Panel(table, title=title, title_align="left", border_style="dim"), width=width)


def _paragraphs(command: Any) -> list[str]:
    """Return the paragraphs of the help of a command; their line breaks are those of the docstring."""
    texts = inspect.cleandoc(command.help or "").replace("`", "").split("\n\n")
    return [" ".join(text.split()) for text in texts]


class Command(_Help, TyperCommand):
    """A command that takes its flags from the API when it runs."""

    def complete(self) -> None:
        """Add the flags of the API function to a command that was declared by `ApiCommand`."""
        build = getattr(self.callback, "complete", None)
        if build is not None:
            program = typer.Typer(add_completion=False)
            program.command()(build())
            command: Any = typer.main.get_command(program)
            self.params, self.callback = command.params, command.callback

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments, after the command has all its flags."""
        self.complete()
        return super().make_context(info_name, args, parent, **extra)


class CommandGroup(_Help, TyperGroup):
    """A group of commands: it lets `--plugin` stand anywhere."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move `--plugin` to the front, so that it may stand anywhere before `--`."""
        # Arguments after `--` belong to the command, even if one of them is `--plugin`.
        end = args.index("--") if "--" in args else len(args)
        plugins, others, remaining = [], [], iter(args[:end])
        for argument in remaining:
            if argument == "--plugin":
                # Without a value, only the flag is moved, and the parser reports that the value is missing.
                plugins += [argument, *itertools.islice(remaining, 1)]
            elif argument.startswith("--plugin="):
                plugins.append(argument)
            else:
                others.append(argument)
        return super().parse_args(ctx, [*plugins, *others, *args[end:]])
