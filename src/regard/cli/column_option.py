"""Parser of the option `--columns`, which gives the column numbers of a table."""

from regard.errors import UsageError

__all__ = ["column_numbers"]


def column_numbers(text: str) -> tuple[int, ...]:
    """Return the column numbers of a text such as `1,2,3`. The last one is the column of the form.

    Raises:
        UsageError: If a field is not a number from 1 up, a number occurs twice, or there are fewer than two.
    """
    fields = text.split(",")
    found = tuple(int(field) for field in fields if field.isdecimal())
    if len(found) < max(2, len(fields)) or min(found) < 1 or len(set(found)) < len(found):
        raise UsageError(
            f"--columns {text!r}: expected at least two different column numbers, counted from 1 and "
            "separated by commas"
        )
    return found
