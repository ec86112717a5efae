"""Checks of paths: overwritten inputs, links out of a directory, and names that are not valid UTF-8.

A file name on Linux is a sequence of bytes. Python represents a byte that is not valid UTF-8 by a lone
surrogate, from U+DC80 to U+DCFF, which no text file, JSON or TOML can contain (PEP 383).
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from regard.errors import DataError, UsageError

SURROGATE = re.compile("[\udc80-\udcff]")
_RESULT = re.compile(
    r"(?!vocab\.|merges\.).+\.(html|svg|pdf|png|tsv|txt|(?!gz|xz|pt|py|md)[a-z]{2})(\.(gz|bz2|xz|zst))?"
)
_UNREADABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\udc80-\udcff]")


def check_outputs(
    inputs: Iterable[Path | str], files: Iterable[Path | str] = (), directories: Iterable[Path | str] = ()
) -> None:
    """Check that no output overwrites an input or another output; devices and pipes may occur several times.

    Two paths are the same if they lead to the same file, also through links. The files of a directory that is
    an input are inputs, too, except pages, pictures and text that an earlier command wrote there.

    Args:
        inputs: The files and directories that are read.
        files: The files that are written.
        directories: The directories that are written or replaced as a whole.

    Raises:
        UsageError: if an output does; names both paths.
    """
    directories = list(directories)
    outputs = [path for path in (*files, *directories) if not is_special_file(path)]
    named = [("input", path) for path in inputs] + [("output", path) for path in outputs]
    for number, output in enumerate(outputs):
        for kind, path in named[: len(named) - len(outputs) + number]:
            if _is_same(output, path) or (
                kind == "input"
                and os.path.isfile(output)
                and _contains(path, output)
                # Pages, pictures and texts have other names than the parts of a model.
                and not _RESULT.fullmatch(os.path.basename(output))
            ):
                raise _overwrite_error(output, kind, path)
    for directory in directories:
        for kind, path in named:
            if _contains(directory, path):
                raise _overwrite_error(directory, kind, path)


def _overwrite_error(output: Path | str, kind: str, path: Path | str) -> UsageError:
    return UsageError(f"{output}: the output would overwrite the {kind} {path}; choose another output")


def _is_same(first: Path | str, second: Path | str) -> bool:
    """Return whether two paths lead to the same file, which need not exist."""
    try:
        # Detects hard links, and names that differ in case on some file systems.
        return os.path.samefile(first, second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)


def _contains(directory: Path | str, path: Path | str) -> bool:
    """Return whether a path leads into a directory."""
    return Path(os.path.realpath(directory)) in Path(os.path.realpath(path)).parents


def is_special_file(path: Path | str) -> bool:
    """Return whether a path exists and is neither a file nor a directory (a device, named pipe or socket)."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def readable(text: str) -> str:
    r"""Return a text for people, in which control characters and invalid bytes of names are shown as `\xe9`.

    Tabs and line feeds are kept.
    """
    return _UNREADABLE.sub(lambda match: rf"\x{ord(match[0]) & 0xFF:02x}", text)


def check_name(path: Path | str) -> None:
    """Check that a path is valid UTF-8, as configurations and the libraries of weight files need.

    Raises:
        UsageError: if it is not.
    """
    if SURROGATE.search(str(path)):
        raise UsageError(f"{path}: the name is not valid UTF-8; rename the file or directory")


def _cached_repository(path: Path) -> Path | None:
    """Return the `models--ORGANIZATION--NAME` of the cache of Hugging Face whose snapshot contains a path."""
    places = (place.parents[1] for place in (path, *path.parents) if place.parent.name == "snapshots")
    return next((place for place in places if place.name.startswith("models--")), None)


def shown_path(path: Path) -> Path:
    """Return a path, or `ORGANIZATION/NAME` of a model in the cache of Hugging Face, for display."""
    repository = _cached_repository(path)
    return path if repository is None else Path(*repository.name.split("--")[1:])


def check_link(path: Path, directory: Path) -> Path:
    """Return a path in a directory after checking that it is not a symbolic link out of it.

    In the cache of Hugging Face, a file of the directory `models--NAME/snapshots/REVISION` is a link to
    `models--NAME/blobs/CHECKSUM`, which is allowed. A missing path is not an error here.

    Raises:
        DataError: if it is: a downloaded directory could contain a link to private files of the user.
    """
    try:
        target, inside = path.resolve(), directory.resolve()
        repository = _cached_repository(inside)
        cached = repository is not None and target.parent == repository / "blobs"
        outside = path.is_symlink() and not cached and not target.is_relative_to(inside)
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if outside:
        kind = "directory" if path.is_dir() else "file"
        raise DataError(
            f"{path}: a symbolic link to a {kind} outside {directory}; such links are not followed, copy the "
            f"{kind} into the directory"
        )
    return path
