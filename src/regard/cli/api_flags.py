"""The flags of a command from the API function that it calls.

`@ApiCommand` gives a command one flag for each parameter of the function, and for each field of its option
classes. The types, the descriptions, the ranges and the defaults are those of the API
(`regard.cli.declarations`), so that Python and the command line cannot differ:

    @ApiCommand("regard.analyze:length", arguments=["systems"], panels=SEARCH_FLAGS | COMPUTATION_FLAGS)
    def length_command(call: ApiCall, json_file: JsonOption = None) -> None:
        result = call()
"""

import ast
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.api import build_options, named_object
from regard.cli.command import Writes, check_paths
from regard.cli.declarations import Declaration, option_class, read_class, read_function, read_setting
from regard.cli.output import track
from regard.errors import UsageError

# Panels of the arguments of `regard.load`, which the functions of models pass on.
SEARCH_FLAGS = {"Search": "beam_size length_penalty coverage_penalty"}
ATTENTION_FLAGS = {"Attention": "map layer head"}
COMPUTATION_FLAGS = {"Computation": "batch_size precision device num_threads"}

_TYPES: dict[str, Any] = {"bool": bool, "int": int, "float": float, "str": str}
_NAMES = {
    "sources": "source",
    "references": "reference",
    "targets": "target",
    "overrides": "set",
    "training": "train",
}
"""The flags of parameters whose names differ: a parameter takes a list, a flag one file or setting."""
_RANGES = {
    "num_threads": (1, 1_024),
    "seed": (0, 2**32 - 1),
    "num_bootstrap_samples": (2, 1_000_000),
    "num_sentences": (0, 1_000_000_000),
    "threshold": (0, 1),
    "fail_on": (0, 1),
    "filter": (0, 1),
    "slack": (0, 99),
}
"""The ranges of numbers that are parameters of functions; option classes check their fields."""


@dataclass(frozen=True)
class Switch:
    """The flag without which an option class is not built, as `--sample` for `Sampling`.

    Attributes:
        flag: Its name. It is that of a field, or turns the options on.
        prefix: Prefix of the flags of the fields.
        value: The field that the flag sets, if any.
    """

    flag: str
    prefix: str = ""
    value: str | None = None


@dataclass(frozen=True)
class _Flag:
    """A flag: the parameter that it sets, or the field of the option class of the parameter `owner`."""

    declaration: Declaration
    owner: str | None = None
    switch: Switch | None = None


class ApiCall:
    """The call of an API function with the values of the flags that are given.

    Attributes:
        values: The arguments by name.
        options: The values of the fields of each option class, by the name of its parameter.
    """

    def __init__(self, command: "ApiCommand", flags: Mapping[str, _Flag], given: Mapping[str, Any]) -> None:
        """Store the values of the flags.

        Raises:
            UsageError: if a flag is given without its switch, or is not a list of the right form.
        """
        self.target = command.target
        self.values, self.options = dict[str, Any](), dict[str, dict[str, Any]]()
        declarations = read_function(command.target)
        homes = {declaration.name: option_class(declaration) for declaration in declarations}
        self.classes = {name: home for name, home in homes.items() if home is not None}
        self.classes |= command.parts
        self.shows_progress = any(declaration.annotation == "Progress" for declaration in declarations)
        for owner, switch in command.switches.items():
            names = [name for name, flag in flags.items() if flag.owner == owner and name != switch.flag]
            needing = [f"--{name.replace('_', '-')}" for name in names if given[name] is not None]
            if given[switch.flag]:
                self.options[owner] = {}
            elif needing:
                listed = " and ".join(filter(None, [", ".join(needing[:-1]), needing[-1]]))
                raise UsageError(f"{listed} {'need' if len(needing) > 1 else 'needs'} --{switch.flag}")
        for name, flag in flags.items():
            if (value := given[name]) is not None and flag.declaration.name:
                values = self.values if flag.owner is None else self.options.setdefault(flag.owner, {})
                values[flag.declaration.name] = (
                    _split(flag.declaration, value) if isinstance(value, str) else value
                )

    def take(self, name: str) -> Any:
        """Return the object of an option class or a part with the given flags, and do not pass it on."""
        return build_options(self.classes[name], self.options.pop(name, {}))

    def __call__(self, **values: Any) -> Any:
        """Call the function, with further arguments."""
        options = {name: self.take(name) for name in list(self.options)}
        if self.shows_progress:
            options["progress"] = track
        return named_object(self.target)(**self.values | options | values)


