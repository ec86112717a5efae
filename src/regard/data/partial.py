"""Partial folders: where a file or folder is made before a rename puts it in its place.

    .NAME.XXXXXXXX.partial/     beside NAME, the Xs drawn at random

The process that makes one holds a lock on it. A partial folder without a lock was left by a process that was
killed, whatever container or machine it ran on, and the next one to write NAME removes it.
"""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = [
    "LONGEST",
    "follow",
    "is_partial",
    "partial_folder",
    "remove_leftovers",
    "remove_leftovers_of",
    "stem_of",
]

LONGEST = 200
"""Bytes of a name that stand in its partial folder's name; of a longer one its checksum does."""
_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{8}\.partial", re.DOTALL)


@contextmanager
def partial_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside `target`, removed at the end with what is still in it.

    Args:
        target: What is to be made; its parent exists.

    Raises:
        OSError: if the folder cannot be made.
    """
    remove_leftovers(target.parent, stem_of(target))
    place, descriptor = _make(target)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(descriptor)


def follow(path: Path) -> Path:
    """Where a path leads, its links followed; the last part need not be there.

    Raises:
        OSError: if links lead round in a circle.
    """
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


def stem_of(target: Path) -> str:
    """The part of a partial folder's name that says what is made in it."""
    name = os.fsencode(target.name)
    return target.name if len(name) <= LONGEST else hashlib.sha256(name).hexdigest()


def remove_leftovers_of(target: Path) -> None:
    """Remove what killed processes left of a file or folder, and within it if it is a folder."""
    target = Path(os.path.realpath(target))
    remove_leftovers(target.parent, stem_of(target))
    remove_leftovers(target)


def is_partial(path: Path) -> bool:
    """Whether a path is named as partial folders are."""
    return _PARTIAL.fullmatch(path.name) is not None


def remove_leftovers(folder: Path, stem: str | None = None) -> None:
    """Remove the partial folders that killed processes left in a folder.

    Args:
        folder: Where to look; nothing happens if it cannot be read.
        stem: Only those of this target, as `stem_of` names it; none: all.
    """
    found: list[Path] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _PARTIAL.fullmatch(entry.name)
            if match and stem in (None, match[1]) and entry.is_dir(follow_symlinks=False):
                found.append(Path(entry.path))
    for path in found:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                # Fails where its maker lives, and where the file system has no locks: then nobody can tell.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)


def _make(target: Path) -> tuple[Path, int]:
    """A new partial folder and the descriptor that holds its lock."""
    while True:
        place = target.with_name(f".{stem_of(target)}.{secrets.token_hex(4)}.partial")
        os.mkdir(place)
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # another process took it for a leftover before it was locked
        # Shared, since network file systems grant no other lock on what is open for reading.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(place), os.fstat(descriptor)):
                return place, descriptor
        os.close(descriptor)
