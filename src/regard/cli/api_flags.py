"""The flags of a command from the API function that it calls.

`@from_api` gives a command one flag for each parameter of the function, and for each field of its option
classes. The types, the descriptions, the ranges and the defaults are those of the API
(`regard.cli.declarations`), so that Python and the command line cannot differ:

    @from_api("regard.analyze:length", arguments=["systems"])
    def length_command(call: ApiCall, runtime: RuntimeOptions, json_file: JsonOption = None) -> None:
        result = call(runtime)
"""

import ast
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.api import build_options, named_object
from regard.cli.command import Writes, expand_groups, given
from regard.cli.declarations import Declaration, option_class, read_class, read_function
from regard.cli.output import track
from regard.errors import UsageError

__all__ = ["ApiCall", "from_api"]


class ApiCall:
    """The call of an API function with the values of the flags that are given.

    Attributes:
        values: The arguments by name.
        options: The values of the fields of each option class, by the name of its parameter.
    """

    def __init__(self, target: str, declarations: Collection[Declaration]) -> None:
        """Store the function `module:name` and its parameters."""
        self.target, self.values, self.options = target, dict[str, Any](), dict[str, dict[str, Any]]()
        self.classes = {d.name: home for d in declarations if (home := option_class(d))}
        self.shows_progress = any(declaration.annotation == "Progress" for declaration in declarations)

    def set(self, declaration: Declaration, owner: str | None, value: Any) -> None:
        """Set an argument, or a field of the option class `owner`, to the value of its flag."""
        values = self.values if owner is None else self.options.setdefault(owner, {})
        values[declaration.name] = _split(declaration, value) if isinstance(value, str) else value

    def __call__(self, *groups: Any, **values: Any) -> Any:
        """Call the function with the values of option groups, and with further arguments."""
        options = {name: build_options(self.classes[name], fields) for name, fields in self.options.items()}
        merged = self.values | options
        for group in groups:
            merged |= given(group)
        if self.shows_progress:
            merged["progress"] = track
        return named_object(self.target)(**merged | values)


def from_api(
    target: str,
    arguments: Collection[str] = (),
    skip: Collection[str] = (),
    panel: str | None = None,
    notes: Mapping[str, str] = {},
    writes: Mapping[str, Writes] = {},
) -> Callable[[Callable[..., Any]], Callable[[], None]]:
    """Return a decorator that gives a command a flag for each parameter of an API function.

    The command receives the call with the given values as its first argument, an `ApiCall`; its own
    parameters and option groups become flags, too. Without a flag, the function's default applies.

    Args:
        target: The function, as `module:name`.
        arguments: The parameters that are arguments instead of flags, in their order.
        skip: Parameters and fields without a flag.
        panel: Title of the panel of the flags in `--help`.
        notes: Sentences about the command line that follow the description of a parameter.
        writes: How the command writes the paths of parameters.
    """

    def decorate(command: Callable[..., Any]) -> Callable[[], None]:
        def complete() -> Callable[..., Any]:
            return _complete(command, target, arguments, skip, panel, notes, writes)

        # The source of the API is read only when this command runs, not at each start of the command line.
        def stub() -> None:
            raise AssertionError("the command has no flags before it is completed")

        stub.__name__, stub.__doc__, stub.complete = command.__name__, command.__doc__, complete  # type: ignore[attr-defined]
        return stub

    return decorate


def _complete(
    command: Callable[..., Any],
    target: str,
    arguments: Collection[str],
    skip: Collection[str],
    panel: str | None,
    notes: Mapping[str, str],
    writes: Mapping[str, Writes],
) -> Callable[..., Any]:
    """Return a command with the flags of an API function; see `from_api`."""
    declarations = read_function(target)
    flags: dict[str, tuple[Declaration, str | None]] = {}
    for declaration in declarations:
        home = option_class(declaration)
        owner = None if home is None else declaration.name
        for entry in [declaration] if home is None else read_class(home):
            if entry.name not in skip and entry.annotation != "Progress":
                flags[entry.name] = entry, owner
    order = [*arguments, *(name for name in flags if name not in arguments)]
    parameters = [
        _flag(flags[name][0], name in arguments, notes.get(name, ""), panel, writes.get(name))
        for name in order
    ]

    def run(**values: Any) -> Any:
        call = ApiCall(target, declarations)
        for name, (declaration, owner) in flags.items():
            if (value := values.pop(name)) is not None:
                call.set(declaration, owner, value)
        return command(call, **values)

    others = list(inspect.signature(command).parameters.values())[1:]
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*parameters, *others)]
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    run.__doc__ = command.__doc__
    return expand_groups(run)


