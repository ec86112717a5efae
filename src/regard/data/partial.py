"""Temporary directories in which a file or directory is created before it is renamed to its final name.

    .NAME.XXXXXXXX.partial/     in the same directory as NAME, with a random hexadecimal XXXXXXXX

The process that creates one holds a lock on it. A partial directory without a lock was left by a killed
process, on this machine or another one. The next process that writes NAME removes it.
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
    "MAX_NAME_BYTES",
    "is_partial",
    "partial_directory",
    "remove_all_leftovers",
    "remove_leftovers",
    "resolve_links",
    "stem_of",
]

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
    found: list[Path] = []
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            match = _PARTIAL.fullmatch(entry.name)
            if match and stem in (None, match[1]) and entry.is_dir(follow_symlinks=False):
                found.append(Path(entry.path))
    for path in found:
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
