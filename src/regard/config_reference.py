"""The options of a configuration class as a reference: every option once, grouped by table.

A table may have several kinds (`training.optimizer` is an Adam or an SGD configuration). Their options are
merged: an option that several kinds share appears once, with its default for each kind where these differ. A
table that repeats another one (`data.valid` has the options of `data.train`) refers to it.
"""

import dataclasses
import json
import textwrap
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from regard.config import ConfigUnion, config_classes, dump_value, to_dict
from regard.errors import ConfigError
from regard.registry import NamedRegistry

__all__ = ["Option", "OptionTable", "reference", "render_text", "render_toml", "select_tables"]


@dataclass(frozen=True)
class Option:
    """One option of a table.

    Attributes:
        name: The key.
        type: Its type and range, as `int, from 1 to 256`.
        defaults: The default as TOML for each kind of the table that has the option; None if it is required,
            and an empty string if the option is unset by default. A table without kinds has the kind "".
        help: The description for each kind.
    """

    name: str
    type: str
    defaults: dict[str, str | None]
    help: dict[str, str]


@dataclass
class OptionTable:
    """One table of options.

    Attributes:
        path: The dotted path; empty for the top level. A list of tables ends with `[]`.
        kinds: The values of its key `kind` with their descriptions; empty if it has no kinds.
        default_kind: The kind of a table without the key `kind`; empty if the key is required or there are no
            kinds.
        help: The description of the table.
        same_as: The path of an earlier table that has the same options.
        optional: Whether the table is absent by default. A table that is present then changes the run.
        only_for: The kinds of the table above that have this table. Empty if all of them do.
        options: The options, in the order of the classes.
    """

    path: str
    kinds: dict[str, str] = field(default_factory=dict)
    default_kind: str = ""
    help: str = ""
    same_as: str | None = None
    optional: bool = False
    only_for: tuple[str, ...] = ()
    options: list[Option] = field(default_factory=list)

    def matching(self, text: str) -> "OptionTable":
        """Return this table with only the options whose path or description contains a text, in any case."""
        text = text.lower()
        found = [
            option
            for option in self.options
            if text in f"{self.path}.{option.name} {' '.join(option.help.values())}".lower()
        ]
        return dataclasses.replace(self, options=found)


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

    found = [table for table in tables if below(table)]
    # A table that refers to another one is printed in full when it is asked for.
    first = next((table for table in found if table.path.replace("[]", "") == path), None)
    if first is not None and first.same_as is not None:
        origin = next(table for table in tables if table.path == first.same_as)
        found = [dataclasses.replace(origin, path=first.path, help=first.help)]
    if found:
        return found
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
    for name, found in uses.items():
        scalars = [use for use in found if not list(config_classes(use.hint))]
        if scalars:
            table.options.append(_option(name, scalars))
        tables = [use for use in found if list(config_classes(use.hint))]
        if tables:
            labels = tuple(dict.fromkeys(use.label for use in found))
            having = tuple(dict.fromkeys(use.label for use in tables))
            listed = any(typing.get_origin(use.hint) in (tuple, list) for use in tables)
            inner = f"{path}.{name}" if path else name
            below.append(
                (
                    list(dict.fromkeys(_labeled(tables))),
                    OptionTable(
                        f"{inner}[]" if listed else inner,
                        default_kind=_default_kind(tables[0].hint),
                        help=_description(tables[0].entry),
                        optional=any(type(None) in typing.get_args(use.hint) for use in tables),
                        only_for=having if len(having) < len(members) or len(labels) > len(having) else (),
                    ),
                )
            )
    yield table
    for inner_members, inner_table in below:
        yield from _tables(inner_members, inner_table, seen)


def _labeled(uses: "list[_Use]") -> Iterator[tuple[str, type[Any]]]:
    """Yield the classes of a table with their labels.

    The label is the kind of the class. If the table has other classes for other kinds of the table above, the
    label begins with the kind of the table above.
    """
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
        found = [one.default for one in hint.__metadata__ if isinstance(one, ConfigUnion)]
        if found:
            return found[0]
    return next((kind for inner in typing.get_args(hint) if (kind := _default_kind(inner))), "")


