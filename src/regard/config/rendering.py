"""The reference of options (`regard.config.reference`) as text, as Markdown and as a TOML template."""

import json
import textwrap
from collections.abc import Iterable

from regard.config.reference import Option, OptionTable

__all__ = ["render_markdown", "render_text", "render_toml"]


def _groups(texts: dict[str, str]) -> dict[str, str]:
    """Return the labels that share a text, separated by commas, for each text."""
    groups: dict[str, list[str]] = {}
    for label, text in texts.items():
        groups.setdefault(text, []).append(label)
    return {text: ", ".join(sharing) for text, sharing in groups.items()}


def _listed(texts: dict[str, str], separator: str) -> str:
    """Return a text, or the different texts, each with its labels after it."""
    groups = _groups(texts)
    if len(groups) == 1:
        return next(iter(groups))
    return separator.join(f"{text} ({labels})" for text, labels in groups.items())


def _merged(texts: dict[str, str]) -> str:
    """Return a description, or the different descriptions, each with its labels before it."""
    groups = _groups(texts)
    if len(groups) < 2:
        return "".join(groups)
    return " ".join(f"{labels}: {text}" for text, labels in groups.items())


def _shown_defaults(option: Option) -> dict[str, str]:
    """Return the default for each label as text."""
    return {
        label: "required" if value is None else value or "unset" for label, value in option.defaults.items()
    }


def _tag(labels: Iterable[str]) -> str:
    """Return labels in brackets, followed by a space; empty if there are none."""
    text = ", ".join(labels)
    return f"[{text}] " if text else ""


def _described(option: Option, table: OptionTable) -> str:
    """Return the description of an option, after the labels that have it unless all of the table do."""
    return _tag(option.defaults if len(option.defaults) < len(table.labels) else ()) + _merged(option.help)


def _heading(table: OptionTable) -> str:
    """Return the description of a table, with the notes that apply to it."""
    notes = [_tag(table.only_for).strip(), _merged(table.help)]
    notes += [_label_note(label, table) for label in (*table.only_for, *table.labels) if "/" in label]
    if table.optional:
        enabled = "; an empty table enables it with its defaults" if table.may_be_empty else ""
        notes.append(f"Absent by default{enabled}.")
    if table.same_as is not None:
        notes.append(f"Same options as {table.same_as.replace('[]', '')}.")
    return " ".join(note for note in notes if note)


def _label_note(label: str, table: OptionTable) -> str:
    """Return the meaning of a label with several kinds, of a table or of the table above it."""
    kinds = label.split("/")
    parts = table.path.replace("[]", "").split(".")[: -1 if label in table.only_for else None]
    # The last kind of the label is that of the table itself, the kinds before are those of the tables above.
    paths = [".".join(parts[: len(parts) - i]) for i in reversed(range(len(kinds)))]
    named = (f"{path}.kind = {json.dumps(kind)}" for path, kind in zip(paths, kinds, strict=True))
    return f"{label}: {' and '.join(named)}."


def _default_mark(kind: str, table: OptionTable) -> str:
    """Return a mark for the default kind of a table; empty for other kinds."""
    labels = [label for label, default in table.default_kinds.items() if default == kind]
    if not labels:
        return ""
    return "(default)" if len(labels) == len(table.default_kinds) else f"(default of {', '.join(labels)})"


