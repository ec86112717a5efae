"""Atomic creation and replacement of directories, their locks, and the location of the recipes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from regard.errors import CheckpointError, DataError, UsageError
from regard.text.files import is_partial, partial_directory, remove_leftovers, resolve_links, stem_of, sync
from regard.text.paths import check_name
from regard.text.reading import check_link

__all__ = ["atomic_directory", "check_replaceable", "directory_lock", "is_empty", "recipes_dir"]


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
    lock = FileLock(target.with_name(f".{stem_of(target)}.lock"), blocking=False)
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
    directory = resolve_links(directory)
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
