"""Commands of the command line: the paths that they write, their help and the flag `--plugin`.

`regard.cli.api_flags` gives a command the flags of an API function. A path is an input, unless its
declaration contains a `Writes`; an output that would overwrite an input or another output is refused.
"""

import functools
import inspect
import itertools
import re
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeVar, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from regard.api import check_outputs

R = TypeVar("R")


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


class Command(TyperCommand):
    """A command that takes its flags from the API when it runs, and whose help has the terminal's width."""

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

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the command."""
        # The line breaks within a paragraph are those of the docstring.
        self.help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(self.help or ""))
        super().format_help(ctx, formatter)


class CommandGroup(TyperGroup):
    """The group of all commands: it lets `--plugin` stand anywhere."""

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
