"""The options of a configuration class as a reference: one table per class, grouped by the path in the file.

A path may have a table for each kind (`training.optimizer` is an Adam or an SGD configuration), and for each
kind of the table above (`model.encoder` has other options for each kind of model). A class that appears at a
second path refers to the first one: `data.valid` has the options of `data.train`.
"""

import dataclasses
import itertools
import json
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import tomli_w

from regard.config import config_classes, to_dict
from regard.config.classes import default_kind, kind_of
from regard.config.registry import NamedRegistry
from regard.errors import ConfigError


@dataclass(frozen=True)
class Option:
    """One option of a table.

    Attributes:
        name: The key.
        type: The type and range, as `int, from 1 to 256`.
        default: The default as TOML; None if the option is required, and an empty string if it is unset.
        help: The description.
    """

    name: str
    type: str
    default: str | None
    help: str

    @property
    def shown_default(self) -> str:
        """The default, `required` or `unset`."""
        return "required" if self.default is None else self.default or "unset"


@dataclass
class OptionTable:
    """One table of options.

    Attributes:
        path: The dotted path; empty for the top level. A list of tables ends with `[]`.
        kind: The value of its key `kind`; None if it has no such key.
        kind_help: The description of the kind.
        help: The description of the table; empty after the first kind of a path.
        optional: Whether the table is absent by default. A table that is present then changes the run.
        only_for: The kinds of the table above that have this table; empty if all of them do.
        default_for: The kinds of the table above whose default is this kind; an empty string stands for all.
        same_as: The path of an earlier table that has the same options.
        options: The options, in the order of the class.
    """

    path: str
    kind: str | None = None
    kind_help: str = ""
    help: str = ""
    optional: bool = False
    only_for: tuple[str, ...] = ()
    default_for: tuple[str, ...] = ()
    same_as: str | None = None
    options: list[Option] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The path without the mark of lists."""
        return self.path.replace("[]", "")

    @property
    def title(self) -> str:
        """The line that opens the table in a TOML file."""
        return f"[[{self.key}]]" if self.path.endswith("[]") else f"[{self.key}]"

    @property
    def default_mark(self) -> str:
        """A mark for the default kind of a table; empty for other kinds."""
        if not self.default_for:
            return ""
        kinds = ", ".join(self.default_for)
        return f"(default of {kinds})" if kinds else "(default)"

    @property
    def notes(self) -> str:
        """The description, with the notes that apply to the table."""
        notes = [f"[{', '.join(self.only_for)}]" if self.only_for else "", self.help, self.kind_help]
        if self.optional:
            notes.append("Absent by default.")
        if self.same_as is not None:
            notes.append(f"Same options as {self.same_as.replace('[]', '')}.")
        return " ".join(note for note in notes if note)


def reference(cls: type[Any], name: str = "") -> list[OptionTable]:
    """Return the tables of a configuration class; those of one path follow each other.

    Args:
        cls: A class made by `regard.config.configclass`.
        name: The path below which the options are shown.
    """
    tables: dict[tuple[str, type[Any]], OptionTable] = {}
    _add_tables(cls, OptionTable(name), "", tables)
    positions = {path: number for number, path in reversed([*enumerate(path for path, _ in tables)])}
    kinds: dict[str, set[str]] = {}
    for table in tables.values():
        kinds.setdefault(table.path, set()).update((table.kind,) if table.kind else table.only_for)
    for table in tables.values():
        if table.default_for == table.only_for:
            table.default_for = ("",) if table.default_for else ()
        if kinds.get(table.path.rpartition(".")[0], set()) <= set(table.only_for):
            table.only_for = ()
    ordered = sorted(tables.values(), key=lambda table: positions[table.path])
    for table, following in itertools.pairwise(ordered):
        # The description of a path with several kinds is shown once.
        if following.kind is not None and following.path == table.path:
            following.help = ""
    return ordered


def _add_tables(
    cls: type[Any], table: OptionTable, label: str, tables: dict[tuple[str, type[Any]], OptionTable]
) -> None:
    """Fill in a table, and add it and the tables below it to `tables`.

    Args:
        cls: The class of the table.
        table: The table without its options.
        label: The kind of the table or, if it has none, of the nearest table above it that has one.
        tables: The tables before, by their paths and classes. It is updated.
    """
    known = tables.setdefault((table.path, cls), table)
    if known is not table:
        known.only_for += table.only_for
        known.default_for += table.default_for
        return
    table.same_as = next((path for path, other in tables if other is cls and path != table.path), None)
    if table.same_as is not None:
        return
    hints = typing.get_type_hints(cls, include_extras=True)
    for entry in dataclasses.fields(cls):
        hint, members = hints[entry.name], list(config_classes(hints[entry.name]))
        description = getattr(entry.default, "description", None) or ""
        if not members and (entry.name != "kind" or table.kind is None):
            limits = _range(getattr(entry.default, "metadata", ()))
            option = Option(entry.name, _type_name(hint) + limits, _default(entry), description)
            table.options.append(option)
        is_list = typing.get_origin(hint) in (tuple, list)
        path = (f"{table.path}." if table.path else "") + entry.name + ("[]" if is_list else "")
        for member in members:
            kind = kind_of(member)
            inner = OptionTable(path, kind, help=description)
            inner.optional = type(None) in typing.get_args(hint)
            inner.only_for = (label,) if label else ()
            if kind is not None:
                entries = {entry.name: entry for entry in dataclasses.fields(member)}
                inner.kind_help = getattr(entries["kind"].default, "description", None) or ""
                is_default = len(members) == 1 or kind == default_kind(hint)
                inner.default_for = (label,) if is_default else ()
            _add_tables(member, inner, kind or label, tables)


def select_tables(tables: Iterable[OptionTable], path: str) -> list[OptionTable]:
    """Return the tables at or below a path, or the one option at that path.

    Raises:
        ConfigError: if no table or option has this path.
    """
    tables, path = list(tables), path.removesuffix("[]")
    selected = [table for table in tables if table.key == path or table.key.startswith(f"{path}.")]
    if selected:
        options = {(table.path, table.kind): table.options for table in tables}
        # A table that refers to another one is printed in full when it is asked for.
        return [
            dataclasses.replace(table, same_as=None, options=options[table.same_as, table.kind])
            if table.same_as is not None and table.key == path
            else table
            for table in selected
        ]
    parent, _, last = path.rpartition(".")
    for table in tables:
        options = [option for option in table.options if option.name == last]
        if table.key == parent and options:
            selected.append(dataclasses.replace(table, options=options))
    if not selected:
        known = ", ".join(dict.fromkeys(t.path for t in tables if t.path and "." not in t.path))
        raise ConfigError(f"no option or table {path!r}: the tables are {known}")
    return selected


def _default(entry: Any) -> str | None:
    """Return a field's default as TOML; None if it is required, empty if it is None."""
    factory = getattr(entry.default, "default_factory", None)
    value = factory() if factory is not None else getattr(entry.default, "default", entry.default)
    # pydantic has its own marks of a required field: `...` and `PydanticUndefined`.
    if value is dataclasses.MISSING or value is ... or "PydanticUndefined" in repr(value):
        return None
    if value is None:
        return ""
    return tomli_w.dumps({"value": to_dict(value)}).removeprefix("value = ").strip()


