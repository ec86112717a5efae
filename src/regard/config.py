"""Typed configuration: frozen dataclasses beside the code they configure, read from one TOML a run.

`@config` makes a class a frozen, strict pydantic dataclass that refuses unknown keys; `option` gives a
field its default and the sentence that `regard config` prints. `load` reads TOML and `key=value`
overrides; every mistake becomes a `ConfigError` that names the key's path and the nearest known key.
"""

import dataclasses
import difflib
import json
import os
import stat
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

import pydantic
from pydantic import ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, core_schema

from regard.errors import ConfigError

__all__ = [
    "Kinds",
    "Option",
    "config",
    "dump_toml",
    "from_dict",
    "load",
    "option",
    "options",
    "parse_toml",
    "read_toml",
    "set_option",
    "to_dict",
]

C = TypeVar("C")
LARGEST = 1 << 20
"""The most bytes of a TOML file."""


def option(default: Any = ..., help: str = "", **constraints: Any) -> Any:
    """Declare a configuration field.

    Args:
        default: The value taken when the key is absent; without one the key is required.
        help: One sentence for `regard config` and the documentation.
        **constraints: pydantic's own (`ge`, `gt`, `le`, `lt`, `min_length`...).
    """
    if callable(default):
        return Field(default_factory=default, description=help, **constraints)
    return Field(default, description=help, **constraints)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option, Field))
def config(cls: type[C]) -> type[C]:
    """Make `cls` a configuration: frozen, keyword-only, strict, refusing unknown keys."""
    settings = ConfigDict(extra="forbid", strict=True)
    return pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=settings)(cls)  # type: ignore[return-value]