def render_text(tables: Iterable[OptionTable], width: int | None = None) -> list[str]:
    """Return the lines of the reference: for each table its name and one line per option.

    Args:
        tables: As `reference` or `select_tables` return them.
        width: Columns to wrap descriptions at. Default: no wrapping, one line per option.
    """
    lines: list[str] = []

    def add(text: str) -> None:
        lines.extend([text] if width is None else textwrap.wrap(text, width, subsequent_indent=" " * 6))

    for table in tables:
        if not table.options and table.same_as is None and len(table.kinds) < 2:
            continue
        if table.path:
            name = table.path.replace("[]", "")
            title = f"[[{name}]]" if table.path.endswith("[]") else f"[{name}]"
            add(f"{title}  {_heading(table)}".rstrip())
        for kind, help in table.kinds.items() if table.same_as is None and len(table.kinds) > 1 else ():
            mark = _default_mark(kind, table)
            text = _tag(table.kinds_only_for.get(kind, ())) + help
            add(f"  kind = {json.dumps(kind)}  {f'{mark}  ' if mark else ''}{text}")
        for option in table.options:
            default = _listed(_shown_defaults(option), ", ")
            kind_of_value = _listed(option.types, "; ")
            add(f"  {option.name} = {default}  ({kind_of_value})  {_described(option, table)}")
    return lines


def render_markdown(tables: Iterable[OptionTable]) -> str:
    """Return the reference as Markdown: a section for each table, with its kinds and options as tables."""
    parts: list[str] = []

    def cell(text: str) -> str:
        return text.replace("|", "\\|").replace("<", "&lt;")

    for table in tables:
        if not table.options and table.same_as is None and len(table.kinds) < 2:
            continue
        if table.path:
            name = table.path.replace("[]", "")
            title = f"[[{name}]]" if table.path.endswith("[]") else f"[{name}]"
            parts += [f"## `{title}` {{ #{name} }}", cell(_heading(table))]
        if table.same_as is None and len(table.kinds) > 1:
            rows = ["| `kind` | |", "|---|---|"]
            for kind, help in table.kinds.items():
                notes = " ".join(filter(None, [_tag(table.kinds_only_for.get(kind, ())).strip(), help]))
                rows.append(f"| `{kind}` {_default_mark(kind, table)} | {cell(notes)} |")
            parts.append("\n".join(rows))
        if table.options:
            rows = ["| option | default | type and range | |", "|---|---|---|---|"]
            for option in table.options:
                default = cell(_listed(_shown_defaults(option), ", "))
                kind_of_value = cell(_listed(option.types, "; "))
                described = cell(_described(option, table))
                rows.append(f"| `{option.name}` | {default} | {kind_of_value} | {described} |")
            parts.append("\n".join(rows))
    return "\n\n".join(part for part in parts if part) + "\n"


def render_toml(tables: Iterable[OptionTable]) -> str:
    """Return a commented TOML template: every option with its description, and its default commented out.

    The options of other kinds than the first are marked with their kind.
    """
    lines: list[str] = []

    def comment(text: str) -> None:
        lines.extend(textwrap.wrap(text, 100, initial_indent="# ", subsequent_indent="# "))

    for table in tables:
        if table.same_as is not None or (not table.options and not table.kinds):
            continue
        path = table.path
        if path:
            lines.append("")
            comment(_heading(table))
            name = path.replace("[]", "")
            # These tables stay comments: their presence alone would change the run.
            commented = "[]" in path or table.optional or bool(table.only_for) or len(table.kinds) > 1
            lines.append(
                ("# " if commented else "") + (f"[[{name}]]" if path.endswith("[]") else f"[{name}]")
            )
        if len(table.kinds) > 1:
            for kind, help in table.kinds.items():
                comment(_tag(table.kinds_only_for.get(kind, ())) + help)
                mark = _default_mark(kind, table).strip("()")
                lines.append(f"# kind = {json.dumps(kind)}" + (f"  # {mark}" if mark else ""))
        for option in table.options:
            comment(_described(option, table))
            # A required or unset option has no value to show. Its line is a comment, so `...` need not be
            # TOML.
            values = {
                label: "..." if value is None else value or "..." for label, value in option.defaults.items()
            }
            groups = _groups(values)
            for value, labels in groups.items():
                lines.append(f"# {option.name} = {value}" + (f"  # {labels}" if len(groups) > 1 else ""))
    return "\n".join(lines).strip() + "\n"
