"""Files that nobody vouches for, read with care: regular files alone, and no more of them than a limit.

A device or a named pipe may never end, and a file of a few megabytes may unpack to all of the memory. JSON is
checked against a pydantic model before anything is done with it.
"""

import os
import stat
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.errors import DataError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["LARGEST_JSON", "NotJson", "Numbers", "open_regular", "parse_json", "read_json", "read_limited"]

T = TypeVar("T")

LARGEST_JSON = 256 << 20
"""The most bytes of a file of JSON."""

Numbers = int | float

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class NotJson(ValueError):
    """Text that is not JSON of the expected form; says where and why in one line."""


def open_regular(path: Path | str) -> BufferedReader:
    """Open a regular file for reading bytes.

    Raises:
        DataError: if it is missing, may not be read, or is a folder, a device, a named pipe or a socket.
    """
    try:
        _refuse_special(path, os.stat(path).st_mode)
        # Without blocking, should a named pipe take the file's place in between.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _refuse_special(path, os.fstat(descriptor).st_mode)
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise DataError(f"{str(path)!r}: no name that a file can have") from None


def _refuse_special(path: Path | str, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise DataError(f"{path}: Is a directory")
    kind = next((name for test, name in _KINDS if test(mode)), "no regular file")
    raise DataError(f"{path}: {kind}, expected a regular file; write the text into a file first")


def read_limited(path: Path | str, limit: int) -> bytes:
    """Return the content of a regular file.

    Args:
        path: The file.
        limit: The most bytes that it may have.

    Raises:
        DataError: if it cannot be read, is no regular file or is longer.
    """
    with open_regular(path) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise DataError(f"{path}: {size:,} bytes, more than the {limit:,} that such a file may have")
            return file.read(size)  # with the limit itself, Python would take as much memory at once
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}") from None


@lru_cache(maxsize=256)
def _adapter(model: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter  # here, so that `regard --help` does not wait for it

    return TypeAdapter(model)


def parse_json(text: bytes | str, model: type[T]) -> T:
    """Return JSON as the values of a pydantic model or of any type that pydantic can check.

    Args:
        text: The JSON.
        model: What it holds.

    Raises:
        NotJson: if it is no JSON, is nested too deeply, holds a number too long or a value of another type.
    """
    from pydantic import ValidationError

    try:
        return _adapter(model).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        reason = f"{reason[:1].lower()}{reason[1:]}"
        raise NotJson(f"{place}: {reason}" if place else reason) from None


def read_json(path: Path | str, model: type[T], limit: int = LARGEST_JSON) -> T:
    """Return the content of a file of JSON, checked; see `parse_json`.

    Raises:
        DataError: if the file cannot be read or is too long.
        NotJson: if it does not hold what the model says.
    """
    return parse_json(read_limited(path, limit), model)
