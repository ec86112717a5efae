"""Reading of parallel text with one sentence per line: two files or one tab-separated file.

Files may be compressed. Lines end with a line feed only, not with Unicode line separators, so that line
numbers agree with other tools. Windows line endings and a byte order mark are accepted. A line of more than
1 MiB is replaced by an empty line, with a warning. Control characters (C0 except the tab, DEL, C1) are
replaced by spaces, since removing them would join words and keeping them would add them to the vocabulary;
their number is logged.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated

from pydantic import Field

from regard.config import configclass, option
from regard.errors import DataError
from regard.text.compression import READ_ERRORS, decompress, read_failure
from regard.text.reading import open_regular_file
from regard.text.words import CONTROL_CHARACTERS, split_whitespace

_log = logging.getLogger(__name__)
MAX_LINE_BYTES = 1 << 20
"""Maximum length of a line in bytes: 1 MiB. A small compressed file could contain a line of gigabytes."""
_BOM = b"\xef\xbb\xbf"


@configclass
class CorpusConfig:
    """A parallel corpus: two files, or one tab-separated file.

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
    tsv: str | None = option(
        default=None,
        help="Tab-separated file, plain or compressed, instead of `source` and `target`. It has no header, "
        "and quotation marks are ordinary characters.",
    )
    columns: tuple[Annotated[int, Field(le=1_000)], ...] = option(
        default=(1, 2),
        help="Columns of the file `tsv`, counted from 1. The last one is the target. The others are the "
        "source, joined with tabs.",
        min_length=2,
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
        """Check that the corpus is either two files or one tab-separated file."""
        if (self.tsv is None) == (self.source is None) or (self.source is None) != (self.target is None):
            raise ValueError("a corpus needs either `source` and `target`, or `tsv`")
        if any(column < 1 for column in self.columns):
            raise ValueError("`columns` are counted from 1")
        if len(set(self.columns)) < len(self.columns):
            raise ValueError("`columns` contains a column twice")
        if self.source_prefix is not None and (
            not self.source_prefix or split_whitespace(self.source_prefix) != [self.source_prefix]
        ):
            raise ValueError("`source_prefix` must be one word without spaces")


def corpus_name(corpus: CorpusConfig) -> str:
    """Return the files of a corpus, for messages."""
    return corpus.tsv if corpus.tsv is not None else f"{corpus.source} and {corpus.target}"


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
    """Yield the lines of a text file, plain or compressed, without line endings.

    Raises:
        DataError: if the file is missing, not a regular file, empty, damaged or not UTF-8. The message gives
            file, line and byte.
    """
    empty = True
    with open_regular_file(path) as file:
        for line in decode_lines(file, str(path)):
            empty = False
            yield line
    if empty:
        raise DataError(f"{path}: the file is empty")


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
    """Yield the sentence pairs of a corpus in order; the source prefix of the corpus is not added.

    Raises:
        DataError: as in `read_lines`; also if the two files have different numbers of lines, or a line of a
            tab-separated file has too few columns.
    """
    if corpus.tsv is not None:
        yield from _read_columns(corpus.tsv, corpus.columns)
        return
    assert corpus.source is not None and corpus.target is not None
    sources, targets = read_lines(corpus.source), read_lines(corpus.target)
    pairs = 0
    while True:
        source, target = next(sources, None), next(targets, None)
        if source is None or target is None:
            break
        pairs += 1
        yield source, target
    # One file has ended: count the rest of the other for the message.
    totals = [
        pairs + (line is not None) + sum(1 for _ in rest)
        for line, rest in ((source, sources), (target, targets))
    ]
    if totals[0] != totals[1]:
        raise DataError(
            f"{corpus.source} has {totals[0]} lines but {corpus.target} has {totals[1]}: "
            f"parallel files must have the same number of lines"
        )


def _read_columns(path: str, columns: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split("\t")
        if len(fields) < max(columns):
            raise DataError(
                f"{path}: line {number}: {len(fields)} tab-separated columns, expected {max(columns)} or more"
            )
        # With several source columns, such as a lemma and its features, the target is the last one.
        *source, target = (fields[column - 1] for column in columns)
        yield "\t".join(source), target
