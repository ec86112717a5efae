"""Tab-separated tables with a header line, which are checked when they are read."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from regard.errors import DataError

__all__ = ["LexiconRow", "read_table"]


@dataclass(frozen=True, slots=True)
class LexiconRow:
    """A line of a table: its cells by column, and its file and line number for messages."""

    cells: dict[str, str]
    where: str

    def __getitem__(self, column: str) -> str:
        """Return a cell; an empty string if the cell is empty."""
        return self.cells[column]

    def one_of(self, column: str, allowed: Collection[str]) -> str:
        """Return a cell whose value must be one of the permitted values.

        Raises:
            DataError: if the value is not permitted.
        """
        self._check(column, self.cells[column], allowed)
        return self.cells[column]

    def words(self, column: str, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        """Return the words of a cell.

        Args:
            column: The column.
            allowed: The permitted words. Default: all.

        Raises:
            DataError: if a word is not permitted.
        """
        words = tuple(self.cells[column].split())
        if allowed is not None:
            for word in words:
                self._check(column, word, allowed)
        return words

    def _check(self, column: str, value: str, allowed: Collection[str]) -> None:
        if value not in allowed:
            expected = f"one of {', '.join(allowed)}" if allowed else "none"
            raise self.error(f"{column} is {value!r}; expected {expected}")

    def given_together(self, *columns: str) -> list[str]:
        """Return the cells of columns that belong together, or an empty list if all cells are empty.

        Raises:
            DataError: if some cells are empty and others are not.
        """
        cells = [self.cells[column] for column in columns]
        if any(cells):
            self.require(*columns)
        return cells if any(cells) else []

    def require(self, *columns: str) -> None:
        """Raise a `DataError` if a cell is empty."""
        for column in columns:
            if not self.cells[column]:
                raise self.error(f"{column} is missing")

    def error(self, problem: str) -> DataError:
        """Return an error that names the file and the line."""
        return DataError(f"{self.where}: {problem}")


def read_table(path: Path, required: str, optional: str = "", key: str = "") -> list[LexiconRow]:
    """Return the rows of a tab-separated file whose first line names its columns.

    Empty cells at the end of a line may be omitted.

    Args:
        path: The file.
        required: The columns whose cells must not be empty, separated by spaces.
        optional: The columns whose cells may be empty.
        key: The columns that identify a row together. Default: the first required column.

    Raises:
        DataError: if the file cannot be read, a column is unknown or missing, a line has too many cells, a
            cell is empty, or a row occurs twice. The message names the file and the line.
    """
    try:
        header, *lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise DataError(f"{path}: not a readable table: {error}") from None
    columns = header.split("\t")
    needed = required.split()
    expected = [*needed, *optional.split()]
    for column in columns:
        if column not in expected or columns.count(column) > 1:
            problem = "occurs twice" if column in expected else "is unknown"
            raise DataError(f"{path}:1: column {column!r} {problem}; expected {', '.join(expected)}")
    if missing := [column for column in expected if column not in columns]:
        raise DataError(f"{path}:1: column {missing[0]!r} is missing")
    rows: list[LexiconRow] = []
    first: dict[str, int] = {}
    key_columns = (key or needed[0]).split()
    for number, line in enumerate(lines, 2):
        cells = line.split("\t")
        padding = [""] * (len(columns) - len(cells))
        # A line with too many cells is rejected below, where the error can name the line.
        row = LexiconRow(dict(zip(columns, cells + padding, strict=False)), f"{path}:{number}")
        if len(cells) > len(columns):
            raise row.error(f"the line has {len(cells)} cells; the table has {len(columns)} columns")
        row.require(*needed)
        identity = "\t".join([row.cells[column] for column in key_columns])
        if first.setdefault(identity, number) != number:
            raise row.error(f"{' '.join(identity.split())!r} is already in line {first[identity]}")
        rows.append(row)
    return rows
