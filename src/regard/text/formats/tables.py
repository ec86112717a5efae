"""Bilingual files with one segment per row: TSV, CSV (RFC 4180) and JSONL.

A quotation mark in a TSV file is an ordinary character. In a CSV file, a quoted field may contain line feeds,
which are read as spaces, as all white space.
"""

import csv
from collections.abc import Iterable, Iterator
from typing import Any

from regard.errors import DataError
from regard.text.corpus import decode_lines
from regard.text.formats.base import FileContent, Segment, register_file_format
from regard.text.reading import InvalidJsonError, parse_json
from regard.text.words import normalize_whitespace


@register_file_format("tsv", suffixes=(".tsv", ".tab"), options=("columns",))
def read_tsv(content: FileContent) -> Iterator[Segment]:
    """Yield the segments of a tab-separated file."""
    lines = enumerate(decode_lines(content.file, content.name), 1)
    return _select_columns(((number, line.split("\t") if line else []) for number, line in lines), content)


@register_file_format("csv", suffixes=(".csv",), options=("columns",))
def read_csv(content: FileContent) -> Iterator[Segment]:
    """Yield the segments of a comma-separated file with quotation marks around fields that need them."""
    return _select_columns(_csv_rows(content), content)


def _csv_rows(content: FileContent) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader((f"{line}\n" for line in decode_lines(content.file, content.name)), strict=True)
    line = 1
    try:
        for row in rows:
            yield line, [normalize_whitespace(cell) for cell in row]
            line = rows.line_num + 1
    except csv.Error as error:
        raise DataError(f"{content.name}: line {line}: {error}") from None


def _select_columns(rows: Iterable[tuple[int, list[str]]], content: FileContent) -> Iterator[Segment]:
    """Yield the segments of rows, each of which has the number of its line."""
    columns: tuple[int, ...] = ()
    id_column = None
    for line, row in rows:
        if not row:
            content.skipped["empty"] += 1
            continue
        if not columns:
            columns, has_header = _find_columns(row, line, content)
            if has_header:
                names = [cell.strip().lower() for cell in row]
                id_column = names.index("id") if "id" in names else None
                continue
        if len(row) < max(columns):
            raise DataError(
                f"{content.name}: line {line}: {len(row)} columns, expected {max(columns)} or more"
            )
        # With several source columns, such as a lemma and its features, the target is the last one.
        *source, target = (row[column - 1] for column in columns)
        identifier = row[id_column] if id_column is not None and id_column < len(row) else None
        yield Segment("\t".join(source), target, line, identifier)


def _find_columns(row: list[str], line: int, content: FileContent) -> tuple[tuple[int, ...], bool]:
    """Return the numbers of the columns, from 1, and whether the first row is a header."""
    columns, names = content.options.columns, [cell.strip().lower() for cell in row]
    target = "translation" if "translation" in names and "target" not in names else "target"
    if not columns and not {"source", target} <= set(names):
        return (1, 2), False
    columns = [str(column).lower() for column in columns or ("source", target)]
    if columns[0].isdecimal():
        return tuple(map(int, columns)), False
    for column in columns:
        if column not in names:
            raise DataError(
                f"{content.name}: line {line}: no column {column!r} in the header {', '.join(row)}"
            )
    return tuple(names.index(column) + 1 for column in columns), True


@register_file_format("jsonl", suffixes=(".jsonl", ".ndjson"), options=("fields",))
def read_jsonl(content: FileContent) -> Iterator[Segment]:
    """Yield the segments of a file with one JSON object per line. A target that is null is untranslated."""
    fields = content.options.fields or ("source", "target")
    for number, line in enumerate(decode_lines(content.file, content.name), 1):
        if not line.strip():
            content.skipped["empty"] += 1
            continue
        try:
            row = parse_json(line, dict[str, Any])
        except InvalidJsonError as error:
            raise DataError(f"{content.name}: line {number}: not a JSON object: {error}") from None
        source, target = (_field(row, field) for field in fields)
        if target is None:
            content.skipped["untranslated"] += 1
            continue
        for field, text in zip(fields, (source, target), strict=True):
            if not isinstance(text, str):
                raise DataError(
                    f"{content.name}: line {number}: the field {field} (--fields) is missing or is no text; "
                    f"the fields are {', '.join(row)}"
                )
        identifier = row.get("id")
        texts = normalize_whitespace(source), normalize_whitespace(target)
        yield Segment(*texts, line=number, id=None if identifier is None else str(identifier))


def _field(row: Any, path: str) -> Any:
    """Return the value of a field `name` or `object.name`; `...` if it is missing."""
    for name in path.split("."):
        if not isinstance(row, dict) or name not in row:
            return ...
        row = row[name]
    return row
