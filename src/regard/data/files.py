"""Files written whole or not at all: to a temporary neighbour, flushed to disk, then renamed."""

import hashlib
import os
from pathlib import Path

from regard.errors import DataError

__all__ = ["file_digest", "read_bytes", "sync_folder", "write_atomic"]


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part.

    A link is followed; what is no file (a device, a named pipe) is written to as it is.

    Raises:
        DataError: if the file cannot be written (no such folder, no permission, disk full).
    """
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        if path.exists() and not path.is_file():
            with open(path, "wb") as file:
                file.write(content)
            return
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise DataError(f"{path}: cannot be written: {error.strerror}") from None


def read_bytes(path: Path) -> bytes:
    """The content of a file.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, so that a rename in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
