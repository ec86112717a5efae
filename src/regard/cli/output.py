"""Where a command writes its results: standard output, or a file that appears whole or not at all."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from regard.errors import DataError

__all__ = ["open_output"]


@contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """A stream of text in UTF-8.

    Args:
        path: The file, written to a temporary neighbour and renamed at the end; none for standard output.

    Raises:
        DataError: if the file cannot be written (no such folder, no permission, disk full).
    """
    if path is None:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
        yield sys.stdout
        sys.stdout.flush()
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        # An error of another file, raised while this one was open, is not this one's.
        if error.filename not in (None, str(path), str(temporary)):
            raise
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)
