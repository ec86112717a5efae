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
from enum import Enum
from functools import partial
from pathlib import Path, PurePath
from typing import Any, TypeVar, dataclass_transform

import pydantic
import tomli_w
from pydantic import ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from regard.errors import ConfigError, PluginError

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
        PluginError: if an option has no annotation, or one of a type that no value of a TOML file has.
    """
    for name, value in vars(cls).items():
        if isinstance(value, FieldInfo) and name not in inspect.get_annotations(cls):
            raise PluginError(
                f"{cls.__qualname__}.{name}: an option needs an annotation of its type, such as `{name}: int`"
            )

    def build_schema(source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # A strict class would accept its instances only, but not a table.
        schema: Any = handler(source)
        settings: Any = handler.resolve_ref_schema(schema)
        settings["strict"] = False
        return schema

    decorated: Any = cls
    decorated.__get_pydantic_core_schema__ = staticmethod(build_schema)
    config = ConfigDict(extra="forbid", strict=True)
    decorated = pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=config)(decorated)
    for name, field in decorated.__pydantic_fields__.items():
        for unsupported in _unsupported_types(field.annotation):
            raise PluginError(
                f"{cls.__qualname__}.{name}: an option cannot be of type {unsupported.__name__}; use "
                "tuple[...] for a list, str for a path and Literal[...] for names"
            )
    return decorated


def _unsupported_types(hint: Any) -> Iterator[type[Any]]:
    """Yield the types in a type hint that strict validation never accepts; see `_with_tuples`."""
    kind = typing.get_origin(hint) or hint
    if isinstance(kind, type) and issubclass(kind, list | set | frozenset | PurePath | Enum):
        yield kind
    for argument in typing.get_args(hint):
        yield from _unsupported_types(argument)


def is_configclass(cls: Any) -> bool:
    """Return whether `cls` is a configuration class."""
    return isinstance(cls, type) and pydantic.dataclasses.is_pydantic_dataclass(cls)


@dataclasses.dataclass(eq=False)
class TaggedUnion:
    """Annotation of a union of configurations that selects a member by its field `kind`.

    Used as `Annotated[OakConfig | ElmConfig, TaggedUnion("oak")]`. Unions that plugins extend are registries
    (`regard.config.registry`).

    Attributes:
        default: The kind of a table without the key `kind`. A table may thus set its other keys only. If the
            default is empty, the key is required.
    """

    default: str
    advice = ""  # the end of the message about an unknown kind

    def config_classes(self) -> Iterator[type[Any]]:
        """Yield the configuration classes that are not listed in the annotated type itself."""
        yield from ()

    def find_config(self, source: Any, kind: str) -> type[Any] | None:
        """Return the class of a kind, for the annotated type; None if there is none."""
        return next((cls for cls in config_classes(source) if kind_of(cls) == kind), None)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Build the schema of a table of any kind. The kinds of a registry are looked up at validation."""
        return core_schema.no_info_plain_validator_function(partial(self._validate, source))

    def _validate(self, source: Any, value: Any) -> Any:
        kind = value.get("kind", self.default) if isinstance(value, dict) else getattr(value, "kind", None)
        config = self.find_config(source, kind) if isinstance(kind, str) else None
        if config is None:
            classes = [*config_classes(source), *self.config_classes()]
            known = " or ".join(repr(kind_of(cls)) for cls in classes) + self.advice
            text = f"kind is required: {known}" if kind == "" else f"expected a table with kind = {known}"
            raise PydanticCustomError("kind", "{text}", {"text": text})
        return TypeAdapter(config).validate_python(_with_tuples(value))


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


def from_dict(
    cls: type[C], data: Mapping[str, Any], origin: str = "config", overrides: Iterable[str] = ()
) -> C:
    """Build a configuration from plain dictionaries.

    Args:
        cls: The configuration class.
        data: The keys and values.
        origin: The origin of the data, which opens each line of an error message.
        overrides: The overrides that the data contains, for an error message about a changed kind.

    Raises:
        ConfigError: if a key or value is wrong. The message has one line per error, with the path of the key,
            its value and the expected value.
    """
    try:
        return TypeAdapter(cls).validate_python(_with_tuples(data))
    except RecursionError:
        raise ConfigError(f"{origin}: nested too deeply") from None
    except ValidationError as error:
        messages = "\n".join(f"{origin}: {message}" for message in _format_errors(cls, data, error))
        for override in overrides:
            table, _, kind = override.partition(".kind=")
            if kind and f"unknown key '{table}." in messages:
                messages = (
                    f"override {override!r}: {origin} sets options of {table} that this kind does not have; "
                    f"edit the file, or replace the whole table: '{table}={{kind = {json.dumps(kind)}, ...}}'"
                )
        raise ConfigError(messages) from None