@dataclass(frozen=True)
class ApiCommand:
    """Decorator that gives a command a flag for each parameter of an API function.

    The command receives the call with the given values as its first argument, an `ApiCall`; its own
    parameters become flags, too. Without a flag, the function's default applies.

    Attributes:
        target: The function, as `module:name`.
        arguments: The parameters that are arguments instead of flags, in their order.
        skip: Parameters and fields without a flag. A field may be named with its parameter: `mbr.utility`.
        panels: Titles of panels in `--help`, with the names of their flags. A parameter stands for the fields
            of its option class. A name that is no parameter is an argument of `regard.load`.
        writes: How the command writes the paths of parameters.
        switches: The flags that turn on optional option classes, by parameter.
        parts: Functions or dataclasses `module:name` whose results or objects the command uses, by name
            (`ApiCall.take`).
        repeated: Parameters whose flag is repeated instead of taking a list with commas.
    """

    target: str
    arguments: Collection[str] = ()
    _: KW_ONLY
    skip: Collection[str] = ()
    panels: Mapping[str, str] = field(default_factory=dict)
    writes: Mapping[str, Writes] = field(default_factory=dict)
    switches: Mapping[str, Switch] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    repeated: Collection[str] = ()

    def __call__(self, command: Callable[..., Any]) -> Callable[[], None]:
        """Return a stub of the command: the source of the API is read only when the command runs."""

        def stub() -> None:
            raise AssertionError("the command has no flags before it is completed")

        stub.__name__, stub.__doc__ = command.__name__, command.__doc__
        stub.complete = partial(self._complete, command)  # type: ignore[attr-defined]
        return stub

    def _complete(self, command: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function from which typer makes all arguments and flags."""
        flags = self._flags()
        titles = {name: title for title, names in self.panels.items() for name in names.split()}
        in_panels = [name for each in titles for name, flag in flags.items() if each in (name, flag.owner)]
        order = dict.fromkeys([*self.arguments, *in_panels, *flags])
        parameters = [
            self._parameter(name, flags[name], titles.get(name, titles.get(flags[name].owner or "")))
            for name in order
        ]

        def run(**values: Any) -> Any:
            given = {name: values.pop(name) for name in flags}
            return command(ApiCall(self, flags, given), **values)

        others = list(inspect.signature(command).parameters.values())[1:]
        keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*parameters, *others)]
        run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
        run.__doc__ = command.__doc__
        return check_paths(run)

    def _flags(self) -> dict[str, _Flag]:
        """Return the flags by name: those of parameters and option classes, then those of `regard.load`."""
        flags: dict[str, _Flag] = {}
        for declaration in read_function(self.target):
            owner, home = declaration.name, option_class(declaration)
            if owner in (*self.skip, *self.parts) or declaration.annotation.startswith(
                ("Progress", "Callable")
            ):
                continue
            if home is None:
                flags[owner] = _Flag(declaration)
                continue
            switch = self.switches.get(owner)
            if switch is not None and switch.value is None:
                # It turns the options on without a value of its own.
                turn_on = Declaration("", "bool", False, False, declaration.help, None, None, "")
                flags[switch.flag] = _Flag(turn_on, owner, switch)
            for entry in read_class(home):
                if entry.name not in (*self.skip, *self.parts) and f"{owner}.{entry.name}" not in self.skip:
                    name = (
                        entry.name if switch is None else f"{switch.prefix}{entry.name.removeprefix('num_')}"
                    )
                    if switch is not None and entry.name == switch.value:
                        name, entry = switch.flag, replace(entry, default=None, help=declaration.help)
                    flags[name] = _Flag(entry, owner, switch)
        for owner, target in self.parts.items():
            entries = read_class(target) if target.partition(":")[2][0].isupper() else read_function(target)
            flags |= {entry.name: _Flag(replace(entry, required=False), owner) for entry in entries}
        listed = [name for names in self.panels.values() for name in names.split()]
        known = {*flags, *(flag.owner for flag in flags.values())}
        return flags | {name: _Flag(read_setting(name)) for name in listed if name not in known}

    def _parameter(self, name: str, flag: _Flag, panel: str | None) -> inspect.Parameter:
        """Return the parameter of the command for a flag."""
        declaration, is_argument = flag.declaration, name in self.arguments
        is_repeated = name == "overrides" or name in self.repeated
        kind = _type(declaration, is_argument, is_repeated)
        optional = not declaration.required or flag.switch is not None
        note = "The option may be repeated." if kind in (list[str], list[Path]) else ""
        if kind is str and _elements(declaration):
            note = "Several are separated by commas."
        low, high = _RANGES.get(name, (None, None)) if kind in (int, float) else (None, None)
        if low is not None:
            declaration = replace(declaration, low=low, high=high)
        if is_argument:
            info: Any = typer.Argument(help=declaration.describe(), show_default=False)
        else:
            info = typer.Option(
                *_names(name, declaration, kind),
                help=declaration.describe(note),
                show_default=False,
                min=low,
                max=high,
                metavar="SOURCE TARGET" if kind == tuple[Path, Path] else None,
                rich_help_panel=panel,
            )
        marks = [self.writes[name]] if name in self.writes else []
        return inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if optional else inspect.Parameter.empty,
            annotation=Annotated[(kind | None if optional else kind, info, *marks)],
        )


def _names(name: str, declaration: Declaration, kind: Any) -> list[str]:
    """Return the names of a flag, such as `--replace-unk/--no-replace-unk` for one that is on by default."""
    long = f"--{_NAMES.get(name, name).replace('_', '-')}"
    # A setting of the model may be on or off, and the flag of an output directory that is required is short.
    names = [f"{long}/--no-{long[2:]}" if kind is bool and declaration.default is not False else long]
    if name == "num_sentences":
        return [*names, "-n"]
    return [*names, "-o"] if name == "output" or (name == "output_dir" and declaration.required) else names


def _type(declaration: Declaration, is_argument: bool, is_repeated: bool) -> Any:
    """Return the type of a flag, from which typer parses its value."""
    text = declaration.annotation.removesuffix(" | None")
    if text.startswith("tuple") and re.search("Path|TextSource", text):
        return tuple[Path, Path]
    if "Path" in text or text.endswith(("Source", "Sources")):
        # A command takes several models or files as one list of arguments.
        several = (
            re.search(r"Sequence|Iterable|Sources", text) if is_argument else text.startswith("Sequence")
        )
        return list[Path] if several else Path
    if _elements(declaration):
        return list[str] if is_argument or is_repeated else str
    if text.startswith("Literal"):
        return Literal[ast.literal_eval(f"({text[8:-1]},)")]
    return _TYPES.get(text, str)


def _elements(declaration: Declaration) -> list[str]:
    """Return the types of the values of a flag with commas, such as `--lines 3,7`; none for another flag."""
    # The bounds of a number are checked by its option class.
    annotation = re.sub(r"Annotated\[(\w+), [^\]]*\]", r"\1", declaration.annotation)
    inner = re.search(r"(?:Sequence|Iterable|tuple)\[(Literal\[.*?\]|[\w, .|]+)", annotation)
    # The texts of numbers are numbers where both are possible.
    text = "" if inner is None else re.sub(r"Literal\[.*\]|int \| str", "str", inner[1])
    names = [name.strip() for name in text.split(",") if name.strip() not in ("...", "")]
    return names if set(names) <= _TYPES.keys() else []


def _split(declaration: Declaration, text: str) -> Any:
    """Return the value of a flag: a list of a text with commas, if the parameter takes several values.

    Raises:
        UsageError: If a part of the list is not a number, or their number is wrong.
    """
    kinds, words = _elements(declaration), re.sub(r"\w+\[Literal\[.*?\]", "", declaration.annotation)
    # A word such as `auto` may stand instead of a list.
    if not kinds or f"'{text}'" in words:
        return text
    parts = [part.strip() for part in text.split(",")]
    each = kinds if len(kinds) > 1 else kinds * len(parts)
    try:
        return tuple(_TYPES[kind](part) for kind, part in zip(each, parts, strict=True))
    except ValueError:
        flag = declaration.name.replace("_", "-")
        count = f"{len(kinds)} " if len(kinds) > 1 else ""
        raise UsageError(f"--{flag} {text!r}: expected {count}numbers separated by commas") from None
