"""Atomic writing of files and directories: content is written elsewhere, flushed to disk, and renamed.

All commands write their files with these functions. Log files are the exception, because they are appended
to. A file or directory is first created in a partial directory in the same directory as its final name:

    .NAME.XXXXXXXX.partial/     with a random hexadecimal XXXXXXXX
        .lock                   locked by the process that created the partial directory
        new/                    the new content
        old/NAME                the old directory, while the new one is renamed to NAME

A partial directory without a lock was left by a killed process, on this machine or another one. The next
process that writes NAME removes it. If NAME is missing, the old directory first gets its name back.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from regard.errors import DataError
from regard.text.compression import compress
from regard.text.paths import is_special_file, readable_json

__all__ = [
    "MAX_NAME_BYTES",
    "atomic_file",
    "format_json",
    "is_partial",
    "open_atomic",
    "partial_directory",
    "remove_leftovers",
    "resolve_links",
    "stem_of",
    "sync",
    "write_atomic",
]


@contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """Open a file for atomic writing: it is replaced when the block ends without an error.

    The content is compressed if the name ends in .gz, .bz2, .xz or .zst. After an error, the old content is
    still there. Symbolic links are followed. Devices and named pipes are written to directly.

    Raises:
        DataError: if the file cannot be written (missing directory, no permission, disk full).
    """
    with (
        _convert_errors(path),
        nullcontext(path) if is_special_file(path) else atomic_file(path) as destination,
        open(destination, "wb") as file,
        compress(file, path) as content,
    ):
        yield content


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path that is renamed to `path` when the block ends without an error.

    Symbolic links are followed.

    Raises:
        OSError: if the file cannot be created, flushed or renamed.
    """
    target = resolve_links(path)
    with partial_directory(target) as place:
        temporary_path = place / target.name
        yield temporary_path
        # The content must be on disk before the rename: otherwise a crash could leave an empty file.
        sync(temporary_path)
        os.replace(temporary_path, target)
        sync(target.parent)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file atomically: a reader sees either the old or the new content. See `open_atomic`.

    Raises:
        DataError: if the file cannot be written (missing directory, no permission, disk full).
    """
    with open_atomic(path) as file:
        file.write(content)


def format_json(content: Any, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """Return JSON text; see `json.dumps`.

    Raises:
        DataError: if the content has NaN or infinity, which JSON does not have.
    """
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    except ValueError:
        raise DataError(
            "a number of the result is NaN or infinite, which JSON cannot represent: the model or the input "
            "is damaged"
        ) from None
    return readable_json(text)


def sync(path: Path) -> None:
    """Flush a file or the entries of a directory to disk, so that a rename survives a power failure."""
    windows = os.name == "nt"
    if windows and path.is_dir():
        return  # Windows cannot open directories
    descriptor = os.open(path, os.O_RDWR if windows else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
        paths = (str(path), str(target), str(target.with_name(f".{stem_of(target)}.")))
        name = error.filename
        if name is not None and os.fspath(name) not in paths[:2] and not str(name).startswith(paths[2]):
            raise
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None


MAX_NAME_BYTES = 200
"""Maximum number of bytes of a name that is part of its partial directory's name. Longer names are hashed,
because file systems limit names to 255 bytes."""
_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{8}\.partial", re.DOTALL)


@contextmanager
def partial_directory(target: Path) -> Iterator[Path]:
    """Yield the empty directory `new` of a partial directory, which is removed when the block ends.

    Args:
        target: The file or directory to create. Its parent must exist.

    Raises:
        OSError: if the directory cannot be created.
    """
    remove_leftovers(target.parent, stem_of(target))
    place, lock = _create_partial(target)
    try:
        (place / "new").mkdir()
        yield place / "new"
    finally:
        _remove_partial(place, lock)


def _create_partial(target: Path) -> tuple[Path, FileLock]:
    """Return a new partial directory and its lock, which is held."""
    while True:
        place = target.with_name(f".{stem_of(target)}.{secrets.token_hex(4)}.partial")
        place.mkdir()
        lock = FileLock(place / ".lock", blocking=False)
        # Another process may remove the directory as a leftover before it is locked.
        with suppress(Timeout, FileNotFoundError):
            lock.acquire()
            return place, lock


def _remove_partial(place: Path, lock: FileLock) -> None:
    """Remove a partial directory and release its lock; give an old directory without successor its name."""
    for old in place.glob("old/*"):
        if not os.path.lexists(place.parent / old.name):
            os.rename(old, place.parent / old.name)
    shutil.rmtree(place, ignore_errors=True)
    lock.release()
    with suppress(OSError):
        place.rmdir()  # Windows does not remove a file, such as the lock, while it is open


def resolve_links(path: Path) -> Path:
    """Return a path with its symbolic links resolved; the last component need not exist.

    Raises:
        OSError: if the links form a cycle.
    """
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


def stem_of(target: Path) -> str:
    """Return the part of a partial directory's name that identifies its target."""
    name = os.fsencode(target.name)
    return target.name if len(name) <= MAX_NAME_BYTES else hashlib.sha256(name).hexdigest()


def is_partial(path: Path) -> bool:
    """Return whether a path has the name of a partial directory."""
    return _PARTIAL.fullmatch(path.name) is not None


def remove_leftovers(directory: Path, stem: str | None = None) -> None:
    """Remove the partial directories that killed processes left in a directory.

    Args:
        directory: The directory to search; nothing happens if it cannot be read.
        stem: Remove only those of this target (a result of `stem_of`). None removes all.
    """
    # A directory that cannot be read has no leftovers that could be removed.
    with suppress(OSError):
        for place in list(directory.iterdir()):
            match = _PARTIAL.fullmatch(place.name)
            if match and stem in (None, match[1]) and place.is_dir() and not place.is_symlink():
                lock = FileLock(place / ".lock", blocking=False)
                # Fails if the process that created it is still running.
                with suppress(OSError):
                    lock.acquire()
                    _remove_partial(place, lock)
