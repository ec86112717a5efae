"""Directories that the first process of the suite builds for all processes."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def shared_directory(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """Return a directory that `build` makes, which gets a path that does not exist."""
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    directory = shared / name
    with FileLock(shared / f"{name}.lock"):
        if not directory.is_dir():
            partial = shared / f"{name}.partial"
            build(partial)
            partial.rename(directory)
    return directory
