"""Reading of parallel text: two files with one sentence per line, or one file with both sides.

Files may be compressed. Lines end with a line feed only, not with Unicode line separators, so that line
numbers agree with other tools. Windows line endings and a byte order mark are accepted. A line of more than
1 MiB is replaced by an empty line, with a warning. Control characters (C0 except the tab, DEL, C1) are
replaced by spaces, since removing them would join words and keeping them would add them to the vocabulary;
their number is logged.
"""

import logging
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from regard.config import configclass, option
from regard.errors import DataError
from regard.text.compression import READ_ERRORS, decompress, read_failure
from regard.text.formats.base import FileContent, FileOptions, Segment, find_format
from regard.text.reading import open_regular_file
from regard.text.words import CONTROL_CHARACTERS, split_whitespace

_log = logging.getLogger(__name__)
MAX_LINE_BYTES = 1 << 20
"""Maximum length of a line in bytes: 1 MiB. A small compressed file could contain a line of gigabytes."""
_BOM = b"\xef\xbb\xbf"
_MARKUP = re.compile(r'(msgid "[^"]*"$)|<(?:\?xml|xliff|tmx)\s')
_NUM_CHECKED_LINES = 30  # a catalog may begin with comments


@configclass
class CorpusConfig(FileOptions):
    """A parallel corpus: two plain files, or one file with both sides.

    Relative paths start at the current directory. Compressed files (gzip, bzip2, xz, zstd) are
    recognized by their first bytes, not by their names.
    """

    source: str | None = option(
        default=None,
        help="File of source sentences, one per line, plain or compressed. Relative paths start at the "
        "current directory.",
    )
    target: str | None = option(
        default=None, help="File of target sentences, parallel to `source`, plain or compressed."
    )
    file: str | None = option(
        default=None,
        help="File with both sides, plain or compressed, instead of `source` and `target`: TSV, CSV, JSONL, "
        "PO, XLIFF or TMX.",
    )
    sampling_weight: float = option(
        default=1.0,
        help="Number of times that each pair is used per epoch. 2.0 uses each pair twice, 0.5 uses a random "
        "half of the pairs, 1.5 each pair once and such a half again. The half is chosen anew in each "
        "epoch.",
        gt=0,
        le=1e4,
    )
    source_prefix: str | None = option(
        default=None,
        help="Token prepended to each source sentence after tokenization, such as `<bt>`. Translation does "
        "not add it, but keeps it as one token at the start of a line. Default: none.",
    )

    def __post_init__(self) -> None:
        """Check that the corpus is either two files or one file with both sides."""
        super().__post_init__()
        if (self.file is None) == (self.source is None) or (self.source is None) != (self.target is None):
            raise ValueError("a corpus needs either `source` and `target`, or `file`")
        if self.file is None and (self.format or self.columns or self.fields or self.languages):
            raise ValueError("`format`, `columns`, `fields` and `languages` need `file`")
        if self.source_prefix is not None and (
            not self.source_prefix or split_whitespace(self.source_prefix) != [self.source_prefix]
        ):
            raise ValueError("`source_prefix` must be one word without spaces")


def corpus_name(corpus: CorpusConfig) -> str:
    """Return the files of a corpus, for messages."""
    return corpus.file if corpus.file is not None else f"{corpus.source} and {corpus.target}"


def clean_line(text: str) -> tuple[str, int]:
    """Return a line without its ending and with spaces for control characters, and their number."""
    return CONTROL_CHARACTERS.subn(" ", text.removesuffix("\n").removesuffix("\r"))


def _decode_line(raw: bytes, name: str, number: int) -> str:
    """Decode line `number` of a file, counted from 1, whose name is for the message; see `decode_lines`."""
    mark = len(_BOM) if number == 1 and raw.startswith(_BOM) else 0
    try:
        return raw[mark:].decode()
    except UnicodeDecodeError as error:
        byte = error.start + mark
        raise DataError(
            f"{name}: line {number}, byte {byte + 1}: not UTF-8 (0x{raw[byte]:02x}); convert it to UTF-8"
        ) from None


def read_lines(path: Path | str) -> Iterator[str]:
    """Yield the lines of a text file, plain or compressed, or of standard input (`-`), without line endings.

    Raises:
        DataError: if the file is missing, not a regular file, empty, damaged or not UTF-8. The message gives
            file, line and byte.
    """
    empty = True
    with _open_input(path) as (file, name):
        for line in decode_lines(file, name):
            empty = False
            yield line
    if empty:
        raise DataError(f"{name}: the file is empty")


@contextmanager
def _open_input(path: Path | str) -> Iterator[tuple[IO[bytes], str]]:
    """Open a regular file, or standard input for `-`; also yield its name for messages."""
    if str(path) == "-":
        yield sys.stdin.buffer, "standard input"
    else:
        with open_regular_file(path) as file:
            yield file, str(path)