def _with_tuples(value: Any) -> Any:
    """Return plain data as strict validation requires it: with tuples for lists, and text for paths."""
    if isinstance(value, Mapping):
        return {key: _with_tuples(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_with_tuples(item) for item in value)
    return str(value) if isinstance(value, Path) else value


def read_config(cls: type[C], path: Path | str, overrides: Iterable[str] = ()) -> C:
    """Read a TOML file, apply `key=value` overrides and validate the result.

    Args:
        cls: The configuration class.
        path: The TOML file.
        overrides: Overrides of the form `a.b.c=value`; see `apply_overrides`.

    Raises:
        ConfigError: if the file is missing or not TOML, or a key or value is wrong.
    """
    overrides = tuple(overrides)
    data = apply_overrides(read_toml(path), overrides)
    return from_dict(cls, data, str(path), overrides)


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
        ValueError: if the text is not TOML or is nested too deeply.
    """
    try:
        # The text was decoded from bytes, so Windows line endings have not been normalized yet.
        return tomllib.loads(text.replace("\r\n", "\n").replace("\r", "\n"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dump_toml(value: Any) -> str:
    """Return a configuration as TOML text; `read_config` reads it back to an equal configuration."""
    return tomli_w.dumps(to_dict(value))


def config_classes(hint: Any) -> Iterator[type[Any]]:
    """Yield the configuration classes in a type hint."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        yield hint
    if isinstance(hint, TaggedUnion):
        yield from hint.config_classes()
    for argument in typing.get_args(hint):
        yield from config_classes(argument)


def default_kind(hint: Any) -> str:
    """Return the default kind of a union of classes; empty if the hint is not such a union."""
    if isinstance(hint, TaggedUnion):
        return hint.default
    return next((kind for inner in typing.get_args(hint) if (kind := default_kind(inner))), "")


def apply_overrides(data: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return plain data after applying overrides of the form `key=value` to it in place.

    Args:
        data: The data.
        overrides: Texts such as `a.b.c=value`. A value is parsed as TOML; if it is not valid TOML, it is a
            string. An element of a list is selected by its index, as in `training.losses.0.weight=2`; -1 is
            the last.

    Raises:
        ConfigError: if an override does not have this form, a part of the key is not a table, or a list has
            no such element.
    """
    for override in overrides:
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
    return data


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


def _format_errors(cls: type[Any], data: Mapping[str, Any], error: ValidationError) -> Iterator[str]:
    """Yield a message for each error of pydantic."""
    for problem in error.errors():
        *path, last = problem["loc"] or ("",)
        known, names = _resolve_path(cls, data, path)
        dotted_key = ".".join([*names, str(last)])
        if problem["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            # The key may belong to another kind of the union. Suggesting it again would not help.
            others = [key for key in known if key != last]
            near = difflib.get_close_matches(str(last), others, n=1, cutoff=0.0)
            nearest = f"; the nearest known key is {'.'.join([*names, near[0]])!r}" if near else ""
            yield f"unknown key {dotted_key!r}{nearest}"
        elif problem["type"] in ("missing", "missing_argument"):
            yield f"key {dotted_key!r} is required"
        else:
            message = problem["msg"].removeprefix("Value error, ")
            message = f"{message[:1].lower()}{message[1:]}"
            # A check of several keys names them in its own message.
            dotted_key = ".".join(_resolve_path(cls, data, problem["loc"])[1])
            value = _truncated_repr(to_dict(problem["input"]))
            yield f"{dotted_key}: {message}; got {value}" if dotted_key else message


def _truncated_repr(value: Any) -> str:
    """Return a value as text of at most 60 characters."""
    try:
        text = repr(value)
    except ValueError:  # raised by Python for an integer with thousands of digits
        return "a number with thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."


def _resolve_path(cls: type[Any], place: Any, path: Iterable[Any]) -> tuple[list[str], list[str]]:
    """Return the field names that are valid at the path of a pydantic error, and its keys and indices.

    Other parts of a path are tags that pydantic adds for the members of a union.
    """
    hints: list[Any] = [cls]
    names: list[str] = []
    for part in path:
        is_key = isinstance(place, Mapping) and part in place
        if not is_key and not (isinstance(place, list | tuple) and isinstance(part, int)):
            continue
        if is_key:
            all_hints = (typing.get_type_hints(c, include_extras=True) for c in _table_classes(hints, place))
            hints = [class_hints[part] for class_hints in all_hints if part in class_hints]
        place = place[part]
        names.append(str(part))
    known = {field.name for c in _table_classes(hints, place) for field in dataclasses.fields(c)}
    return sorted(known), names


def _table_classes(hints: Iterable[Any], table: Any) -> list[type[Any]]:
    """Return the classes in type hints that a table may have, by its kind if there are several."""
    classes: list[type[Any]] = []
    for hint in hints:
        members = list(config_classes(hint))
        kind = table.get("kind", default_kind(hint)) if isinstance(table, Mapping) else None
        classes += [member for member in members if kind_of(member) == kind] or members
    return classes
