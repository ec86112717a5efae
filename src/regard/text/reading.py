"""Safe reading of untrusted files: regular files up to a size limit, JSON with a schema, checksums, arrays.

A device or a named pipe may never end, and a compressed file of a few megabytes may expand until memory is
exhausted. JSON is validated with a pydantic model before it is used. Compiled loops do not check bounds: an
index out of range would read other memory or crash the process, so arrays are checked before.

A model directory, a word aligner, a phrase table and an exported model each have a description, which is
written last and contains the names and SHA-256 checksums of the other files. Each name must be the plain name
of a regular file in the directory. A malicious description therefore cannot make the program read files
outside the directory. The checksums detect damaged files and files mixed from different directories. They do
not authenticate the author: a person who can change a file can also change its checksum.
"""

import hashlib
import io
import os
import stat
from collections.abc import Iterable, Mapping
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.errors import DataError
from regard.text.compression import READ_ERRORS, decompress, read_failure
from regard.text.files import remove_leftovers
from regard.text.paths import check_link

if TYPE_CHECKING:
    from pydantic import TypeAdapter


_T = TypeVar("_T")

MAX_JSON_BYTES = 256 << 20
"""Maximum size of a JSON file in bytes."""


class InvalidJsonError(ValueError):
    """Raised for text that is not JSON of the expected schema; the message gives place and reason."""


def open_regular_file(path: Path | str) -> BufferedReader:
    """Open a regular file for reading bytes.

    Raises:
        DataError: if it is missing, not readable, or a directory, a device, a named pipe or a socket.
    """
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise DataError(f"{path}: Is a directory")
        if not stat.S_ISREG(mode):
            raise DataError(
                f"{path}: not a regular file, but a device or a pipe; save the text to a file first"
            )
        return open(path, "rb")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise DataError(f"{str(path)!r}: not a valid file name") from None


MAX_READ_BYTES = 4 << 30
"""Maximum size in bytes of a file that is read at once. Larger files are mapped or read line by line."""


def read_bytes(path: Path | str, max_bytes: int = MAX_READ_BYTES) -> bytes:
    """Return the content of a regular file.

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

    Raises:
        InvalidJsonError: if the text is not JSON, is nested too deeply, has a number with too many digits, or
            has a value of another type.
    """
    from pydantic import ValidationError

    try:
        return _adapter(model).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        # One error is enough: the message is one line.
        place = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        reason = f"{reason[:1].lower()}{reason[1:]}"
        raise InvalidJsonError(f"{place}: {reason}" if place else reason) from None


def read_json(path: Path | str, model: type[_T], max_bytes: int = MAX_JSON_BYTES) -> _T:
    """Read a JSON file, plain or compressed, and validate its content; see `parse_json`.

    Raises:
        DataError: if the file cannot be read or is too large.
        InvalidJsonError: if the content does not match the type `model`.
    """
    try:
        content = decompress(io.BytesIO(read_bytes(path, max_bytes))).read(max_bytes + 1)
    except READ_ERRORS as error:
        raise DataError(f"{path}: {read_failure(error)}") from None
    if len(content) > max_bytes:
        raise DataError(f"{path}: more than {max_bytes:,} bytes, the maximum, after decompression")
    return parse_json(content, model)


def read_expected_json(path: Path, model: type[_T], content: str) -> _T:
    """Read a JSON file, plain or compressed, that describes a directory or holds results.

    Args:
        path: The file.
        model: The type of its content.
        content: The expected content, for the message, such as `the description of an aligner`.

    Raises:
        DataError: if the file cannot be read or has other content.
    """
    try:
        return read_json(path, model)
    except InvalidJsonError as error:
        raise DataError(f"{path}: not {content}: {error}") from None


def file_digest(path: Path) -> str:
    """Return the SHA-256 checksum of a regular file, in hexadecimal.

    Raises:
        DataError: if the file cannot be read or is not a regular file.
    """
    with open_regular_file(path) as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}") from None


Checksums = dict[str, str]
"""SHA-256 checksums by plain file name."""


def checked_file(directory: Path, name: str, where: str | Path | None = None) -> Path:
    """Return the path of a file in a directory after checking that it is a regular file of the directory.

    Args:
        directory: The directory.
        name: The file name, possibly from an untrusted description.
        where: The description that contains the name, for messages. None for names set by the program.

    Raises:
        DataError: if the name is not a plain file name, or the path is not a regular file within the
            directory. A missing file is not an error here.
    """
    if name in ("", ".", "..") or any(mark in name for mark in "/\\\0"):
        raise DataError(
            f"{where or directory}: contains the file name {name!r}; expected the plain name of a file in "
            "the same directory"
        )
    if not directory.exists():
        # A process that was killed while it replaced the directory has left it under another name.
        target = directory.resolve()
        remove_leftovers(target.parent, target)
    path = check_link(directory / name, directory)
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return path  # reading it will raise an error with the reason
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise DataError(f"{path}: not a regular file")
    return path


def compute_checksums(directory: Path, names: Iterable[str]) -> Checksums:
    """Return the checksums of files of a directory, to be stored in its description.

    Raises:
        DataError: if a file cannot be read.
    """
    return {name: file_digest(checked_file(directory, name)) for name in names}


def verify_checksums(
    directory: Path, checksums: Mapping[str, str], required: Iterable[str], description: str
) -> None:
    """Compare files with the checksums in the description of their directory.

    Args:
        directory: The directory.
        checksums: The checksums in the description.
        required: Names of the files that will be read. Each must have a checksum.
        description: File name of the description, for messages.

    Raises:
        DataError: if a file is missing, truncated, altered, without a checksum, or not a regular file of
            the directory. The message names the file.
    """
    for name in sorted(required):
        if name not in checksums:
            raise DataError(f"{directory / description}: has no checksum for {name} in the same directory")
    for name, digest in checksums.items():
        if file_digest(checked_file(directory, name, directory / description)) != digest:
            raise DataError(
                f"{directory / name}: truncated or altered: its checksum differs from the one in "
                f"{description}"
            )
