"""Folders: one written whole or not at all (made beside its place, then renamed into it), and the recipes."""

import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.data.files import sync_folder
from regard.errors import DataError, UsageError

__all__ = ["recipes_folder", "refuse_foreign", "whole_folder"]


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
            and (not folder.is_dir() or any(folder.iterdir()))
        )
    except OSError as error:
        raise DataError(f"{folder}: cannot be read: {error.strerror or error}") from None
    if foreign:
        raise DataError(f"{folder}: holds something else than {holds}; name another folder")


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of `folder` when the block ends well.

    After an error nothing of it is left, and what stood at `folder` stands there still. What a killed process
    left behind is removed by the next one. Files of the old folder that are open stay readable.

    Raises:
        OSError: if it cannot be made, filled or renamed.
    """
    folder = folder.absolute()
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder)
        temporary.mkdir()
        yield temporary
        for path in temporary.iterdir():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        sync_folder(temporary)
        _replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_leftovers(folder: Path) -> None:
    for path in folder.parent.glob(f".{glob.escape(folder.name)}.*.partial"):
        number = path.name.split(".")[-2]
        if number.isdecimal() and not _works(int(number)):
            shutil.rmtree(path, ignore_errors=True)


def _works(process: int) -> bool:
    """Whether another process may still be at work."""
    # In a container that starts anew, a killed process had the same number as this one.
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _replace(temporary: Path, folder: Path) -> None:
    old = folder.with_name(f".{folder.name}.old.{os.getpid()}.partial")
    if folder.exists():
        os.rename(folder, old)
    try:
        os.rename(temporary, folder)
    except OSError:
        if old.exists():
            os.rename(old, folder)
        raise
    sync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


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