def decode_lines(file: IO[bytes], name: str) -> Iterator[str]:
    """Yield the lines of an open binary file without line endings; the file may be empty.

    A line that is too long is replaced by an empty line, so that later lines keep their numbers, and a
    warning is logged. This limits the memory.

    Args:
        file: The file.
        name: The file name, for messages.

    Raises:
        DataError: if the file cannot be read, is damaged or not UTF-8. The message gives file, line and byte.
    """
    number = replaced = 0
    try:
        for number, (raw, size) in enumerate(_read_limited_lines(decompress(file)), 1):
            if size > len(raw):  # the line was too long, so that its content was not kept
                _log.warning(
                    "%s: line %d has %d bytes, more than the maximum of %d: replaced by an empty line",
                    name,
                    number,
                    size,
                    MAX_LINE_BYTES,
                )
                yield ""
                continue
            line, count = clean_line(_decode_line(raw, name, number))
            replaced += count
            yield line
    except READ_ERRORS as error:
        raise DataError(f"{name}: {read_failure(error)} (after line {number})") from None
    if replaced:
        _log.warning("%s: %d control characters replaced by spaces", name, replaced)


def _read_limited_lines(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield the content and the size of each line; the content of a line that is too long is empty."""
    while raw := file.readline(MAX_LINE_BYTES + 1):
        size = len(raw)
        if size <= MAX_LINE_BYTES:
            yield raw, size
            continue
        # Skip the rest of the line without keeping it in memory.
        while raw and not raw.endswith(b"\n"):
            raw = file.readline(MAX_LINE_BYTES)
            size += len(raw)
        yield b"", size


def read_pairs(corpus: CorpusConfig) -> Iterator[tuple[str, str]]:
    """Yield the sentence pairs of a corpus in order; see `read_segments`, which reports skipped units."""
    for segment in read_segments(corpus, logging.DEBUG):
        yield segment.source, segment.target


def read_segments(corpus: CorpusConfig, log_level: int = logging.WARNING) -> Iterator[Segment]:
    """Yield the segments of a corpus in order; the source prefix of the corpus is not added.

    Args:
        corpus: The corpus.
        log_level: Level of the message about skipped units. Training reads a corpus several times.

    Raises:
        DataError: as in `read_lines`; also if two files have different numbers of lines, or a file is not of
            its format, or contains no pair.
        UsageError: if the format of a file is unknown.
    """
    if corpus.file is not None:
        yield from read_file(corpus.file, corpus, log_level)
        return
    assert corpus.source is not None and corpus.target is not None
    sides = read_plain_lines(corpus.source), read_plain_lines(corpus.target)
    yield from pair_lines(*sides, names=(corpus.source, corpus.target))


def read_file(path: Path | str, options: FileOptions, log_level: int = logging.WARNING) -> Iterator[Segment]:
    """Yield the segments of a file with both sides, and log the number of skipped units.

    Args:
        path: The file, plain or compressed; `-` for standard input.
        options: The format and the parts of the file. Default: the format of the suffix.
        log_level: Level of the message about skipped units.

    Raises:
        DataError: if the file cannot be read, is not of this format or contains no pair.
        UsageError: if the format is unknown.
    """
    file_format, skipped, count = find_format(path, options), Counter[str](), 0
    with _open_input(path) as (file, name):
        try:
            for segment in file_format.read(FileContent(file, name, options, skipped)):
                count += 1
                yield segment
        except READ_ERRORS as error:
            raise DataError(f"{name}: {read_failure(error)}") from None
    listed = ", ".join(f"{number:,} {reason}" for reason, number in skipped.items())
    if not count:
        raise DataError(f"{name}: contains no text with a translation" + (f" ({listed})" if listed else ""))
    if listed:
        _log.log(log_level, "%s: skipped units: %s", name, listed)


def pair_lines(sources: Iterator[str], targets: Iterator[str], names: tuple[str, str]) -> Iterator[Segment]:
    """Yield the segments of two parallel texts.

    Raises:
        DataError: if they have different numbers of lines.
    """
    pairs = 0
    while True:
        source, target = next(sources, None), next(targets, None)
        if source is None or target is None:
            break
        pairs += 1
        yield Segment(source, target, pairs)
    # One text has ended: count the rest of the other for the message.
    totals = [
        pairs + (line is not None) + sum(1 for _ in lines)
        for line, lines in ((source, sources), (target, targets))
    ]
    check_num_lines(names[0], totals[0], names[1], totals[1])


def check_num_lines(name: str, count: int, other: str, expected: int) -> None:
    """Check that two parallel texts have the same number of lines.

    Raises:
        DataError: if the numbers differ.
    """
    if count != expected:
        raise DataError(
            f"{name} has {count} lines but {other} has {expected}: parallel texts must have the same number "
            "of lines"
        )


def read_plain_lines(path: Path | str) -> Iterator[str]:
    """Yield the lines of a file of one side, after a check that it is no bilingual file."""
    for number, line in enumerate(read_lines(path), 1):
        if number <= _NUM_CHECKED_LINES and (match := _MARKUP.match(line)):
            kind, formats = ("PO", "po") if match[1] else ("XML", "xliff or tmx")
            raise DataError(
                f"{path}: line {number}: this is {kind}, not plain text: give it as the only file, with "
                f"--format {formats} if needed"
            )
        yield line
