"""Folders: one written whole or not at all (made beside its place, then renamed into it), and the recipes."""

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
"""From `fcntl.h` and `linux/fs.h`."""


def refuse_foreign(folder: Path, mark: str, holds: str) -> None:
    """See that a folder may be written in the place of what stands there.

    Args:
        folder: The folder to write.
        mark: A file that an earlier one of its kind has.
        holds: What the folder will hold, for the message.

    Raises:
        DataError: if something else stands there: a file, or a folder that is not empty and lacks the mark.
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
        raise DataError(f"{folder}: holds something else than {holds}; name another folder")


@contextmanager
def whole_folder(folder: Path, fresh: bool = False) -> Iterator[Path]:
    """Yield an empty folder that takes the place of `folder` when the block ends well.

    After an error nothing of it is left, and what stood at `folder` stands there still. Old and new are
    exchanged at once: at no moment is there neither. What a killed process left behind is removed by the next
    one. A link is followed. Files of the old folder that are open stay readable.

    Args:
        folder: The folder.
        fresh: Whether nothing but an empty folder may stand there by the end.

    Raises:
        OSError: if it cannot be made, filled or renamed, or stands there and should not.
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
    """Whether a folder holds nothing but a lock and what killed processes left."""
    return all(path.name == LOCK or is_partial(path) for path in folder.iterdir())


def _replace(made: Path, folder: Path, fresh: bool) -> None:
    """Rename a folder over another; the old one stands in its place then."""
    try:
        os.rename(made, folder)  # takes the place of an empty folder, too
        return
    except OSError as error:
        if fresh or error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
    if _exchange(made, folder):
        return
    old = _old(folder)
    os.rename(folder, old)
    try:
        os.rename(made, folder)
    except OSError:
        os.rename(old, folder)
        raise
    _remove(old)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two paths at once; whether the system and the file system can."""
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
    """Where the old folder is while the new one takes its place, if the two cannot be exchanged."""
    return folder.with_name(f".{stem_of(folder)}.old")


def _put_back(folder: Path) -> None:
    """Mend what a process left that was killed between the two renames."""
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
    """A folder of recipes: in the package where it is installed, else in the source tree.

    Raises:
        UsageError: if it is in neither.
    """
    package = Path(__file__).parents[1]
    for folder in (package / "recipes" / name, package.parents[1] / "recipes" / name):
        if folder.is_dir():
            return folder
    raise UsageError(f"recipes/{name} is neither in the installed package nor beside its source")
