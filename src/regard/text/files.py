"""Atomic writing of files and directories, and locks: content is written elsewhere, flushed, and renamed.

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

from regard.errors import CheckpointError, DataError, UsageError
from regard.text.compression import compress
from regard.text.paths import SURROGATE, check_link, check_name, is_special_file


@contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """Open a file for atomic writing: it is replaced when the block ends without an error.

    The content is compressed if the name ends in .gz, .bz2, .xz or .zst. After an error, the old content is
    still there. Symbolic links are followed. Devices and named pipes are written to directly.

    Raises:
        DataError: if the file cannot be written (missing directory, no permission, disk full).
    """
    try:
        with (
            nullcontext(path) if is_special_file(path) else atomic_file(path) as destination,
            open(destination, "wb") as file,
            compress(file, path) as content,
        ):
            yield content
    except BrokenPipeError:
        raise
    except OSError as error:
        target = Path(os.path.realpath(path))
        # The error may name the path, the target of the link, or a file in the temporary directory.
        paths = (str(path), str(target), str(target.with_name(f".{_stem_of(target)}.")))
        name = error.filename
        if name is not None and os.fspath(name) not in paths[:2] and not str(name).startswith(paths[2]):
            raise
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path that is renamed to `path` when the block ends without an error.

    Symbolic links are followed.

    Raises:
        OSError: if the file cannot be created, flushed or renamed.
    """
    target = _resolve_links(path)
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
    # The invalid bytes of file names are shown as the characters `\xe9`.
    return SURROGATE.sub(lambda match: rf"\\x{ord(match[0]) & 0xFF:02x}", text)


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


_MAX_NAME_BYTES = 200
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
    remove_leftovers(target.parent, target)
    place, lock = _create_partial(target)
    try:
        (place / "new").mkdir()
        yield place / "new"
    finally:
        _remove_partial(place, lock)


def _create_partial(target: Path) -> tuple[Path, FileLock]:
    """Return a new partial directory and its lock, which is held."""
    while True:
        place = target.with_name(f".{_stem_of(target)}.{secrets.token_hex(4)}.partial")
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


def _resolve_links(path: Path) -> Path:
    """Return a path with its symbolic links resolved; the last component need not exist.

    Raises:
        OSError: if the links form a cycle.
    """
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


def _stem_of(target: Path) -> str:
    """Return the part of a partial directory's name that identifies its target."""
    name = os.fsencode(target.name)
    return target.name if len(name) <= _MAX_NAME_BYTES else hashlib.sha256(name).hexdigest()


def is_partial(path: Path) -> bool:
    """Return whether a path has the name of a partial directory."""
    return _PARTIAL.fullmatch(path.name) is not None


def remove_leftovers(directory: Path, target: Path | None = None) -> None:
    """Remove the partial directories that killed processes left in a directory.

    Args:
        directory: The directory to search; nothing happens if it cannot be read.
        target: Remove only those of this file or directory. None removes all.
    """
    # A directory that cannot be read has no leftovers that could be removed.
    with suppress(OSError):
        for place in list(directory.iterdir()):
            match = _PARTIAL.fullmatch(place.name)
            wanted = match is not None and (target is None or match[1] == _stem_of(target))
            if wanted and place.is_dir() and not place.is_symlink():
                lock = FileLock(place / ".lock", blocking=False)
                # Fails if the process that created it is still running.
                with suppress(OSError):
                    lock.acquire()
                    _remove_partial(place, lock)


@contextmanager
def directory_lock(directory: Path) -> Iterator[None]:
    """Lock a directory for this process during the block, and remove partial files of killed processes.

    The lock is on the file `.NAME.lock` next to the directory. The operating system releases it when the
    process ends for any reason. A process that does not get the lock changes nothing.

    Args:
        directory: The directory. It is created if it does not exist, and removed again if nothing was written
            into it.

    Raises:
        CheckpointError: if another process holds the lock, or the directory cannot be created.
        DataError: if a link in it leads out of it: files would be read and written there.
        UsageError: if its name is not valid UTF-8.
    """
    check_name(directory)
    target = Path(os.path.realpath(directory))
    created = [path for path in (target, *target.parents) if not path.exists()]
    lock = FileLock(target.with_name(f".{_stem_of(target)}.lock"), blocking=False)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
        target.mkdir(exist_ok=True)
    except Timeout:
        raise CheckpointError(
            f"{directory}: another process is training in this directory; wait until it ends, or choose "
            "another directory"
        ) from None
    except OSError as error:
        lock.release()
        raise CheckpointError(f"{directory}: cannot write to it: {error.strerror or error}") from None
    try:
        for path in target.rglob("*"):
            check_link(path, directory)
        for place in (target, *target.iterdir()):
            remove_leftovers(place)
        yield
    finally:
        # If nothing was written, the created directories are removed, and the lock file in any case.
        for remove in (
            *(path.rmdir for path in created if path == target),
            Path(lock.lock_file).unlink,
            *(path.rmdir for path in created if path != target),
        ):
            with suppress(OSError):
                remove()
        lock.release()


def check_replaceable(directory: Path, marker: str, content: str) -> None:
    """Check that writing a directory does not overwrite files of another kind.

    Args:
        directory: The directory to write.
        marker: Name of a file by which an earlier directory of the same kind is recognized.
        content: The kind of content, for the message.

    Raises:
        DataError: if the path is a file, or a directory that is not empty and does not contain `marker`.
    """
    try:
        foreign = (
            not (directory / marker).exists()
            and (directory.is_symlink() or directory.exists())
            and (not directory.is_dir() or not is_empty(directory))
        )
    except OSError as error:
        raise DataError(f"{directory}: cannot be read: {error.strerror or error}") from None
    if foreign:
        raise DataError(
            f"{directory}: already exists and does not contain {content}; choose another directory"
        )


@contextmanager
def atomic_directory(directory: Path, require_empty: bool = False) -> Iterator[Path]:
    """Yield an empty temporary directory that replaces `directory` when the block ends without an error.

    After an error, the temporary directory is removed and `directory` is unchanged. Otherwise the old
    directory is moved away, the new one gets its name, and the old one is removed. If the process is killed
    between the two renames, the next call gives the old directory its name back. Leftovers of a killed
    process are removed by the next call. Symbolic links are followed.

    Args:
        directory: The directory to create or replace.
        require_empty: If true, `directory` must not exist or must be empty when the block ends.

    Raises:
        OSError: if the directory cannot be created, filled or renamed, or exists although `require_empty` is
            true.
    """
    directory = _resolve_links(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with partial_directory(directory) as temporary:
        yield temporary
        for place, _, names in os.walk(temporary):
            for path in (*(Path(place, name) for name in names), Path(place)):
                sync(path)
        if os.path.lexists(directory):
            if require_empty:
                directory.rmdir()
            else:
                old = temporary.with_name("old")
                old.mkdir()
                # `partial_directory` undoes this rename if the next one fails.
                os.rename(directory, old / directory.name)
        os.rename(temporary, directory)
        sync(directory.parent)


def is_empty(directory: Path) -> bool:
    """Return whether a directory contains nothing except leftovers of killed processes."""
    return all(map(is_partial, directory.iterdir()))


def recipes_dir(name: str) -> Path:
    """Return a directory of recipes, from the installed package or else from the source tree.

    Raises:
        UsageError: if neither contains the directory.
    """
    package = Path(__file__).parents[1]
    for directory in (package / "recipes" / name, package.parents[1] / "recipes" / name):
        if directory.is_dir():
            return directory
    raise UsageError(f"recipes/{name} was found neither in the installed package nor in the source tree")
