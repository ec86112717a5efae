"""The reference of options (`regard.config.reference`) as text, as Markdown and as a TOML template."""

import json
import textwrap
from collections.abc import Iterable

from regard.config.reference import Option, OptionTable

__all__ = ["render_markdown", "render_text", "render_toml"]


def _title(table: OptionTable) -> str:
    """Return the line that opens a table in a TOML file."""
    return f"[[{table.key}]]" if table.path.endswith("[]") else f"[{table.key}]"


def _default_mark(table: OptionTable) -> str:
    """Return a mark for the default kind of a table; empty for other kinds."""
    if not table.default_for:
        return ""
    kinds = ", ".join(table.default_for)
    return f"(default of {kinds})" if kinds else "(default)"


def _notes(table: OptionTable) -> str:
    """Return the description of a table, with the notes that apply to it."""
    notes = [f"[{', '.join(table.only_for)}]" if table.only_for else "", table.help, table.kind_help]
    if table.optional:
        notes.append("Absent by default.")
    if table.same_as is not None:
        notes.append(f"Same options as {table.same_as.replace('[]', '')}.")
    return " ".join(note for note in notes if note)


def _shown_default(option: Option) -> str:
    return "required" if option.default is None else option.default or "unset"


def render_text(tables: Iterable[OptionTable], width: int | None = None) -> list[str]:
    """Return the lines of the reference: for each table its name and one line per option.

    Args:
        tables: As `reference` or `select_tables` return them.
        width: Columns to wrap descriptions at. Default: no wrapping, one line per option.
    """
    lines: list[str] = []
    for table in tables:
        if table.path:
            kind = "" if table.kind is None else f"kind = {json.dumps(table.kind)}"
            parts = (_title(table), kind, _default_mark(table), _notes(table))
            lines.append("  ".join(part for part in parts if part))
        lines += [f"  {o.name} = {_shown_default(o)}  ({o.type})  {o.help}" for o in table.options]
    if width is None:
        return lines
    return [part for line in lines for part in textwrap.wrap(line, width, subsequent_indent=" " * 6)]


def render_markdown(tables: Iterable[OptionTable]) -> str:
    """Return the reference as Markdown: a section for each table, with its options as a table."""
    parts: list[str] = []
    path = ""

    def cell(text: str) -> str:
        return text.replace("|", "\\|").replace("<", "&lt;")

    for table in tables:
        if table.path != path:
            parts.append(f"## `{_title(table)}` {{ #{table.key} }}")
            path = table.path
        if table.kind is not None:
            parts.append(f"### `kind = {json.dumps(table.kind)}` {_default_mark(table)}".rstrip())
        parts.append(cell(_notes(table)))
        if table.options:
            rows = ["| option | default | type and range | |", "|---|---|---|---|"]
            for option in table.options:
                cells = map(cell, (_shown_default(option), option.type, option.help))
                rows.append(f"| `{option.name}` | {' | '.join(cells)} |")
            parts.append("\n".join(rows))
    return "\n\n".join(part for part in parts if part) + "\n"


def render_toml(tables: Iterable[OptionTable]) -> str:
    """Return a commented TOML template: every option with its description, and its default commented out."""
    lines: list[str] = []

    def comment(text: str) -> None:
        lines.extend(textwrap.wrap(text, 100, initial_indent="# ", subsequent_indent="# "))

    for table in tables:
        if table.path:
            lines.append("")
            comment(_notes(table))
            # These tables stay comments: their presence alone would change the run, or is an error.
            fixed = "[]" in table.path or table.optional or table.only_for or table.same_as or table.kind
            lines.append(f"{'# ' if fixed else ''}{_title(table)}")
        if table.kind is not None:
            mark = _default_mark(table)
            lines.append(f"# kind = {json.dumps(table.kind)}" + (f"  # {mark}" if mark else ""))
        for option in table.options:
            comment(option.help)
            # A required or unset option has no value to show.
            value = (option.default or "...").replace("\n", " ")
            lines.append(f"# {option.name} = {value}")
    return "\n".join(lines).strip() + "\n"
