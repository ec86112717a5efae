"""Typed configuration: frozen dataclasses, read from one TOML file per run.

`@configclass` turns a class into a frozen, strict pydantic dataclass that rejects unknown keys. `option`
declares a field with its default and its help text, which `regard config` prints. `read_config` reads a TOML
file and applies `key=value` overrides. Every error is a `ConfigError` that names the path of the key and the
nearest known key. Configuration classes are defined in the modules that they configure.
"""

import dataclasses
import difflib
import inspect
import json
import os
import re
import stat
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

import pydantic
import tomli_w
from pydantic import ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from regard.errors import ConfigError, PluginError

__all__ = [
    "ConfigUnion",
    "TaggedUnion",
    "apply_override",
    "config_classes",
    "configclass",
    "dump_toml",
    "from_dict",
    "is_configclass",
    "kind_of",
    "option",
    "parse_toml",
    "read_config",
    "read_toml",
    "to_dict",
]

C = TypeVar("C")
MAX_FILE_BYTES = 1 << 20
"""Maximum size of a TOML file in bytes."""


def option(default: Any = ..., help: str = "", **constraints: Any) -> Any:
    """Declare a configuration field.

    Args:
        default: Value of an absent key, or a callable that returns it. A field without a default is required.
        help: Help text for `regard config` and the documentation.
        **constraints: Constraints of pydantic's `Field` (`ge`, `gt`, `le`, `lt`, `min_length`...).
    """
    if callable(default):
        return Field(default_factory=default, description=help, **constraints)
    return Field(default, description=help, **constraints)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option, Field))
def configclass(cls: type[C]) -> type[C]:
    """Turn `cls` into a configuration class: frozen, keyword-only and strict, without unknown keys.

    Raises:
        PluginError: if an option has no annotation.
    """
    for name, value in vars(cls).items():
        if isinstance(value, FieldInfo) and name not in inspect.get_annotations(cls):
            raise PluginError(
                f"{cls.__qualname__}.{name}: an option needs an annotation of its type, such as `{name}: int`"
            )
    settings = ConfigDict(extra="forbid", strict=True)
    decorated: Any = pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=settings)(cls)
    return decorated


def is_configclass(cls: Any) -> bool:
    """Return whether `cls` is a configuration class."""
    return isinstance(cls, type) and pydantic.dataclasses.is_pydantic_dataclass(cls)


class ConfigUnion:
    """Annotation of a field whose table may be of several kinds, selected by the key `kind`.

    Attributes:
        default: The kind of a table without the key `kind`. A table may thus set its other keys only. If the
            default is empty, the key is required.
    """

    default: str

    def config_classes(self) -> Iterator[type[Any]]:
        """Yield the configuration classes that are not listed in the annotated type itself."""
        yield from ()


