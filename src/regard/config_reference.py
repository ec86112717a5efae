"""The options of a configuration class as a reference: every option once, grouped by table.

A table may have several kinds (`training.optimizer` is an Adam or an SGD configuration). Their options are merged:
an option that several kinds share appears once, with its default for each kind where these differ. A table that
repeats another one (`data.valid` has the options of `data.train`) refers to it.
"""

import dataclasses
import json
import textwrap
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from regard.config import config_classes, dump_value, to_dict
from regard.errors import ConfigError

__all__ = ["Option", "Table", "reference", "render_text", "render_toml", "select"]


@dataclass(frozen=True)
class Option:
    """One option of a table.

    Attributes:
        name: The key.
        type: Its type and range, as `int, from 1 to 256`.
        defaults: The default as TOML for each kind of the table that has the option; None if it is required, and
            an empty string if the option is unset by default. A table without kinds has the kind "".
        help: The description for each kind.
    """

    name: str
    type: str
    defaults: dict[str, str | None]
    help: dict[str, str]


@dataclass
class Table:
    """One table of options.

    Attributes:
        path: The dotted path; empty for the top level. A list of tables ends with `[]`.
        kinds: The values of its key `kind`; empty if it has none.
        help: The description of the table.
        same_as: The path of an earlier table that has the same options.
        optional: Whether the table is absent by default. A table that is present then changes the run.
        only_for: The kinds of the table above that have this table. Empty if all of them do.
        options: The options, in the order of the classes.
    """

    path: str
    kinds: tuple[str, ...] = ()
    help: str = ""
    same_as: str | None = None
    optional: bool = False
    only_for: tuple[str, ...] = ()
    options: list[Option] = field(default_factory=list)

    def matching(self, text: str) -> "Table":
        """Return this table with only the options whose path or description contains a text, in any case."""
        text = text.lower()
        found = [
            option
            for option in self.options
            if text in f"{self.path}.{option.name} {' '.join(option.help.values())}".lower()
        ]
        return dataclasses.replace(self, options=found)


def reference(cls: type[Any], name: str = "") -> list[Table]:
    """Return the tables of a configuration class, depth first.

    Args:
        cls: A class made by `regard.config.configclass`.
        name: The path below which the options are shown.
    """
    return list(_tables([cls], Table(name), {}))


def select(tables: Iterable[Table], path: str) -> list[Table]:
    """Return the tables at or below a path, or the one option at that path.

    Raises:
        ConfigError: if no table or option has this path.
    """
    tables = list(tables)
    path = path.removesuffix("[]")

    def below(table: Table) -> bool:
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
    raise ConfigError(f"no option or table {path!r}: the tables are {known}; `regard config --find WORD` searches")


def _tables(
    classes: list[type[Any]], table: Table, seen: dict[tuple[type[Any], ...], str]
) -> Iterator[Table]:
    """Yield the table of some classes (its kinds), with its options filled in, and the tables below it."""
    kinds = tuple(_kind(cls) for cls in classes if "kind" in typing.get_type_hints(cls))
    key, path = tuple(classes), table.path
    table.kinds = tuple(dict.fromkeys(kinds))
    if key in seen:
        table.same_as = seen[key]
        yield table
        return
    seen[key] = path
    merged: dict[str, list[tuple[str, Any, Any]]] = {}
    for cls in classes:
        hints = typing.get_type_hints(cls)
        kind = _kind(cls) if "kind" in hints else ""
        for entry in dataclasses.fields(cls):
            if not (entry.name == "kind" and len(kinds) > 0):
                merged.setdefault(entry.name, []).append((kind, entry, hints[entry.name]))
    below: list[tuple[list[type[Any]], Table]] = []
    for name, uses in merged.items():
        scalar = [use for use in uses if not list(config_classes(use[2]))]
        if scalar:
            table.options.append(_option(name, scalar))
        members = list(dict.fromkeys(cls for use in uses for cls in config_classes(use[2])))
        if members:
            listed = any(typing.get_origin(use[2]) in (tuple, list) for use in uses)
            inner = f"{path}.{name}" if path else name
            optional = any(type(None) in typing.get_args(use[2]) for use in uses)
            path_below = f"{inner}[]" if listed else inner
            having = tuple(use[0] for use in uses if list(config_classes(use[2])))
            only_for = having if len(having) < len(classes) else ()
            help = _description(uses[0][1])
            below.append((members, Table(path_below, help=help, optional=optional, only_for=only_for)))
    yield table
    for members, inner_table in below:
        yield from _tables(members, inner_table, seen)


