"""Atomic file writing: a file is written to a temporary directory, flushed to disk, and renamed.

All commands write their files with these functions. Log files are the exception, because they are appended
to. The module also computes checksums and reads whole files up to a size limit.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from regard.data.partial import partial_directory, resolve_links, stem_of
from regard.data.reading import open_regular_file, read_limited
from regard.errors import DataError

__all__ = [
    "atomic_file",
    "file_digest",
    "is_special_file",
    "open_atomic",
    "read_bytes",
    "sync_directory",
    "sync_file",
    "write_atomic",
]

MAX_READ_BYTES = 4 << 30
"""Maximum size in bytes of a file that is read at once. Larger files are mapped or read line by line."""


@contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """Open a file for atomic writing: it is replaced when the block ends without an error.

    After an error, the old content is still there. Symbolic links are followed. Devices and named pipes are
    written to directly.

    Raises:
        DataError: if the file cannot be written (missing directory, no permission, disk full).
    """
    with _convert_errors(path):
        if is_special_file(path):
            with _closing(open(path, "wb")) as file:
                yield file
                file.flush()
            return
        with atomic_file(path) as made, _closing(open(made, "wb")) as file:
            yield file
            file.flush()


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path that is renamed to `path` when the block ends without an error.

    Symbolic links are followed.

    Raises:
        OSError: if the file cannot be created, flushed or renamed.
    """
    target = resolve_links(path)
    with partial_directory(target) as place:
        made = place / target.name
        yield made
        # The content must be on disk before the rename: otherwise a crash could leave an empty file.
        sync_file(made)
        os.replace(made, target)
        sync_directory(target.parent)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file atomically: a reader sees either the old or the new content. See `open_atomic`.

    Raises:
        DataError: if the file cannot be written (missing directory, no permission, disk full).
    """
    with open_atomic(path) as file:
        file.write(content)


def is_special_file(path: Path) -> bool:
    """Return whether a path exists and is neither a file nor a directory (a device, named pipe or socket)."""
    return path.exists() and not path.is_file() and not path.is_dir()


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        DataError: if the file cannot be read, is not a regular file (a device, a named pipe) or is larger
            than 4 GiB.
    """
    return read_limited(path, MAX_READ_BYTES)


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


def sync_file(path: Path) -> None:
    """Flush the content of a file to disk."""
    _sync(path, os.O_RDONLY)


def sync_directory(directory: Path) -> None:
    """Flush the entries of a directory to disk, so that a rename in it survives a power failure."""
    _sync(directory, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _closing(file: BinaryIO) -> Iterator[BinaryIO]:
    """Close a file at the end of the block and ignore errors of closing."""
    try:
        yield file
    finally:
        # The caller flushes the file, so that a write error has been raised already.
        with suppress(OSError):
            file.close()


@contextmanager
def _convert_errors(path: Path) -> Iterator[None]:
    """Convert an `OSError` about `path` into a `DataError` with its name; pass on errors of other files."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        target = Path(os.path.realpath(path))
        # The error may name the path, the target of the link, or a file in the temporary directory.
        own = (str(path), str(target), str(target.with_name(f".{stem_of(target)}.")))
        name = error.filename
        if name is not None and os.fspath(name) not in own[:2] and not str(name).startswith(own[2]):
            raise
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None
