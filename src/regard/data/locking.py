"""A lock file that allows only one process at a time to write into a model directory.

The lock is an `flock` on the file `.lock` of the directory, so the operating system releases it when the
process ends for any reason. It is acquired before anything is written: a process that does not get the lock
changes nothing.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.data.partial import remove_leftovers
from regard.errors import CheckpointError

__all__ = ["LOCK_FILE", "directory_lock"]

LOCK_FILE = ".lock"

_log = logging.getLogger(__name__)


@contextmanager
def directory_lock(directory: Path) -> Iterator[None]:
    """Lock a directory for this process during the block, and remove partial files of killed processes.

    Args:
        directory: The directory. It is created if it does not exist, and removed again if nothing was written
            into it.

    Raises:
        CheckpointError: if another process holds the lock, or the directory cannot be created.
    """
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        descriptor = _lock(directory)
    except OSError as error:
        raise CheckpointError(f"{directory}: cannot write to it: {error.strerror or error}") from None
    try:
        with suppress(OSError):
            for place in (directory, *(path for path in directory.iterdir() if path.is_dir())):
                remove_leftovers(place)
        yield
    finally:
        if made:
            _remove_unused(directory, made)
        os.close(descriptor)


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