def _option(name: str, uses: list[tuple[str, Any, Any]]) -> Option:
    kind, entry, hint = uses[0]
    shown = dict.fromkeys(
        _type_name(hint) + _range(getattr(entry.default, "metadata", ())) for _, entry, hint in uses
    )
    return Option(
        name,
        " or ".join(shown),
        {kind: _default(entry) for kind, entry, _ in uses},
        {kind: _description(entry) for kind, entry, _ in uses},
    )


def _kind(cls: type[Any]) -> str:
    return typing.get_args(typing.get_type_hints(cls)["kind"])[0]


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
    words = {"ge": "from {:,}", "gt": "above {:,}", "le": "to {:,}", "lt": "below {:,}"}
    found = [
        text.format(value)
        for name, text in words.items()
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
        return _type_name(typing.get_args(hint)[0])
    return getattr(hint, "__name__", str(hint))


def _shown_default(option: Option, kinds: tuple[str, ...]) -> str:
    """Return the default as text, for each kind if they differ."""
    texts = {kind: "required" if d is None else d or "unset" for kind, d in option.defaults.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{text} ({kind})" for kind, text in texts.items())


def _note(option: Option, kinds: tuple[str, ...]) -> str:
    """Return the kinds that have an option, if not all of them do."""
    return f"[{', '.join(option.defaults)}] " if kinds and len(option.defaults) < len(kinds) else ""


def _helps(option: Option) -> str:
    texts = dict.fromkeys(option.help.values())
    if len(texts) == 1:
        return next(iter(texts))
    return " ".join(f"{kind}: {text}" for kind, text in option.help.items())


def _heading(table: Table) -> list[str]:
    name = table.path.replace("[]", "")
    lines = [f"[[{name}]]" if table.path.endswith("[]") else f"[{name}]"] if name else []
    kinds = f"kind = {' | '.join(json.dumps(kind) for kind in table.kinds)}" if len(table.kinds) > 1 else ""
    same = f"Same options as {table.same_as.replace('[]', '')}." if table.same_as is not None else ""
    absent = "Absent by default." if table.optional else ""
    having = f"[{', '.join(table.only_for)}]" if table.only_for else ""
    parts = (having, table.help, absent, same, f"{kinds}." if kinds else "")
    words = " ".join(part for part in parts if part)
    return [*lines, *([words] if words else [])]


def render_text(tables: Iterable[Table], width: int | None = None) -> list[str]:
    """Return the lines of the reference: for each table its name and one line per option.

    Args:
        tables: As `reference` or `select` return them.
        width: Columns to wrap descriptions at. Default: no wrapping, one line per option.
    """
    lines: list[str] = []
    for table in tables:
        if not table.options and table.same_as is None:
            continue
        head = _heading(table)
        title = head[0] if table.path else ""
        lines.append(title + ("  " + " ".join(head[1:]) if table.path and head[1:] else ""))
        for option in table.options:
            text = f"  {option.name} = {_shown_default(option, table.kinds)}  ({option.type})  "
            text += _note(option, table.kinds) + _helps(option)
            lines += [text] if width is None else textwrap.wrap(text, width, subsequent_indent=" " * 6)
    return lines[1:] if lines and not lines[0] else lines


def render_toml(tables: Iterable[Table]) -> str:
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
            lines.append(("# " if commented else "") + (f"[[{name}]]" if path.endswith("[]") else f"[{name}]"))
        if table.kinds:
            lines.append(f"# kind = {' or '.join(json.dumps(kind) for kind in table.kinds)}")
        for option in table.options:
            note = _note(option, table.kinds) + _helps(option)
            lines += textwrap.wrap(note, 100, initial_indent="# ", subsequent_indent="# ")
            for kind, default in option.defaults.items():
                mark = f"  # {kind}" if len(set(option.defaults.values())) > 1 else ""
                value = "..." if default is None else default or "..."
                lines.append(f"# {option.name} = {value}{mark}")
                if not mark:
                    break
    return "\n".join(lines).strip() + "\n"
