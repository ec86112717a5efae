"""Atomic creation and replacement of directories, and the location of the recipes."""

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.data.files import sync_file, sync_folder
from regard.data.locking import LOCK
from regard.data.partial import follow, is_partial, partial_folder, stem_of
from regard.errors import DataError, UsageError

__all__ = ["is_empty", "recipes_folder", "refuse_foreign", "whole_folder"]

AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""Constants of the system call `renameat2`, from `fcntl.h` and `linux/fs.h`."""


def refuse_foreign(folder: Path, mark: str, holds: str) -> None:
    """Check that writing a directory does not overwrite files of another kind.

    Args:
        folder: The directory to write.
        mark: Name of a file by which an earlier directory of the same kind is recognized.
        holds: The kind of content, for the message.

    Raises:
        DataError: if the path is a file, or a directory that is not empty and does not contain `mark`.
    """
    try:
        foreign = (
            not (folder / mark).exists()
            and (folder.is_symlink() or folder.exists())
            and (not folder.is_dir() or not is_empty(folder))
        )
    except OSError as error:
        raise DataError(f"{folder}: cannot be read: {error.strerror or error}") from None
    if foreign:
        raise DataError(f"{folder}: already exists and does not contain {holds}; choose another directory")


@contextmanager
def whole_folder(folder: Path, fresh: bool = False) -> Iterator[Path]:
    """Yield an empty temporary directory that replaces `folder` when the block ends without an error.

    After an error, the temporary directory is removed and `folder` is unchanged. The old and the new
    directory are exchanged atomically, so that `folder` exists at all times. Leftovers of a killed process
    are removed by the next call. Symbolic links are followed. Open files of the old directory stay readable.

    Args:
        folder: The directory to create or replace.
        fresh: If true, `folder` must not exist or must be empty when the block ends.

    Raises:
        OSError: if the directory cannot be created, filled or renamed, or exists although `fresh` is true.
    """
    folder = follow(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _put_back(folder)
    with partial_folder(folder) as made:
        yield made
        for place, _, names in os.walk(made):
            for name in names:
                sync_file(Path(place, name))
            sync_folder(Path(place))
        _replace(made, folder, fresh)
        sync_folder(folder.parent)


def is_empty(folder: Path) -> bool:
    """Return whether a directory contains nothing except a lock file and leftovers of killed processes."""
    return all(path.name == LOCK or is_partial(path) for path in folder.iterdir())


def _replace(made: Path, folder: Path, fresh: bool) -> None:
    """Move the directory `made` to `folder`; an old `folder` ends up at the path `made` or is removed."""
    try:
        os.rename(made, folder)  # also replaces an empty directory
        return
    except OSError as error:
        if fresh or error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
    if _exchange(made, folder):
        return
    # Without renameat2, two renames are needed. `_put_back` repairs the state if killed in between.
    old = _old(folder)
    os.rename(folder, old)
    try:
        os.rename(made, folder)
    except OSError:
        os.rename(old, folder)
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


def _old(folder: Path) -> Path:
    """Return the backup path of the old directory while it is replaced without an atomic exchange."""
    return folder.with_name(f".{stem_of(folder)}.old")


def _put_back(folder: Path) -> None:
    """Restore or remove the backup of a process that was killed between its two renames."""
    old = _old(folder)
    if not os.path.lexists(old):
        return
    if os.path.lexists(folder):
        _remove(old)
    else:
        os.rename(old, folder)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def recipes_folder(name: str) -> Path:
    """Return a directory of recipes, from the installed package or else from the source tree.

    Raises:
        UsageError: if neither contains the directory.
    """
    package = Path(__file__).parents[1]
    for folder in (package / "recipes" / name, package.parents[1] / "recipes" / name):
        if folder.is_dir():
            return folder
    raise UsageError(f"recipes/{name} was found neither in the installed package nor in the source tree")
