"""Atomic file writing: a file is written to a temporary directory, flushed to disk, and renamed.

All commands write their files with these functions. Log files are the exception, because they are appended
to. A file or directory is first created in a partial directory next to it:

    .NAME.XXXXXXXX.partial/     in the same directory as NAME, with a random hexadecimal XXXXXXXX

The process that creates one holds a lock on it. A partial directory without a lock was left by a killed
process, on this machine or another one. The next process that writes NAME removes it.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from regard.errors import DataError
from regard.text.compression import compress
from regard.text.paths import readable_json

__all__ = [
    "MAX_NAME_BYTES",
    "atomic_file",
    "format_json",
    "is_partial",
    "is_special_file",
    "open_atomic",
    "partial_directory",
    "remove_all_leftovers",
    "remove_leftovers",
    "resolve_links",
    "stem_of",
    "sync_directory",
    "sync_file",
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
    with _convert_errors(path):
        if is_special_file(path):
            with _closing(open(path, "wb")) as file:
                with compress(file, path) as content:
                    yield content
                file.flush()
            return
        with atomic_file(path) as temporary_path, _closing(open(temporary_path, "wb")) as file:
            with compress(file, path) as content:
                yield content
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
        temporary_path = place / target.name
        yield temporary_path
        # The content must be on disk before the rename: otherwise a crash could leave an empty file.
        sync_file(temporary_path)
        os.replace(temporary_path, target)
        sync_directory(target.parent)


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


def is_special_file(path: Path) -> bool:
    """Return whether a path exists and is neither a file nor a directory (a device, named pipe or socket)."""
    return path.exists() and not path.is_file() and not path.is_dir()


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
    """Yield an empty directory next to `target`; it is removed with its content when the block ends.

    Args:
        target: The file or directory to create. Its parent must exist.

    Raises:
        OSError: if the directory cannot be created.
    """
    remove_leftovers(target.parent, stem_of(target))
    place, descriptor = _make(target)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(descriptor)


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


def remove_all_leftovers(target: Path) -> None:
    """Remove the partial directories of killed processes for `target`, and those inside it."""
    target = Path(os.path.realpath(target))
    remove_leftovers(target.parent, stem_of(target))
    remove_leftovers(target)


def is_partial(path: Path) -> bool:
    """Return whether a path has the name of a partial directory."""
    return _PARTIAL.fullmatch(path.name) is not None


def remove_leftovers(directory: Path, stem: str | None = None) -> None:
    """Remove the partial directories that killed processes left in a directory.

    Args:
        directory: The directory to search; nothing happens if it cannot be read.
        stem: Remove only those of this target (a result of `stem_of`). None removes all.
    """
    leftovers: list[Path] = []
    # A directory that cannot be read has no leftovers that could be removed.
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            match = _PARTIAL.fullmatch(entry.name)
            if match and stem in (None, match[1]) and entry.is_dir(follow_symlinks=False):
                leftovers.append(Path(entry.path))
    for path in leftovers:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                # Fails if the creating process is still running. It also fails on file systems without
                # locks, where the directory is kept, since its owner is unknown.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)


def _make(target: Path) -> tuple[Path, int]:
    """Create a partial directory; return its path and the file descriptor that holds its lock."""
    while True:
        place = target.with_name(f".{stem_of(target)}.{secrets.token_hex(4)}.partial")
        os.mkdir(place)
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # another process removed it as a leftover before it was locked
        # A shared lock: network file systems grant no exclusive lock on a descriptor opened for reading.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            # The directory may have been removed between mkdir and flock: compare the inodes.
            if os.path.samestat(os.stat(place), os.fstat(descriptor)):
                return place, descriptor
        os.close(descriptor)