@dataclasses.dataclass(frozen=True)
class Kinds:
    """Tells the members of a union of configurations apart by their `kind`.

    Used as `Annotated[OakConfig | ElmConfig, Kinds("oak")]`.

    Attributes:
        default: The kind where none is given, so that a table may set other keys alone.
    """

    default: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Build the tagged union for pydantic."""
        members = {_kind(member): handler.generate_schema(member) for member in _members(source)}

        def pick(value: Any) -> str | None:
            kind = (
                value.get("kind", self.default) if isinstance(value, dict) else getattr(value, "kind", None)
            )
            return kind if isinstance(kind, str) else None

        known = " or ".join(repr(kind) for kind in members)
        return core_schema.tagged_union_schema(
            members,
            discriminator=pick,
            custom_error_type="kind",
            custom_error_message=f"expected a table with kind = {known}",
        )


def _members(union: Any) -> Iterator[type[Any]]:
    """The members of a union, and of unions told apart by kind that it holds."""
    for member in typing.get_args(union):
        if typing.get_origin(member) is typing.Annotated:
            yield from _members(typing.get_args(member)[0])
        else:
            yield member


def _kind(cls: type[Any]) -> str:
    """The kind of a configuration class: the one value its field `kind` may have."""
    return typing.get_args(typing.get_type_hints(cls)["kind"])[0]


def to_dict(value: Any) -> Any:
    """The plain dictionaries, lists and scalars of a configuration; `None` values are left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {name: to_dict(item) for name, item in pairs if item is not None}
    if isinstance(value, list | tuple):
        return [to_dict(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_dict(item) for key, item in value.items()}
    return str(value) if isinstance(value, Path) else value


def from_dict(cls: type[C], data: Mapping[str, Any], where: str = "config") -> C:
    """Build a configuration from plain dictionaries.

    Raises:
        ConfigError: naming the path of each wrong key, what came and what was expected.
    """
    try:
        text = json.dumps(data, default=str)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: {_unreadable(error)}") from None
    try:
        return TypeAdapter(cls).validate_json(text)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{where}: {line}" for line in _explain(cls, error))) from None


def load(cls: type[C], path: Path | str, overrides: Iterable[str] = ()) -> C:
    """Read a TOML file, apply `key=value` overrides, validate.

    Args:
        cls: The configuration class.
        path: The TOML file.
        overrides: `a.b.c=value`; the value is TOML, or a string where it is no valid TOML.

    Raises:
        ConfigError: if the file is missing or not TOML, or a key or value is wrong.
    """
    data = read_toml(path)
    for override in overrides:
        set_option(data, override)
    return from_dict(cls, data, where=str(path))


def read_toml(path: Path | str) -> dict[str, Any]:
    """Return the plain data of a TOML file.

    Raises:
        ConfigError: if the file is missing, is no regular file, has more than 1 MiB or is not TOML.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"{path}: not a regular file")
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{str(path)!r}: no name that a file can have") from None
    if len(content) > LARGEST:
        raise ConfigError(f"{path}: more than {LARGEST:,} bytes, the most of a file of settings")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}: line {line}, byte {error.start + 1} of the file: not UTF-8") from None
    try:
        return parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a named pipe that nobody writes to is opened, too, and then refused."""
    return os.open(path, flags | os.O_NONBLOCK)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the plain data of TOML text.

    Raises:
        ValueError: if it is not TOML, is nested too deeply, or holds a number of thousands of digits.
    """
    try:
        # The line ends of Windows, which files that are read as text lose.
        return tomllib.loads(text.replace("\r\n", "\n").replace("\r", "\n"))
    except (ValueError, RecursionError) as error:
        raise ValueError(_unreadable(error)) from None


def _unreadable(error: ValueError | RecursionError) -> str:
    """What is wrong with data that cannot even be read."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return "a number of thousands of digits" if "int_max_str_digits" in str(error) else str(error)


def dump_toml(value: Any) -> str:
    """A configuration as TOML text that `load` reads back to an equal one."""
    return "\n".join(_toml_table(to_dict(value), ())).strip() + "\n"


@dataclasses.dataclass(frozen=True)
class Option:
    """One line of `regard config`: the key's path, its type, its default and its sentence."""

    path: str
    type: str
    default: str
    help: str


def options(cls: type[Any], prefix: str = "") -> Iterator[Option]:
    """Every option below a configuration class, depth first, members of a union in turn."""
    hints = typing.get_type_hints(cls, include_extras=False)
    for field in dataclasses.fields(cls):
        path = f"{prefix}{field.name}"
        members = list(_configs(hints[field.name]))
        info = field.default
        default = getattr(info, "default", info)
        if members:
            repeated = typing.get_origin(hints[field.name]) in (tuple, list)
            for member in members:
                yield from options(member, f"{path}[]." if repeated else f"{path}.")
        else:
            help = getattr(info, "description", None) or ""
            factory = getattr(info, "default_factory", None)
            shown = factory() if factory is not None else default
            kind = _type_name(hints[field.name]) + _range(getattr(info, "metadata", ()))
            yield Option(path, kind, _shown(shown), help)


def _range(constraints: Iterable[Any]) -> str:
    """The range of a number, as `, 1 to 256`; nothing where it has none."""
    words = {"ge": "from {:,}", "gt": "above {:,}", "le": "to {:,}", "lt": "below {:,}"}
    found = [
        text.format(value)
        for name, text in words.items()
        for one in constraints
        if (value := getattr(one, name, None)) is not None
    ]
    return ", " + " ".join(found) if found else ""


def _shown(default: Any) -> str:
    required = default is dataclasses.MISSING or default is ... or "PydanticUndefined" in repr(default)
    if required:
        return "required"
    return "none" if default is None else _toml_value(to_dict(default))


def _type_name(hint: Any) -> str:
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return " | ".join(json.dumps(value) for value in typing.get_args(hint))
    if origin in (typing.Union, types.UnionType):
        return " | ".join(_type_name(h) for h in typing.get_args(hint) if h is not type(None))
    if origin in (tuple, list):
        return f"list of {_type_name(typing.get_args(hint)[0])}"
    return getattr(hint, "__name__", str(hint))


def _configs(hint: Any) -> Iterator[type[Any]]:
    """The configuration classes named in a type hint."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        yield hint
    for argument in typing.get_args(hint):
        yield from _configs(argument)


def set_option(data: dict[str, Any], override: str) -> None:
    """Put a `key=value` into plain data; the value is TOML, or a string where it is no valid TOML.

    Raises:
        ConfigError: if it is no `key=value`, or the key is below what is no table.
    """
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"override {override!r}: expected key=value")
    try:
        value: Any = parse_toml(f"value = {text}")["value"]
    except ValueError:
        value = text
    *path, last = key.strip().split(".")
    table: Any = data
    for part in path:
        table = table.setdefault(part, {}) if isinstance(table, dict) else None
        if isinstance(table, list) and table:
            raise ConfigError(f"override {override!r}: {part} is a list; give the whole list as TOML")
    if not isinstance(table, dict):
        raise ConfigError(f"override {override!r}: {'.'.join(path)} is not a table")
    table[last] = value


def _explain(cls: type[Any], error: ValidationError) -> Iterator[str]:
    for problem in error.errors():
        path = [str(part) for part in problem["loc"]]
        known, names = _walk(cls, path[:-1])
        shown = ".".join([*names, *path[-1:]])
        if problem["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            # A key that another kind has is no advice.
            others = [key for key in known if key != path[-1]]
            near = difflib.get_close_matches(path[-1], others, n=1, cutoff=0.0)
            yield f"unknown key {shown!r}" + (
                f"; the nearest known key is {'.'.join([*names, near[0]])!r}" if near else ""
            )
        elif problem["type"] in ("missing", "missing_argument"):
            yield f"key {shown!r} is required"
        else:
            message = problem["msg"].removeprefix("Value error, ")
            message = f"{message[:1].lower()}{message[1:]}"
            # A rule over several keys of the whole names them itself; the kind of a table is no key.
            shown = ".".join(_walk(cls, path)[1])
            yield f"{shown}: {message}; got {_clip(problem.get('input'))}" if shown else message


def _clip(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # of an integer of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."


def _walk(cls: type[Any], path: list[str]) -> tuple[list[str], list[str]]:
    """The field names known at a pydantic error's path, and the path without union tags."""
    classes, names = [cls], []
    for part in path:
        found = [
            member
            for current in classes
            for field, hint in typing.get_type_hints(current).items()
            if field == part
            for member in _configs(hint)
        ]
        if found:
            classes, names = found, [*names, part]
            continue
        tagged = [
            c
            for c in classes
            if any(getattr(f.default, "default", f.default) == part for f in dataclasses.fields(c))
        ]
        if tagged:
            classes = tagged
        else:
            names = [*names, part]
    return sorted({f.name for c in classes for f in dataclasses.fields(c)}), names


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return {"inf": "inf", "-inf": "-inf", "nan": "nan"}.get(repr(value), repr(value))
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml_value(item)}" for key, item in value.items()) + "}"
    return str(value)


def _toml_table(table: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    scalars = {k: v for k, v in table.items() if not isinstance(v, dict)}
    if path and (scalars or not table):
        yield f"\n[{'.'.join(path)}]"
    for key, value in scalars.items():
        yield f"{key} = {_toml_value(value)}"
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _toml_table(value, (*path, key))
