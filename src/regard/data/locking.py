"""The lock of a model folder: one process at a time writes into it.

The lock is on the file `.lock` of the folder and ends with the process that holds it, however that ends. It
is taken before anything is written, so that a process that is refused has changed nothing.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.data.partial import remove_leftovers
from regard.errors import CheckpointError

__all__ = ["LOCK", "claimed"]

LOCK = ".lock"

_log = logging.getLogger(__name__)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Make a folder this process's meanwhile, and clear away what a killed one left half-written.

    Args:
        folder: Made where it is absent, and removed again if nothing was written into it.

    Raises:
        CheckpointError: if another process writes into it, or it cannot be made.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        descriptor = _lock(folder)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be written into: {error.strerror or error}") from None
    try:
        with suppress(OSError):
            for place in (folder, *(path for path in folder.iterdir() if path.is_dir())):
                remove_leftovers(place)
        yield
    finally:
        if made:
            _remove_unused(folder, made)
        os.close(descriptor)


def _lock(folder: Path) -> int:
    """The descriptor that holds the lock."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        # A link is not followed: it could lead to any file.
        try:
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except FileNotFoundError:
            continue  # who made the folder removed it, unused
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise CheckpointError(
                f"{folder}: another process is training in it; wait until it ends, or give another folder"
            ) from None
        except OSError:
            _log.warning("%s: no locks on this file system; write into it one process at a time", folder)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(folder / LOCK), os.fstat(descriptor)):
                return descriptor
        os.close(descriptor)


def _remove_unused(folder: Path, made: list[Path]) -> None:
    """Remove the folders that were made if the lock is all that was written."""
    if [path.name for path in folder.iterdir()] == [LOCK]:
        with suppress(OSError):
            (folder / LOCK).unlink()
            for path in made:
                path.rmdir()
