"""Compressed files: gzip, bzip2, xz and zstd (Zstandard).

An output is compressed if its name has the suffix of a format. An input is decompressed if it starts as files
of a format do; its name need not have the suffix.
"""

import bz2
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError)
"""The errors of reading a file that `decompress` returned; see `read_failure`."""


_ZSTD_OPTIONS: dict[str, Any] = {"wb": {zstd.CompressionParameter.checksum_flag: 1}}

# A function that opens a file, and a pattern of the first bytes. Without name and time in the header of gzip,
# equal content gives equal bytes. Files of zstd have a checksum, as the program `zstd` writes it. Text may
# start with "BZh9", so the magic number of a block or of the end must follow. The second pattern of zstd is
# that of a skippable frame, with which files of `pzstd` start.
_FORMATS: dict[str, tuple[Callable[[Any, Any], Any], re.Pattern[bytes]]] = {
    ".gz": (lambda file, mode: gzip.GzipFile("", mode, 6, file, mtime=0), re.compile(rb"\x1f\x8b")),
    ".bz2": (bz2.BZ2File, re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")),
    ".xz": (lzma.LZMAFile, re.compile(rb"\xfd7z")),
    ".zst": (
        lambda file, mode: zstd.ZstdFile(file, mode, options=_ZSTD_OPTIONS.get(mode)),
        re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
    ),
}
_START_BYTES = 10

SUFFIXES = tuple(_FORMATS)
"""The suffixes of the names of compressed files."""


def remove_suffix(name: str) -> str:
    """Return a file name without the suffix of a format: `train.de` for `train.de.gz`."""
    return name.removesuffix(Path(name).suffix) if Path(name).suffix in SUFFIXES else name


@contextmanager
def compress(file: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    """Yield a file whose content is written to `file`, compressed in the format of the suffix of `path`."""
    if path.suffix not in SUFFIXES:
        yield file
        return
    with _FORMATS[path.suffix][0](file, "wb") as compressed:
        yield cast(BinaryIO, compressed)


def decompress(file: IO[bytes]) -> IO[bytes]:
    """Return a file with the decompressed content of a file, or the file itself if it is not compressed.

    The content is decompressed while it is read, so that a small file cannot exhaust the memory. Reading
    raises one of `READ_ERRORS`.
    """
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(Any, file))
    start = buffered.peek(_START_BYTES)
    for open_compressed, pattern in _FORMATS.values():
        if pattern.match(start):
            return cast(IO[bytes], open_compressed(buffered, "rb"))
    return buffered


def read_failure(error: Exception) -> str:
    """Return the reason of one of `READ_ERRORS`: that of the system, or the damage of a compressed file."""
    return error.strerror if isinstance(error, OSError) and error.strerror else f"damaged file: {error}"