@dataclasses.dataclass(frozen=True)
class TaggedUnion(ConfigUnion):
    """Annotation of a closed union of configurations that selects a member by its field `kind`.

    Used as `Annotated[OakConfig | ElmConfig, TaggedUnion("oak")]`. Unions that plugins extend are registries
    (`regard.config.registry`).
    """

    default: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Build the schema of the tagged union for pydantic."""
        members = {kind_of(member): handler.generate_schema(member) for member in _members(source)}

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
    """Yield the members of a union, including those of nested unions that are selected by `kind`."""
    for member in typing.get_args(union):
        if typing.get_origin(member) is typing.Annotated:
            yield from _members(typing.get_args(member)[0])
        else:
            yield member


def kind_of(cls: type[Any]) -> str | None:
    """Return the one value that the field `kind` of a class may have; None if there is no such field."""
    values = typing.get_args(typing.get_type_hints(cls).get("kind"))
    return values[0] if len(values) == 1 else None


def to_dict(value: Any) -> Any:
    """Return a configuration as plain dictionaries, lists and scalars, without values that are None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {name: to_dict(item) for name, item in pairs if item is not None}
    if isinstance(value, list | tuple):
        return [to_dict(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_dict(item) for key, item in value.items()}
    return str(value) if isinstance(value, Path) else value


def from_dict(cls: type[C], data: Mapping[str, Any], origin: str = "config") -> C:
    """Build a configuration from plain dictionaries.

    Args:
        cls: The configuration class.
        data: The keys and values.
        origin: The origin of the data, which opens each line of an error message.

    Raises:
        ConfigError: if a key or value is wrong. The message has one line per error, with the path of the key,
            its value and the expected value.
    """
    try:
        # JSON mode of pydantic accepts a list for a tuple even in strict mode, as TOML has lists only.
        text = json.dumps(data, default=str, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{origin}: {_parse_failure(error)}") from None
    try:
        return TypeAdapter(cls).validate_json(text)
    except ValidationError as error:
        messages = "\n".join(f"{origin}: {message}" for message in _format_errors(cls, error))
        raise ConfigError(messages) from None


def read_config(cls: type[C], path: Path | str, overrides: Iterable[str] = ()) -> C:
    """Read a TOML file, apply `key=value` overrides and validate the result.

    Args:
        cls: The configuration class.
        path: The TOML file.
        overrides: Overrides of the form `a.b.c=value`; see `apply_override`.

    Raises:
        ConfigError: if the file is missing or not TOML, or a key or value is wrong.
    """
    data = read_toml(path)
    for override in overrides:
        apply_override(data, override)
    return from_dict(cls, data, origin=str(path))


def read_toml(path: Path | str) -> dict[str, Any]:
    """Return the contents of a TOML file as plain data.

    Raises:
        ConfigError: if the file is missing, is not a regular file, is larger than 1 MiB or is not TOML.
    """
    try:
        # Opening a named pipe without a writer would block.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ConfigError(f"{path}: not a regular file")
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{str(path)!r}: not a valid file name") from None
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: more than {MAX_FILE_BYTES:,} bytes, the maximum size of a config file")
    try:
        text = content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}: line {line}, byte {error.start + 1} of the file: not UTF-8") from None
    try:
        return parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return TOML text as plain data.

    Raises:
        ValueError: if the text is not TOML, is nested too deeply, or has a number with thousands of digits.
    """
    try:
        # The text was decoded from bytes, so Windows line endings have not been normalized yet.
        return tomllib.loads(text.replace("\r\n", "\n").replace("\r", "\n"))
    except (ValueError, RecursionError) as error:
        raise ValueError(_parse_failure(error)) from None


def _parse_failure(error: ValueError | RecursionError) -> str:
    """Return the reason why data could not be parsed."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeEncodeError):
        value = error.object[error.object.rfind('"', 0, error.start) + 1 :].partition('"')[0]
        return f"{value}: not valid UTF-8, as a configuration must be; rename the file"
    return "a number with thousands of digits" if "int_max_str_digits" in str(error) else str(error)


def dump_toml(value: Any) -> str:
    """Return a configuration as TOML text; `read_config` reads it back to an equal configuration."""
    return tomli_w.dumps(to_dict(value))


def config_classes(hint: Any) -> Iterator[type[Any]]:
    """Yield the configuration classes in a type hint."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        yield hint
    if isinstance(hint, ConfigUnion):
        yield from hint.config_classes()
    for argument in typing.get_args(hint):
        yield from config_classes(argument)


def apply_override(data: dict[str, Any], override: str) -> None:
    """Apply one override of the form `key=value` to plain data.

    Args:
        data: The data, changed in place.
        override: `a.b.c=value`. The value is parsed as TOML; if it is not valid TOML, it is a string. An
            element of a list is selected by its index, as in `training.losses.0.weight=2`; -1 is the last.

    Raises:
        ConfigError: if the override does not have this form, a part of the key is not a table, or a list has
            no such element.
    """
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"override {override!r}: expected key=value")
    try:
        value: Any = parse_toml(f"value = {text}")["value"]
    except ValueError:
        value = text
    *path, last = key.strip().split(".")
    place: Any = data
    for depth, part in enumerate(path):
        inner = _override_key(override, place, path[:depth], part)
        place = place.setdefault(inner, {}) if isinstance(place, dict) else place[inner]
    place[_override_key(override, place, path, last)] = value


def _override_key(override: str, place: Any, path: list[str], part: str) -> str | int:
    """Return the key of a table or the index of a list that a part of an override selects."""
    if isinstance(place, dict):
        return part
    name = ".".join(path)
    if not isinstance(place, list):
        raise ConfigError(f"override {override!r}: {name} is not a table")
    length = len(place)
    if re.fullmatch(r"-?[0-9]{1,9}", part) and -length <= int(part) < length:
        return int(part)
    known = f"its elements are {name}.0 to {name}.{length - 1}" if length else "it is empty"
    raise ConfigError(f"override {override!r}: {name} is a list without the element {part!r}; {known}")


def _format_errors(cls: type[Any], error: ValidationError) -> Iterator[str]:
    """Yield a message for each error of pydantic."""
    for problem in error.errors():
        path = [str(part) for part in problem["loc"]]
        known, names = _resolve_path(cls, path[:-1])
        dotted_key = ".".join([*names, *path[-1:]])
        if problem["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            # The key may belong to another kind of the union. Suggesting it again would not help.
            others = [key for key in known if key != path[-1]]
            near = difflib.get_close_matches(path[-1], others, n=1, cutoff=0.0)
            nearest = f"; the nearest known key is {'.'.join([*names, near[0]])!r}" if near else ""
            yield f"unknown key {dotted_key!r}{nearest}"
        elif problem["type"] in ("missing", "missing_argument"):
            yield f"key {dotted_key!r} is required"
        else:
            message = problem["msg"].removeprefix("Value error, ")
            message = f"{message[:1].lower()}{message[1:]}"
            # A check of several keys names them in its own message. The tags that pydantic adds to a path for
            # members of a union are not keys.
            dotted_key = ".".join(_resolve_path(cls, path)[1])
            yield (
                f"{dotted_key}: {message}; got {_truncated_repr(problem.get('input'))}"
                if dotted_key
                else message
            )


def _truncated_repr(value: Any) -> str:
    """Return a value as text of at most 60 characters."""
    try:
        text = repr(value)
    except ValueError:  # raised by Python for an integer with thousands of digits
        return "a number with thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."


def _resolve_path(cls: type[Any], path: list[str]) -> tuple[list[str], list[str]]:
    """Return the field names that are valid at the path of a pydantic error, and the path without tags."""
    classes, names = [cls], []
    for part in path:
        members = [
            member
            for current in classes
            for field, hint in typing.get_type_hints(current, include_extras=True).items()
            if field == part
            for member in config_classes(hint)
        ]
        if members:
            classes, names = members, [*names, part]
            continue
        # A part that is not a field may be the tag of a member of a union: the default of its field `kind`.
        tagged = [
            c
            for c in classes
            if any(getattr(f.default, "default", f.default) == part for f in dataclasses.fields(c))
        ]
        classes, names = (tagged, names) if tagged else (classes, [*names, part])
    return sorted({f.name for c in classes for f in dataclasses.fields(c)}), names
