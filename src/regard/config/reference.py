"""The options of a configuration class as a reference: every option once, grouped by table.

A table may have several kinds (`training.optimizer` is an Adam or an SGD configuration). Their options are
merged: an option that several kinds share appears once, with its default for each kind where these differ. A
table that repeats another one (`data.valid` has the options of `data.train`) refers to it.

The label of a class is its kind. If a table has other classes for other kinds of the table above, the label
is the kind of the table above, followed by a slash and the kind of the class if it has one.

`regard.config.rendering` prints the tables.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tomli_w

from regard.config import ConfigUnion, config_classes, from_dict, to_dict
from regard.config.registry import NamedRegistry
from regard.errors import ConfigError

__all__ = ["Option", "OptionTable", "reference", "select_tables"]


@dataclass(frozen=True)
class Option:
    """One option of a table.

    Attributes:
        name: The key.
        types: The type and range for each label, as `int, from 1 to 256`. A table without kinds has the
            label "".
        defaults: The default as TOML for each label; None if the option is required, and an empty string if
            it is unset by default.
        help: The description for each label.
    """

    name: str
    types: dict[str, str]
    defaults: dict[str, str | None]
    help: dict[str, str]


@dataclass
class OptionTable:
    """One table of options.

    Attributes:
        path: The dotted path; empty for the top level. A list of tables ends with `[]`.
        kinds: The values of its key `kind` with their descriptions; empty if it has no kinds.
        kinds_only_for: The labels of the table above that allow a kind, for kinds that not all labels allow.
        default_kinds: The kind of a table without the key `kind`, for each label of the table above.
        help: The description of the table for each label of the table above.
        same_as: The path of an earlier table that has the same options.
        optional: Whether the table is absent by default. A table that is present then changes the run.
        may_be_empty: Whether no key of the table is required.
        only_for: The labels of the table above that have this table. Empty if all of them do.
        labels: The labels of the classes of the table.
        options: The options, in the order of the classes.
    """

    path: str
    kinds: dict[str, str] = field(default_factory=dict)
    kinds_only_for: dict[str, tuple[str, ...]] = field(default_factory=dict)
    default_kinds: dict[str, str] = field(default_factory=dict)
    help: dict[str, str] = field(default_factory=dict)
    same_as: str | None = None
    optional: bool = False
    may_be_empty: bool = False
    only_for: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    options: list[Option] = field(default_factory=list)

    def matching(self, text: str) -> "OptionTable":
        """Return this table with only the options whose path or description contains a text, in any case."""
        text = text.lower()
        options = [
            option
            for option in self.options
            if text in f"{self.path}.{option.name} {' '.join(option.help.values())}".lower()
        ]
        return dataclasses.replace(self, options=options)


def reference(cls: type[Any], name: str = "") -> list[OptionTable]:
    """Return the tables of a configuration class, depth first.

    Args:
        cls: A class made by `regard.config.configclass`.
        name: The path below which the options are shown.
    """
    return list(_tables([("", cls)], OptionTable(name), {}))


def select_tables(tables: Iterable[OptionTable], path: str) -> list[OptionTable]:
    """Return the tables at or below a path, or the one option at that path.

    Raises:
        ConfigError: if no table or option has this path.
    """
    tables = list(tables)
    path = path.removesuffix("[]")

    def below(table: OptionTable) -> bool:
        plain = table.path.replace("[]", "")
        return plain == path or plain.startswith(f"{path}.")

    selected = [table for table in tables if below(table)]
    # A table that refers to another one is printed in full when it is asked for.
    first = next((table for table in selected if table.path.replace("[]", "") == path), None)
    if first is not None and first.same_as is not None:
        origin = next(table for table in tables if table.path == first.same_as)
        selected = [
            dataclasses.replace(first, same_as=None, labels=origin.labels, options=list(origin.options))
        ]
    if selected:
        return selected
    parent, _, last = path.rpartition(".")
    for table in tables:
        options = [option for option in table.options if option.name == last]
        if table.path.replace("[]", "") == parent and options:
            return [dataclasses.replace(table, options=options)]
    known = ", ".join(table.path for table in tables if table.path and "." not in table.path)
    raise ConfigError(
        f"no option or table {path!r}: the tables are {known}; `regard config --find WORD` searches"
    )


def _tables(
    members: list[tuple[str, type[Any]]], table: OptionTable, seen: dict[tuple[type[Any], ...], str]
) -> Iterator[OptionTable]:
    """Yield a table with its options filled in, and the tables below it.

    Args:
        members: The classes that the table may have, each with the label of the options that it contributes.
        table: The table without its options.
        seen: The paths of the tables before, by their classes. It is updated.
    """
    key, path = tuple(cls for _, cls in members), table.path
    table.labels = tuple(dict.fromkeys(label for label, _ in members))
    for _, cls in members:
        if (kind := _kind(cls)) is not None:
            table.kinds.setdefault(kind, _description(_field(cls, "kind")))
    if key in seen:
        table.same_as = seen[key]
        yield table
        return
    seen[key] = path
    uses: dict[str, list[_Use]] = {}
    for label, cls in members:
        hints = typing.get_type_hints(cls, include_extras=True)
        for entry in dataclasses.fields(cls):
            if entry.name != "kind" or _kind(cls) is None:
                uses.setdefault(entry.name, []).append(_Use(label, entry, hints[entry.name]))
    below: list[tuple[list[tuple[str, type[Any]]], OptionTable]] = []
    for name, field_uses in uses.items():
        scalars = [use for use in field_uses if not list(config_classes(use.hint))]
        if scalars:
            table.options.append(_option(name, scalars))
        tables = [use for use in field_uses if list(config_classes(use.hint))]
        if tables:
            inner = _inner_table(f"{path}.{name}" if path else name, tables)
            having = tuple(dict.fromkeys(use.label for use in tables))
            # Another class may have an option of the same name instead of the table.
            if len(having) < len(table.labels):
                inner.only_for = having
            below.append((list(dict.fromkeys(_labeled(tables))), inner))
    # Labels are shortened only now, because the decision depends on all options of the table.
    _shorten_labels(table)
    yield table
    for inner_members, inner_table in below:
        yield from _tables(inner_members, inner_table, seen)


def _inner_table(path: str, uses: "list[_Use]") -> OptionTable:
    """Return the table of a field, without its options.

    Args:
        path: The path of the table.
        uses: The field in each class that has it, with the label of the class.
    """
    labels = list(dict.fromkeys(use.label for use in uses))
    allowed: dict[str, list[str]] = {}
    defaults: dict[str, str] = {}
    for use in uses:
        kinds = [kind for cls in config_classes(use.hint) if (kind := _kind(cls)) is not None]
        for kind in kinds:
            allowed.setdefault(kind, []).append(use.label)
        # A class that is the only one has no union that gives its kind.
        default = kinds[0] if len(kinds) == 1 else _default_kind(use.hint)
        if default:
            defaults[use.label] = default
    is_list = any(typing.get_origin(use.hint) in (tuple, list) for use in uses)
    return OptionTable(
        f"{path}[]" if is_list else path,
        kinds_only_for={
            kind: tuple(kind_labels) for kind, kind_labels in allowed.items() if kind_labels != labels
        },
        default_kinds=defaults,
        help={use.label: _description(use.entry) for use in uses},
        optional=any(type(None) in typing.get_args(use.hint) for use in uses),
        may_be_empty=_may_be_empty(uses[0].hint, defaults.get(uses[0].label)),
    )


def _may_be_empty(hint: Any, default_kind: str | None) -> bool:
    """Return whether a table of a type hint may be empty.

    Args:
        hint: The type hint.
        default_kind: The kind of a table without the key `kind`; None if its classes have no kinds.
    """
    for cls in config_classes(hint):
        if _kind(cls) == default_kind:
            try:
                # The validation itself decides, because a class may also check its options in
                # `__post_init__`.
                from_dict(cls, {})
            except ConfigError:
                return False
            return True
    return False


def _shorten_labels(table: OptionTable) -> None:
    """Remove the kinds of the table above from the labels, if the kinds of the table itself are enough."""
    short = {label: label.rpartition("/")[2] for label in table.labels}
    if not all("/" in label for label in table.labels):
        return
    for option in table.options:
        # Classes of one kind must have the option with the same type, default and description, or lack it.
        facts = {
            (short[label], option.types.get(label), option.defaults.get(label), option.help.get(label))
            for label in table.labels
        }
        if len(facts) > len(set(short.values())):
            return
    table.labels = tuple(dict.fromkeys(short.values()))
    table.options = [
        Option(
            option.name,
            {short[label]: text for label, text in option.types.items()},
            {short[label]: text for label, text in option.defaults.items()},
            {short[label]: text for label, text in option.help.items()},
        )
        for option in table.options
    ]


def _labeled(uses: "list[_Use]") -> Iterator[tuple[str, type[Any]]]:
    """Yield the classes of a table with their labels; see the description of this module."""
    differ = len({tuple(config_classes(use.hint)) for use in uses}) > 1
    for use in uses:
        for cls in config_classes(use.hint):
            parts = (use.label if differ else "", _kind(cls) or "")
            yield "/".join(part for part in parts if part), cls


@dataclass(frozen=True)
class _Use:
    """A field of one class of a table."""

    label: str
    entry: Any
    hint: Any


def _field(cls: type[Any], name: str) -> Any:
    return next(entry for entry in dataclasses.fields(cls) if entry.name == name)


def _default_kind(hint: Any) -> str:
    """Return the default kind of a union of classes; empty if the hint is not such a union."""
    if typing.get_origin(hint) is typing.Annotated:
        defaults = [union.default for union in hint.__metadata__ if isinstance(union, ConfigUnion)]
        if defaults:
            return defaults[0]
    return next((kind for inner in typing.get_args(hint) if (kind := _default_kind(inner))), "")


def _option(name: str, uses: list[_Use]) -> Option:
    return Option(
        name,
        {
            use.label: _type_name(use.hint) + _range(getattr(use.entry.default, "metadata", ()))
            for use in uses
        },
        {use.label: _default(use.entry) for use in uses},
        {use.label: _description(use.entry) for use in uses},
    )


def _kind(cls: type[Any]) -> str | None:
    """Return the one value that the field `kind` of a class may have; None if there is no such field."""
    values = typing.get_args(typing.get_type_hints(cls).get("kind"))
    return values[0] if len(values) == 1 else None


def _description(entry: Any) -> str:
    return getattr(entry.default, "description", None) or ""


def _default(entry: Any) -> str | None:
    """Return a field's default as TOML; None if it is required, empty if it is None."""
    factory = getattr(entry.default, "default_factory", None)
    value = factory() if factory is not None else getattr(entry.default, "default", entry.default)
    # pydantic has its own marks of a required field: `...` and `PydanticUndefined`.
    if value is dataclasses.MISSING or value is ... or "PydanticUndefined" in repr(value):
        return None
    return "" if value is None else _dump_value(to_dict(value))


