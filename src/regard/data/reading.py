"""Safe reading of untrusted files: only regular files, only up to a size limit, JSON with a schema.

A device or a named pipe may never end, and a compressed file of a few megabytes may expand until memory is
exhausted. JSON is validated with a pydantic model before it is used.
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

__all__ = [
    "MAX_JSON_BYTES",
    "InvalidJsonError",
    "JsonNumber",
    "open_regular_file",
    "parse_json",
    "read_json",
    "read_limited",
]

_T = TypeVar("_T")

MAX_JSON_BYTES = 256 << 20
"""Maximum size of a JSON file in bytes."""

JsonNumber = int | float

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class InvalidJsonError(ValueError):
    """Raised for text that is not JSON of the expected schema; the message gives place and reason."""


def open_regular_file(path: Path | str) -> BufferedReader:
    """Open a regular file for reading bytes.

    Raises:
        DataError: if it is missing, not readable, or a directory, a device, a named pipe or a socket.
    """
    try:
        _check_regular(path, os.stat(path).st_mode)
        # O_NONBLOCK: if a named pipe replaces the file after the check, opening it must not block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _check_regular(path, os.fstat(descriptor).st_mode)
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise DataError(f"{str(path)!r}: not a valid file name") from None


def _check_regular(path: Path | str, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise DataError(f"{path}: Is a directory")
    kind = next((name for test, name in _KINDS if test(mode)), "not a regular file")
    raise DataError(f"{path}: {kind}, expected a regular file; save the text to a file first")


def read_limited(path: Path | str, max_bytes: int) -> bytes:
    """Return the content of a regular file.

    Args:
        path: Path of the file.
        max_bytes: Maximum size in bytes.

    Raises:
        DataError: if the file cannot be read, is not a regular file, or is larger than the limit.
    """
    with open_regular_file(path) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            if size > max_bytes:
                raise DataError(f"{path}: the file has {size:,} bytes; the maximum is {max_bytes:,}")
            return file.read(size)  # read(max_bytes) would allocate `max_bytes` bytes at once
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}") from None


@lru_cache(maxsize=256)
def _adapter(model: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter  # imported here to keep `regard --help` fast

    return TypeAdapter(model)


def parse_json(text: bytes | str, model: type[_T]) -> _T:
    """Parse JSON and validate it with a pydantic model or any type that pydantic supports.

    Args:
        text: The JSON text.
        model: The expected type.

    Raises:
        InvalidJsonError: if the text is not JSON, is nested too deeply, has a number with too many digits, or
            has a value of another type.
    """
    from pydantic import ValidationError

    try:
        return _adapter(model).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        reason = f"{reason[:1].lower()}{reason[1:]}"
        raise InvalidJsonError(f"{place}: {reason}" if place else reason) from None


def read_json(path: Path | str, model: type[_T], max_bytes: int = MAX_JSON_BYTES) -> _T:
    """Read a JSON file and validate its content; see `parse_json`.

    Raises:
        DataError: if the file cannot be read or is too large.
        InvalidJsonError: if the content does not match the type `model`.
    """
    return parse_json(read_limited(path, max_bytes), model)
