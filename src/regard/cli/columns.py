"""`--columns`: which columns of a table hold what."""

from regard.errors import UsageError

__all__ = ["column_numbers"]


def column_numbers(text: str) -> tuple[int, ...]:
    """The numbers of `1,2,3`: the form's is the last.

    Raises:
        UsageError: if they are no numbers from 1, fewer than two, or one of them comes twice.
    """
    fields = text.split(",")
    found = tuple(int(field) for field in fields if field.isdecimal())
    if len(found) < max(2, len(fields)) or min(found) < 1 or len(set(found)) < len(found):
        raise UsageError(f"--columns {text!r}: expected different numbers from 1 with commas between them")
    return found
