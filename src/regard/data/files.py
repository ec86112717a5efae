"""Files written whole or not at all: made in a partial folder, flushed to disk, then renamed.

Every file that a command writes goes through here, but for logs, which grow.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from regard.data.partial import follow, partial_folder, stem_of
from regard.data.reading import open_regular, read_limited
from regard.errors import DataError

__all__ = [
    "file_digest",
    "is_special",
    "open_whole",
    "read_bytes",
    "sync_file",
    "sync_folder",
    "whole_file",
    "write_atomic",
]

LARGEST = 4 << 30
"""The most bytes of a file that is read at once; what is larger is mapped or read line by line."""


@contextmanager
def open_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file whose new content appears when the block ends well; after an error the old one stays.

    A link is followed; what is no file (a device, a named pipe) is written to as it is.

    Raises:
        DataError: if the file cannot be written (no such folder, no permission, disk full).
    """
    with _naming(path):
        if is_special(path):
            with _closing(open(path, "wb")) as file:
                yield file
                file.flush()
            return
        with whole_file(path) as made, _closing(open(made, "wb")) as file:
            yield file
            file.flush()


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a path to write a file to, which takes the place of `path` when the block ends well.

    A link is followed.

    Raises:
        OSError: if it cannot be made, flushed or renamed.
    """
    target = follow(path)
    with partial_folder(target) as place:
        made = place / target.name
        yield made
        sync_file(made)
        os.replace(made, target)
        sync_folder(target.parent)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part; see `open_whole`.

    Raises:
        DataError: if the file cannot be written (no such folder, no permission, disk full).
    """
    with open_whole(path) as file:
        file.write(content)


def is_special(path: Path) -> bool:
    """Whether a path is there and is neither a file nor a folder: a device, a named pipe, a socket."""
    return path.exists() and not path.is_file() and not path.is_dir()


def read_bytes(path: Path) -> bytes:
    """The content of a regular file.

    Raises:
        DataError: if it cannot be read, is something else (a device, a named pipe) or longer than 4 GiB.
    """
    return read_limited(path, LARGEST)


def file_digest(path: Path) -> str:
    """The SHA-256 of a regular file, in hexadecimal.

    Raises:
        DataError: if it cannot be read or is something else.
    """
    with open_regular(path) as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}") from None


def sync_file(path: Path) -> None:
    """Flush a file's content to disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, so that a rename in it survives a power cut."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _closing(file: BinaryIO) -> Iterator[BinaryIO]:
    """Close a file at the end; what could not be written then was told of before."""
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors of writing name the file; those of other files pass."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        target = Path(os.path.realpath(path))
        own = (str(path), str(target), str(target.with_name(f".{stem_of(target)}.")))
        name = error.filename
        if name is not None and os.fspath(name) not in own[:2] and not str(name).startswith(own[2]):
            raise
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None
