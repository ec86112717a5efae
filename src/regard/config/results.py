"""The base class of all results: plain data with a versioned JSON schema, tables, and display in notebooks.

A result is a frozen dataclass. Its `to_dict` is the one JSON form that the command line, the report and the
server share.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, overload

import numpy as np

from regard.errors import UsageError
from regard.text.files import format_json, write_atomic

T = TypeVar("T")

SCHEMA_VERSION = 1
"""Version of the JSON schema of results. It increases when a field changes its name or meaning."""

_MAX_HTML_ROWS = 20
_DIGITS = 5  # significant digits: rows of attention sum to 1 within 1e-4, and only exact zeros become 0


class Result:
    """Base class of results. Subclasses are frozen dataclasses that declare fields, and `rows` if a table.

    Attributes:
        schema: Name of the kind of result in JSON, such as `alignments`.
    """

    schema: ClassVar[str]
    # Each subclass is a dataclass, which defines this attribute.
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def to_data(self) -> Mapping[str, Any]:
        """Return the fields of the result as JSON values, without NaN and infinity."""
        return {field.name: json_value(getattr(self, field.name)) for field in fields(self)}

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values, with the name and the version of the schema."""
        return {"schema": self.schema, "schema_version": SCHEMA_VERSION, **self.to_data()}

    def to_json(self, indent: int | None = 2) -> str:
        """Return the result as JSON text.

        Raises:
            DataError: if a number is NaN or infinite.
        """
        return format_json(self.to_dict(), indent)

    def save(self, path: Path | str) -> None:
        """Write the result to a JSON file, atomically.

        Raises:
            DataError: if the file cannot be written.
        """
        write_atomic(Path(path), f"{self.to_json()}\n".encode())

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows of the result as a table.

        Raises:
            UsageError: if the result is not a table.
        """
        raise UsageError(f"{type(self).__name__} is not a table: use to_dict()")

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame.

        Raises:
            UsageError: if pandas is not installed, or the result is not a table.
        """
        try:
            import pandas
        except ImportError:
            raise UsageError("to_pandas() requires pandas: pip install pandas") from None
        return pandas.DataFrame(list(self.rows()))

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        return html_table(self.rows())


class SequenceResult(Result, Sequence[T]):
    """Base class of results with one item per sentence: a sequence with the items of its first field.

    Every field is a tuple with one item per sentence. A slice is a result of the same class.
    """

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(getattr(self, fields(self)[0].name))

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> T | Self:
        """Return the item of a sentence, or the result of several sentences."""
        values = [getattr(self, entry.name)[index] for entry in fields(self)]
        return type(self)(*values) if isinstance(index, slice) else values[0]

    def __repr__(self) -> str:
        """Return the number of sentences."""
        return f"{type(self).__name__}({len(self)} sentences)"


def json_value(value: Any) -> Any:
    """Return a value for JSON, with None instead of NaN and infinity.

    Lists, dictionaries and dataclasses are converted with all that they contain. A class with other fields in
    JSON than its own has a method `record` that returns them.
    """
    if hasattr(value, "record"):
        return json_value(value.record())
    if is_dataclass(value):
        return {field.name: json_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value


def perplexity(loss: float) -> float:
    """Return exp(loss) of a loss in nats per token; infinite if it exceeds the range of a float."""
    # `math.exp` raises OverflowError instead.
    with np.errstate(over="ignore"):
        return float(np.exp(loss))


def rounded_numbers(values: np.ndarray) -> Any:
    """Return the values rounded to `_DIGITS` significant digits, as nested lists."""
    # Scaling in float32 would add rounding errors to the last digits.
    wide = values.astype(np.float64)
    # `np.where` evaluates both branches, so log10(0) occurs and is discarded.
    with np.errstate(divide="ignore"):
        size = np.where(wide == 0, 0.0, np.floor(np.log10(np.abs(wide))))
    scale = 10.0 ** (_DIGITS - 1 - size)
    return (np.round(wide * scale) / scale).tolist()


def html_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the first rows as an HTML table, with the number of omitted rows below it.

    The keys of the first row are the columns.
    """
    if not rows:
        return "<p>no rows</p>"
    columns = list(rows[0])
    head = _line("th", columns)
    body = "".join(_line("td", [row.get(name) for name in columns]) for row in rows[:_MAX_HTML_ROWS])
    more = len(rows) - _MAX_HTML_ROWS
    note = f"<p>{more} more rows</p>" if more > 0 else ""
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{note}"


def _line(tag: str, values: Sequence[Any]) -> str:
    """Return one row of an HTML table; None becomes an empty cell."""
    cells = ["" if x is None else f"{x:.4g}" if isinstance(x, float) else str(x) for x in values]
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
