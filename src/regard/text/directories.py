"""Atomic creation and replacement of directories, their lock files, and the location of the recipes.

A lock file allows only one process at a time to write into a model directory. The lock is an `flock` on the
file `.lock` of the directory, so the operating system releases it when the process ends for any reason. It is
acquired before anything is written: a process that does not get the lock changes nothing.
"""

import ctypes
import errno
import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.errors import CheckpointError, DataError, UsageError
from regard.text.files import (
    is_partial,
    partial_directory,
    remove_leftovers,
    resolve_links,
    stem_of,
    sync_directory,
    sync_file,
)
from regard.text.paths import check_name
from regard.text.reading import check_link

__all__ = [
    "LOCK_FILE",
    "atomic_directory",
    "check_replaceable",
    "directory_lock",
    "is_empty",
    "recipes_dir",
]

LOCK_FILE = ".lock"

_log = logging.getLogger(__name__)


@contextmanager
def directory_lock(directory: Path) -> Iterator[None]:
    """Lock a directory for this process during the block, and remove partial files of killed processes.

    Args:
        directory: The directory. It is created if it does not exist, and removed again if nothing was written
            into it.

    Raises:
        CheckpointError: if another process holds the lock, the directory cannot be created, or a link in it
            leads out of it: files would be read and written there.
        UsageError: if its name is not valid UTF-8.
    """
    check_name(directory)
    new_directories = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        descriptor = _lock(directory)
    except OSError as error:
        raise CheckpointError(f"{directory}: cannot write to it: {error.strerror or error}") from None
    try:
        with suppress(OSError):
            inner = (path for path in directory.iterdir() if path.is_dir() and not path.is_symlink())
            for place in (directory, *inner):
                remove_leftovers(place)
        _check_links(directory)
        yield
    finally:
        if new_directories:
            _remove_unused(directory, new_directories)
        os.close(descriptor)


def _check_links(directory: Path) -> None:
    try:
        for path in directory.rglob("*"):
            check_link(path, directory)
    except DataError as error:
        raise CheckpointError(str(error)) from None


def _lock(directory: Path) -> int:
    """Acquire the lock and return the file descriptor that holds it."""
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        # O_NOFOLLOW: a symbolic link could point to any file.
        try:
            descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except FileNotFoundError:
            continue  # another process created the directory and removed it unused
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise CheckpointError(
                f"{directory}: another process is training in this directory; wait until it ends, or choose "
                "another directory"
            ) from None
        except OSError:
            _log.warning("%s: this file system has no locks; run only one process per directory", directory)
        # The lock file may have been removed between open and flock: compare the inodes.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(directory / LOCK_FILE), os.fstat(descriptor)):
                return descriptor
        os.close(descriptor)


def _remove_unused(directory: Path, made: list[Path]) -> None:
    """Remove the created directories if they contain nothing except the lock file."""
    if [path.name for path in directory.iterdir()] == [LOCK_FILE]:
        with suppress(OSError):
            (directory / LOCK_FILE).unlink()
            for path in made:
                path.rmdir()


AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""Constants of the system call `renameat2`, from `fcntl.h` and `linux/fs.h`."""


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

    After an error, the temporary directory is removed and `directory` is unchanged. The old and the new
    directory are exchanged atomically, so that `directory` exists at all times. Leftovers of a killed process
    are removed by the next call. Symbolic links are followed. Open files of the old directory stay readable.

    Args:
        directory: The directory to create or replace.
        require_empty: If true, `directory` must not exist or must be empty when the block ends.

    Raises:
        OSError: if the directory cannot be created, filled or renamed, or exists although `require_empty` is
            true.
    """
    directory = resolve_links(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    _restore_backup(directory)
    with partial_directory(directory) as temporary:
        yield temporary
        for place, _, names in os.walk(temporary):
            for name in names:
                sync_file(Path(place, name))
            sync_directory(Path(place))
        _replace(temporary, directory, require_empty)
        sync_directory(directory.parent)


def is_empty(directory: Path) -> bool:
    """Return whether a directory contains nothing except a lock file and leftovers of killed processes."""
    return all(path.name == LOCK_FILE or is_partial(path) for path in directory.iterdir())


def _replace(new: Path, directory: Path, require_empty: bool) -> None:
    """Move `new` to `directory`; an old directory ends up at the path `new` or is removed."""
    try:
        os.rename(new, directory)  # also replaces an empty directory
        return
    except OSError as error:
        if require_empty or error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
    if _exchange(new, directory):
        return
    # Without renameat2, two renames are needed. `_restore_backup` repairs the state if killed in between.
    old = _backup_path(directory)
    os.rename(directory, old)
    try:
        os.rename(new, directory)
    except OSError:
        os.rename(old, directory)
        raise
    _remove(old)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two paths atomically; return False if the system or the file system does not support it."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(other))


def _backup_path(directory: Path) -> Path:
    """Return the backup path of the old directory while it is replaced without an atomic exchange."""
    return directory.with_name(f".{stem_of(directory)}.old")


def _restore_backup(directory: Path) -> None:
    """Restore or remove the backup of a process that was killed between its two renames."""
    old = _backup_path(directory)
    if not os.path.lexists(old):
        return
    if os.path.lexists(directory):
        _remove(old)
    else:
        os.rename(old, directory)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


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