_TYPES: dict[str, Any] = {"bool": bool, "int": int, "float": float, "str": str}


def _flag(
    declaration: Declaration, is_argument: bool, note: str, panel: str | None, writes: Writes | None
) -> inspect.Parameter:
    """Return the parameter of a command for a parameter of the API."""
    text = declaration.annotation.removesuffix(" | None")
    kind: Any = _TYPES.get(text, str)
    if text.startswith("Literal"):
        kind = Literal[ast.literal_eval(f"({text[8:-1]},)")]
    elif text.startswith("tuple") and "Path" in text + text.replace("TextSource", "Path"):
        kind = tuple[Path, Path]
    elif text.startswith("Sequence[Path"):
        kind = list[Path]
    elif "Path" in text or text.endswith(("Source", "Sources")):
        # A command takes several models or files as one list of arguments.
        several = is_argument and re.search(r"Sequence|Iterable|Sources", text)
        kind = list[Path] if several else Path
    elif is_argument and text.startswith("Sequence"):
        kind = list[str]
    optional = not declaration.required
    if _element_types(declaration) and not is_argument:
        note = f"{note} Several are separated by commas.".strip()
    help_text = declaration.describe(note)
    if is_argument:
        info: Any = typer.Argument(help=help_text, show_default=False)
    else:
        name = declaration.name.replace("_", "-")
        plural = name in ("sources", "references", "targets")
        flag = f"--{name.removesuffix('s') if plural else name}"
        names = [flag] if kind is not bool or not declaration.default else [f"{flag}/--no-{name}"]
        # `regard init` has both; an optional directory is that of a run.
        if declaration.name == "output" or (declaration.name == "output_dir" and declaration.required):
            names.append("-o")
        if kind is tuple[Path, Path]:
            info = typer.Option(*names, help=help_text, metavar="SOURCE TARGET", rich_help_panel=panel)
        else:
            number = kind in (int, float)
            low, high = (declaration.low, declaration.high) if number else (None, None)
            info = typer.Option(
                *names, help=help_text, show_default=False, min=low, max=high, rich_help_panel=panel
            )
    annotation = Annotated[(kind | None if optional else kind, info, *([writes] if writes else []))]
    return inspect.Parameter(
        declaration.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None if optional else inspect.Parameter.empty,
        annotation=annotation,
    )


def _element_types(declaration: Declaration) -> list[str]:
    """Return the types of the values of a flag with commas, such as `--lines 3,7`; none for another flag."""
    found = re.search(r"(?:Sequence|Iterable|tuple)\[([\w, .]+)\]", declaration.annotation)
    names = [] if found is None else [name.strip() for name in found[1].split(",") if name.strip() != "..."]
    return names if set(names) <= _TYPES.keys() else []


def _split(declaration: Declaration, text: str) -> Any:
    """Return the value of a flag: a list of a text with commas, if the parameter takes several values.

    Raises:
        UsageError: If a part of the list is not a number, or their number is wrong.
    """
    kinds = _element_types(declaration)
    if not kinds or f"'{text}'" in declaration.annotation:
        return text
    parts = [part.strip() for part in text.split(",")]
    each = kinds if len(kinds) > 1 else kinds * len(parts)
    try:
        return tuple(_TYPES[kind](part) for kind, part in zip(each, parts, strict=True))
    except ValueError:
        flag = declaration.name.replace("_", "-")
        count = f"{len(kinds)} " if len(kinds) > 1 else ""
        raise UsageError(f"--{flag} {text!r}: expected {count}numbers separated by commas") from None