def _option(name: str, uses: list[_Use]) -> Option:
    types = dict.fromkeys(
        _type_name(use.hint) + _range(getattr(use.entry.default, "metadata", ())) for use in uses
    )
    return Option(
        name,
        " or ".join(types),
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
    if value is dataclasses.MISSING or value is ... or "PydanticUndefined" in repr(value):
        return None
    return "" if value is None else dump_value(to_dict(value))


def _range(constraints: Iterable[Any]) -> str:
    """Return the range of a number, as `, from 1 to 256`; empty if it has none."""
    templates = {"ge": "from {:,}", "gt": "above {:,}", "le": "to {:,}", "lt": "below {:,}"}
    found = [
        template.format(value)
        for name, template in templates.items()
        for one in constraints
        if (value := getattr(one, name, None)) is not None
    ]
    return ", " + " ".join(found) if found else ""


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
        names = [name for one in metadata if isinstance(one, NamedRegistry) for name in one.names()]
        return " | ".join(json.dumps(name) for name in names) or _type_name(inner)
    return getattr(hint, "__name__", str(hint))


def _shown_default(option: Option) -> str:
    """Return the default as text, for each kind if they differ."""
    texts = {kind: "required" if d is None else d or "unset" for kind, d in option.defaults.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{text} ({kind})" for kind, text in texts.items())


def _note(option: Option, table: OptionTable) -> str:
    """Return the labels of the classes that have an option, if not all classes of the table do."""
    labels = {label for other in table.options for label in other.defaults}
    return f"[{', '.join(option.defaults)}] " if len(option.defaults) < len(labels) else ""


def _helps(option: Option) -> str:
    """Return the description of an option; kinds that have the same one are listed together before it."""
    kinds: dict[str, list[str]] = {}
    for kind, text in option.help.items():
        kinds.setdefault(text, []).append(kind)
    if len(kinds) == 1:
        return next(iter(kinds))
    return " ".join(f"{', '.join(sharing)}: {text}" for text, sharing in kinds.items())


def _heading(table: OptionTable) -> list[str]:
    name = table.path.replace("[]", "")
    lines = [f"[[{name}]]" if table.path.endswith("[]") else f"[{name}]"] if name else []
    same = f"Same options as {table.same_as.replace('[]', '')}." if table.same_as is not None else ""
    absent = "Absent by default." if table.optional else ""
    having = f"[{', '.join(table.only_for)}]" if table.only_for else ""
    parts = (having, table.help, absent, same)
    text = " ".join(part for part in parts if part)
    return [*lines, *([text] if text else [])]


def render_text(tables: Iterable[OptionTable], width: int | None = None) -> list[str]:
    """Return the lines of the reference: for each table its name and one line per option.

    Args:
        tables: As `reference` or `select_tables` return them.
        width: Columns to wrap descriptions at. Default: no wrapping, one line per option.
    """
    lines: list[str] = []
    for table in tables:
        if not table.options and table.same_as is None and len(table.kinds) < 2:
            continue
        head = _heading(table)
        title = head[0] if table.path else ""
        lines.append(title + ("  " + " ".join(head[1:]) if table.path and head[1:] else ""))
        for kind, help in table.kinds.items() if table.same_as is None and len(table.kinds) > 1 else ():
            default = "  (default)" if kind == table.default_kind else ""
            text = f"  kind = {json.dumps(kind)}{default}  {help}"
            lines += [text] if width is None else textwrap.wrap(text, width, subsequent_indent=" " * 6)
        for option in table.options:
            text = f"  {option.name} = {_shown_default(option)}  ({option.type})  "
            text += _note(option, table) + _helps(option)
            lines += [text] if width is None else textwrap.wrap(text, width, subsequent_indent=" " * 6)
    return lines[1:] if lines and not lines[0] else lines


def render_toml(tables: Iterable[OptionTable]) -> str:
    """Return a commented TOML template: every option with its description, and its default commented out.

    The options of other kinds than the first are marked with their kind.
    """
    lines: list[str] = []
    for table in tables:
        if table.same_as is not None or (not table.options and not table.kinds):
            continue
        path = table.path
        if path:
            lines += ["", *(textwrap.wrap(table.help, 100, initial_indent="# ", subsequent_indent="# "))]
            name = path.replace("[]", "")
            # These tables stay comments: their presence alone would change the run.
            commented = "[]" in path or table.optional or bool(table.only_for) or len(table.kinds) > 1
            lines.append(
                ("# " if commented else "") + (f"[[{name}]]" if path.endswith("[]") else f"[{name}]")
            )
        if len(table.kinds) > 1:
            for kind, help in table.kinds.items():
                lines += textwrap.wrap(help, 100, initial_indent="# ", subsequent_indent="# ")
                lines.append(
                    f"# kind = {json.dumps(kind)}" + ("  # default" if kind == table.default_kind else "")
                )
        for option in table.options:
            note = _note(option, table) + _helps(option)
            lines += textwrap.wrap(note, 100, initial_indent="# ", subsequent_indent="# ")
            for kind, default in option.defaults.items():
                mark = f"  # {kind}" if len(set(option.defaults.values())) > 1 else ""
                value = "..." if default is None else default or "..."
                lines.append(f"# {option.name} = {value}{mark}")
                if not mark:
                    break
    return "\n".join(lines).strip() + "\n"
