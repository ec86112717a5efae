"""The building blocks of commands: option groups and flags of configuration classes.

An option group is a frozen dataclass. Each field is a flag, declared as for any typer command: `size:
Annotated[int, typer.Option(help="...")] = 1`. `@expand_groups` gives a command one parameter per field of its
groups, from which typer makes the flags, and passes the groups to the command:

    @expand_groups
    def translate(models: Models, search: SearchOptions, runtime: RuntimeOptions) -> None: ...

A path is an input, unless its declaration contains a `Writes`. `@expand_groups`, or `@check_paths` for a
command without groups, refuses an output that would overwrite an input or another output.

`setting` declares the flag of a field of a configuration class, with its description, range and default.
`regard.cli.api_flags` gives a command the flags of an API function.
"""

import dataclasses
import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from enum import Enum, auto
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo

from regard.api import check_outputs
from regard.cli.declarations import read_field
from regard.errors import UsageError

__all__ = [
    "Command",
    "CommandGroup",
    "Writes",
    "check_paths",
    "expand_groups",
    "fill_in_settings",
    "given",
    "require_flag",
    "setting",
]

R = TypeVar("R")
_SETTING = "setting:"


class Writes(Enum):
    """How a command writes the path of an argument or option, for its declaration."""

    FILE = auto()
    """It writes this file."""
    DIRECTORY = auto()
    """It writes or replaces this directory as a whole."""
    INTO = auto()
    """It adds files to this directory."""


def expand_groups(command: Callable[..., R]) -> Callable[..., R]:
    """Return a command that takes the fields of its option groups as keyword arguments.

    Its paths are checked by `check_paths`. Parameters without a group stay as they are. If a group has the
    attribute `panel`, its options stand in a panel of this title in `--help`. Arguments are listed before all
    options.
    """
    signature = inspect.signature(command)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if dataclasses.is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            parameters += _group_parameters(parameter.annotation)
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def call(**values: Any) -> R:
        option_groups = {
            # `pop` leaves the parameters without a group, which are passed on unchanged.
            name: group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        return command(**values, **option_groups)

    # A required flag may follow one with a default only if both are keyword-only.
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    call.__signature__ = signature.replace(parameters=keywords)  # type: ignore[attr-defined]
    return check_paths(call)


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


def _group_parameters(group: Any) -> Iterator[inspect.Parameter]:
    """Yield the fields of an option group as parameters of a command."""
    parameters = inspect.signature(group).parameters
    for field in dataclasses.fields(group):
        kind, declared, *marks = get_args(parameters[field.name].annotation)
        # The declaration may be shared by several groups with different panels.
        info = copy(declared)
        if isinstance(info, OptionInfo):
            info.rich_help_panel = info.rich_help_panel or getattr(group, "panel", None)
        parameter = parameters[field.name].replace(annotation=Annotated[(kind, info, *marks)])
        # The signature has a placeholder for a default factory, which typer would take as the default.
        if field.default_factory is not dataclasses.MISSING:
            parameter = parameter.replace(default=field.default_factory())
        yield parameter


def given(group: Any) -> dict[str, Any]:
    """Return the values of an option group that are not None, by the names of the fields."""
    values = {field.name: getattr(group, field.name) for field in dataclasses.fields(group)}
    return {name: value for name, value in values.items() if value is not None}


def require_flag(flag: str, present: bool, others: Mapping[str, object]) -> None:
    """Check that no flag is given without the one that it depends on.

    Args:
        flag: The flag that the others need.
        present: Whether it is given.
        others: The values of the other flags by the names of their fields; None if a flag is not given.

    Raises:
        UsageError: If flags are given without `flag`; names all of them.
    """
    flags = [f"--{name.replace('_', '-')}" for name, value in others.items() if value is not None]
    if flags and not present:
        listed = " and ".join(filter(None, [", ".join(flags[:-1]), flags[-1]]))
        raise UsageError(f"{listed} {'need' if len(flags) > 1 else 'needs'} {flag}")


def setting(path: str, *names: str, note: str = "", **options: Any) -> Any:
    """Declare the flag of a field of a configuration class. It is None if it is not given.

    The class checks the value when the command builds it.

    Args:
        path: Module and class, then a colon and the path of the field, as in
            `regard.generation.config.GenerationConfig:coverage_penalty.weight`. The module is imported only
            for `--help`, because it imports pydantic and may import PyTorch.
        *names: Names of the flag, if it is not that of the field.
        note: A sentence about the command that follows the description.
        **options: Other arguments of `typer.Option`.
    """
    return typer.Option(*names, help=f"{_SETTING}{path} {note}".strip(), show_default=False, **options)


def fill_in_settings(parameters: Iterable[Any]) -> None:
    """Set the help text of each flag declared by `setting` to the description of the field of its class."""
    for parameter in parameters:
        text = getattr(parameter, "help", None) or ""
        if text.startswith(_SETTING):
            path, _, note = text.removeprefix(_SETTING).partition(" ")
            field = read_field(path)
            if parameter.default is not None:
                field = dataclasses.replace(field, default=parameter.default)
            elif "GenerationConfig" in path:
                text = field.help.partition(" Default:")[0]
                field = dataclasses.replace(field, help=f"{text} Default: that of the model.")
            parameter.help = field.describe(note)


class Command(TyperCommand):
    """A command that takes its flags from the API when it runs, and describes its settings in its help."""

    def complete(self) -> None:
        """Add the flags of the API function to a command that was declared by `from_api`."""
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
        """Write the help of the command, with the descriptions of its settings."""
        fill_in_settings(self.params)
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
