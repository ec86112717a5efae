"""What a directory vouches for: the files that its description names, each with its SHA-256.

A model directory, an aligner, a phrase table, an exported model: each has one description, written last,
that holds the names and checksums of the files beside it. A name in it is the plain name of a regular file
within the directory. So a description that was made to harm reads nothing but the directory's own files.

A checksum tells damage, and files that were put together from two places. It does not tell who wrote the
directory: who can change a file can change its checksum.
"""

import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from regard.data.files import file_digest
from regard.errors import DataError

__all__ = ["Digests", "check_seal", "own_file", "seal"]

Digests = dict[str, str]
"""The SHA-256 of files by their plain names."""


def own_file(folder: Path, name: str, where: str | Path | None = None) -> Path:
    """Return the path of a file that lies in a directory, which a description may have named.

    Args:
        folder: The directory.
        name: The file's name.
        where: The description, for messages; none: the name is the program's own.

    Raises:
        DataError: if it is no plain name, or there is something else than a regular file within the
            directory; a file that is absent is no error here.
    """
    if name in ("", ".", "..") or any(mark in name for mark in "/\\\0"):
        raise DataError(f"{where or folder}: names {name!r}, expected the plain name of a file beside it")
    path = folder / name
    try:
        if path.is_symlink() and not _within(path.resolve(), folder.resolve()):
            raise DataError(f"{path}: a link out of {folder}, which is not followed; put the file there")
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISREG(mode):
        raise DataError(f"{path}: not a regular file")
    return path


def _within(path: Path, folder: Path) -> bool:
    """Whether a path lies in a directory; or in the store of contents of Hugging Face's download cache.

    There `models--NAME/snapshots/REVISION/FILE` is a link to `models--NAME/blobs/CHECKSUM`.
    """
    blobs = folder.parent.parent / "blobs"
    cached = folder.parent.name == "snapshots" and path.parent == blobs
    return path.is_relative_to(folder) or cached


def seal(folder: Path, names: Iterable[str]) -> Digests:
    """Return what a description says of the files beside it.

    Raises:
        DataError: if one cannot be read.
    """
    return {name: file_digest(own_file(folder, name)) for name in names}


def check_seal(folder: Path, digests: Mapping[str, str], needed: Iterable[str], description: str) -> None:
    """Compare files with what the description beside them says.

    Args:
        folder: The directory.
        digests: What the description says.
        needed: The files that are going to be read: it has to vouch for each.
        description: Its name, for messages.

    Raises:
        DataError: if a file is missing, truncated, altered, not vouched for, or not one of the directory's
            own regular files; names it.
    """
    for name in sorted(needed):
        if name not in digests:
            raise DataError(f"{folder / description}: has no checksum of {name}, which lies beside it")
    for name, digest in digests.items():
        if file_digest(own_file(folder, name, folder / description)) != digest:
            raise DataError(
                f"{folder / name}: truncated or altered: its checksum is not the one in {description}"
            )
