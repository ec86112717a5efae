"""Integrity checks of a directory: a description file lists its files with their SHA-256 checksums.

A model directory, a word aligner, a phrase table and an exported model each have one description, which is
written last and contains the names and checksums of the other files. Each name must be the plain name of a
regular file in the directory. A malicious description therefore cannot make the program read files outside
the directory.

The checksums detect damaged files and files mixed from different directories. They do not authenticate the
author: a person who can change a file can also change its checksum.
"""

import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from regard.data.files import file_digest
from regard.errors import DataError

__all__ = ["Checksums", "checked_file", "compute_checksums", "verify_checksums"]

Checksums = dict[str, str]
"""SHA-256 checksums by plain file name."""


def checked_file(directory: Path, name: str, where: str | Path | None = None) -> Path:
    """Return the path of a file in a directory after checking that it is a regular file of the directory.

    Args:
        directory: The directory.
        name: The file name, possibly from an untrusted description.
        where: The description that contains the name, for messages. None for names set by the program.

    Raises:
        DataError: if the name is not a plain file name, or the path is not a regular file within the
            directory. A missing file is not an error here.
    """
    if name in ("", ".", "..") or any(mark in name for mark in "/\\\0"):
        raise DataError(
            f"{where or directory}: contains the file name {name!r}; expected the plain name of a file in "
            "the same directory"
        )
    path = directory / name
    try:
        if path.is_symlink() and not _within(path.resolve(), directory.resolve()):
            raise DataError(
                f"{path}: a symbolic link to a file outside {directory}; such links are not followed, copy "
                "the file into the directory"
            )
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return path  # reading it will raise an error with the reason
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISREG(mode):
        raise DataError(f"{path}: not a regular file")
    return path


def _within(path: Path, directory: Path) -> bool:
    """Return whether a path is in a directory, or in the blob store of the Hugging Face cache next to it.

    In that cache, `models--NAME/snapshots/REVISION/FILE` is a link to `models--NAME/blobs/CHECKSUM`.
    """
    blobs = directory.parent.parent / "blobs"
    cached = directory.parent.name == "snapshots" and path.parent == blobs
    return path.is_relative_to(directory) or cached


def compute_checksums(directory: Path, names: Iterable[str]) -> Checksums:
    """Return the checksums of files of a directory, to be stored in its description.

    Raises:
        DataError: if a file cannot be read.
    """
    return {name: file_digest(checked_file(directory, name)) for name in names}


def verify_checksums(
    directory: Path, checksums: Mapping[str, str], required: Iterable[str], description: str
) -> None:
    """Compare files with the checksums in the description of their directory.

    Args:
        directory: The directory.
        checksums: The checksums in the description.
        required: Names of the files that will be read. Each must have a checksum.
        description: File name of the description, for messages.

    Raises:
        DataError: if a file is missing, truncated, altered, without a checksum, or not a regular file of
            the directory. The message names the file.
    """
    for name in sorted(required):
        if name not in checksums:
            raise DataError(f"{directory / description}: has no checksum for {name} in the same directory")
    for name, digest in checksums.items():
        if file_digest(checked_file(directory, name, directory / description)) != digest:
            raise DataError(
                f"{directory / name}: truncated or altered: its checksum differs from the one in "
                f"{description}"
            )