def _range(constraints: Iterable[Any]) -> str:
    """Return the range of a number, as `, from 1 to 256`; empty if it has none."""
    templates = {"ge": "from {:,}", "gt": "above {:,}", "le": "to {:,}", "lt": "below {:,}"}
    parts = [
        template.format(value)
        for name, template in templates.items()
        for constraint in constraints
        if (value := getattr(constraint, name, None)) is not None
    ]
    return ", " + " ".join(parts) if parts else ""


def _type_name(hint: Any) -> str:
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return " | ".join(json.dumps(value) for value in typing.get_args(hint))
    if origin in (typing.Union, types.UnionType):
        return " | ".join(_type_name(h) for h in typing.get_args(hint) if h is not type(None))
    if origin in (tuple, list):
        return f"list of {_type_name(typing.get_args(hint)[0])}"
    if origin is typing.Annotated:
        inner, *metadata = typing.get_args(hint)
        names = [
            name for registry in metadata if isinstance(registry, NamedRegistry) for name in registry.names()
        ]
        return " | ".join(json.dumps(name) for name in names) or _type_name(inner)
    return getattr(hint, "__name__", str(hint))


def _dump_value(value: Any) -> str:
    """Return a plain value as TOML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_dump_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_dump_value(item) for item in value) + "]"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").removesuffix("\n")
