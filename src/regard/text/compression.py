"""Compressed files: gzip, bzip2, xz and zstd (Zstandard).

An output is compressed if its name has the suffix of a format. An input is decompressed if it starts as files
of a format do; its name need not have the suffix.
"""

import bz2
import codecs
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = [
    "READ_ERRORS",
    "SUFFIXES",
    "compress",
    "decompress",
    "format_of",
    "is_compressed",
    "is_decompressed",
    "read_failure",
    "remove_suffix",
]

READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError)
"""The errors of reading a file that `decompress` returned; see `read_failure`."""


class _GzipFile(gzip.GzipFile):
    """A gzip file with the arguments of the other formats."""

    def __init__(self, file: Any, mode: Any) -> None:
        # Without name and time in the header, equal content gives equal bytes.
        super().__init__("", mode, compresslevel=6, fileobj=file, mtime=0)


class _ZstdFile(zstd.ZstdFile):
    """A zstd file with a checksum, as the program `zstd` writes it."""

    def __init__(self, file: Any, mode: Any) -> None:
        super().__init__(
            file, mode, options={zstd.CompressionParameter.checksum_flag: 1} if mode == "wb" else None
        )


_FORMATS = {".gz": _GzipFile, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile, ".zst": _ZstdFile}
# The formats are named like their programs.
_NAMES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
# Text may start with "BZh9", so the magic number of a block or of the end must follow, or the end of a
# truncated file. The second pattern of zstd is that of a skippable frame, with which files of `pzstd` start.
_STARTS = {
    ".gz": re.compile(rb"\x1f\x8b"),
    ".bz2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90|.{0,5}\Z)", re.DOTALL),
    ".xz": re.compile(rb"\xfd7z"),
    ".zst": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
}
_START_BYTES = 10


SUFFIXES = tuple(_FORMATS)
"""The suffixes of the names of compressed files."""


def _find_format(start: bytes) -> str | None:
    """Return the suffix of the format of a file that starts with these bytes."""
    return next((suffix for suffix, pattern in _STARTS.items() if pattern.match(start)), None)


def is_compressed(start: bytes) -> bool:
    """Return whether the first bytes of a file are those of a compressed file."""
    return _find_format(start) is not None


def format_of(name: str) -> str | None:
    """Return the format of the suffix of a file name: `gzip` for `train.de.gz`. None without one."""
    return _NAMES.get(Path(name).suffix)


def remove_suffix(name: str) -> str:
    """Return a file name without the suffix of a format: `train.de` for `train.de.gz`."""
    return name if format_of(name) is None else name.removesuffix(Path(name).suffix)


@contextmanager
def compress(file: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    """Yield a file whose content is written to `file`, compressed in the format of the suffix of `path`."""
    if path.suffix not in _FORMATS:
        yield file
        return
    with _FORMATS[path.suffix](file, "wb") as compressed:
        yield cast(BinaryIO, compressed)


def decompress(file: IO[bytes], name: str) -> IO[bytes]:
    """Return a file with the decompressed content of a file, or the file itself if it is not compressed.

    The content is decompressed while it is read, so that a small file cannot exhaust the memory. Reading
    raises one of `READ_ERRORS`.

    Args:
        file: The file.
        name: Its name, which gives the format if the file is neither text nor starts as a compressed file
            does: the file is damaged.
    """
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(Any, file))
    start = buffered.peek(_START_BYTES)
    suffix = _find_format(start)
    if suffix is None and Path(name).suffix in _FORMATS and not _is_text(start):
        suffix = Path(name).suffix
    return buffered if suffix is None else cast(IO[bytes], _FORMATS[suffix](buffered, "rb"))


def _is_text(start: bytes) -> bool:
    """Return whether the first bytes of a file are UTF-8, possibly with an incomplete last character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return True


def is_decompressed(file: IO[bytes]) -> bool:
    """Return whether a file that `decompress` returned has decompressed content."""
    return isinstance(file, tuple(_FORMATS.values()))


def read_failure(error: Exception, file: IO[bytes]) -> str:
    """Return the reason of one of `READ_ERRORS`: that of the system, or the damage of a compressed file."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    names = [_NAMES[suffix] for suffix, kind in _FORMATS.items() if isinstance(file, kind)]
    return "".join(f"damaged {name} file: " for name in names) + str(error)