def _range(constraints: Iterable[Any]) -> str:
    """Return the range of a number, as `, from 1 to 256`; empty if it has none."""
    templates = {"ge": "from {:,}", "gt": "above {:,}", "le": "to {:,}", "lt": "below {:,}"}
    parts = [
        template.format(value).removesuffix(".0")
        for name, template in templates.items()
        for constraint in constraints
        if (value := getattr(constraint, name, None)) is not None
    ]
    return ", " + " ".join(parts) if parts else ""


def _type_name(hint: Any) -> str:
    """Return a type as the reference shows it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " | ".join(json.dumps(value) for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(_type_name(inner) for inner in arguments if inner is not type(None))
    if origin in (tuple, list):
        return f"list of {_type_name(arguments[0])}"
    if origin is typing.Annotated:
        registries = [entry for entry in arguments[1:] if isinstance(entry, NamedRegistry)]
        names = [json.dumps(name) for entry in registries for name in (*entry.field_names, *entry.names())]
        return " | ".join(names) or _type_name(arguments[0])
    return getattr(hint, "__name__", str(hint))


def render_text(tables: Iterable[OptionTable]) -> list[str]:
    """Return the lines of the reference: for each table its name and one line per option."""
    lines: list[str] = []
    for table in tables:
        if table.path:
            kind = "" if table.kind is None else f"kind = {json.dumps(table.kind)}"
            parts = (table.title, kind, table.default_mark, table.notes)
            lines.append("  ".join(part for part in parts if part))
        lines += [f"  {o.name} = {o.shown_default}  ({o.type})  {o.help}" for o in table.options]
    return lines
