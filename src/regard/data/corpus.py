"""Parallel text in files: plain or gzip, two files or one tab-separated file, one sentence a line.

Lines end in a line feed and nothing else, so that line N is what every other tool calls line N; Windows
line ends and a byte order mark are accepted; a line of more than 1 MiB is taken as an empty one, with a
warning. Control characters (C0 but the tab, DEL, C1) become spaces: dropping them would join words, keeping
them would put them into the vocabulary; how many is logged.
"""

import gzip
import io
import logging
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, cast

from pydantic import Field

from regard.config import config, option
from regard.data.fertility import FertilityConfig
from regard.data.reading import open_regular
from regard.data.spacing import split_at_spaces
from regard.data.tokenizer import PretrainedTokenizerConfig, TokenizerConfig, WordsConfig, check_joint
from regard.errors import DataError

__all__ = [
    "LONGEST",
    "CorpusConfig",
    "DataConfig",
    "clean_line",
    "corpus_name",
    "decode_lines",
    "read_lines",
    "read_pairs",
]

_log = logging.getLogger(__name__)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
LONGEST = 1 << 20
"""The most bytes of a line of text: 1 MiB. A file of a few megabytes may unpack to a line of gigabytes."""
_BOM = b"\xef\xbb\xbf"


@config
class CorpusConfig:
    """One parallel corpus: two files, or one tab-separated file.

    Paths that are not absolute start at the current folder. A name that ends in `.gz` is no must: gzip is
    recognised by its first bytes.
    """

    source: str | None = option(default=None, help="The file of source sentences, plain or gzip.")
    target: str | None = option(default=None, help="The file of their translations, line by line.")
    tsv: str | None = option(default=None, help="One tab-separated file instead of the two.")
    columns: tuple[Annotated[int, Field(le=1_000)], ...] = option(
        default=(1, 2),
        help="Its columns, from 1: the last is the target, the others joined by a tab the source.",
        min_length=2,
    )
    weight: float = option(
        default=1.0,
        help="How often its pairs are seen in an epoch: 2.0 twice, 0.5 half of them.",
        gt=0,
        le=1e4,
    )
    tag: str | None = option(default=None, help="A word put before every source sentence, such as `<bt>`.")

    def __post_init__(self) -> None:
        """Refuse a corpus that is neither two files nor one."""
        if (self.tsv is None) == (self.source is None) or (self.source is None) != (self.target is None):
            raise ValueError("a corpus is either `source` and `target`, or `tsv`")
        if any(column < 1 for column in self.columns):
            raise ValueError("`columns` count from 1")
        if len(set(self.columns)) < len(self.columns):
            raise ValueError("`columns` names a column twice")
        if self.tag is not None and (not self.tag or split_at_spaces(self.tag) != [self.tag]):
            raise ValueError("`tag` is one word")


@config
class DataConfig:
    """The text a model learns from, and how it is cut and counted.

    Paths that are not absolute start at the current folder.
    """

    folder: str | None = option(
        default=None,
        help="Where the prepared arrays are kept; none: `prepared/` and the name of the config's file.",
    )
    train: tuple[CorpusConfig, ...] = option(help="The training corpora.", min_length=1)
    valid: CorpusConfig = option(help="The validation corpus.")
    test: CorpusConfig | None = option(default=None, help="The test corpus.")
    source_tokenizer: TokenizerConfig = option(default=WordsConfig, help="How source text is cut.")
    target_tokenizer: TokenizerConfig = option(default=WordsConfig, help="How target text is cut.")
    source_size: int | None = option(
        default=None, help="The most frequent source tokens kept; none: all.", ge=1, le=10_000_000
    )
    target_size: int | None = option(
        default=None, help="The most frequent target tokens kept; none: all.", ge=1, le=10_000_000
    )
    min_count: int = option(
        default=1, help="Tokens seen less often in the training text are unknown.", ge=1, le=1_000_000_000
    )
    joint_vocabulary: bool = option(
        default=False, help="One vocabulary for both sides, as tied embeddings need."
    )
    max_length: int = option(
        default=200, help="Training pairs with more tokens on a side are dropped.", ge=1, le=100_000
    )
    fertility: FertilityConfig | None = option(
        default=None, help="How much attention each source token may receive; none: any amount, and no sink."
    )

    def __post_init__(self) -> None:
        """Refuse settings of the two sides that do not fit together."""
        check_joint(self.source_tokenizer, self.target_tokenizer)
        if self.joint_vocabulary and self.source_size != self.target_size:
            raise ValueError("a joint vocabulary has one size: set source_size and target_size to the same")
        for side in ("source", "target"):
            given = isinstance(getattr(self, f"{side}_tokenizer"), PretrainedTokenizerConfig)
            if given and (self.joint_vocabulary or getattr(self, f"{side}_size") is not None):
                raise ValueError(
                    f"{side}_tokenizer.kind = 'pretrained' brings its vocabulary: leave out joint_vocabulary "
                    f"and {side}_size"
                )


def corpus_name(corpus: CorpusConfig) -> str:
    """The files of a corpus, for messages."""
    return corpus.tsv if corpus.tsv is not None else f"{corpus.source} and {corpus.target}"


def clean_line(text: str) -> tuple[str, int]:
    """A line without its line end and with spaces for control characters.

    Returns:
        The text and the number of characters replaced.
    """
    return _CONTROL.subn(" ", text.removesuffix("\n").removesuffix("\r"))


def _decode_line(raw: bytes, name: str, number: int, offset: int = 0) -> str:
    """Decode one line of a text file.

    Args:
        raw: The line's bytes.
        name: The file, for the message.
        number: The line's number, from 1; a byte order mark is removed from line 1.
        offset: Where the line starts in the file, in bytes.

    Raises:
        DataError: if it is not UTF-8; names file, line and byte.
    """
    mark = len(_BOM) if number == 1 and raw.startswith(_BOM) else 0
    try:
        return raw[mark:].decode()
    except UnicodeDecodeError as error:
        byte = error.start + mark
        raise DataError(
            f"{name}: line {number}, byte {byte + 1}: not UTF-8 (0x{raw[byte]:02x}, byte {offset + byte + 1} "
            f"of the text); convert the file to UTF-8"
        ) from None


def read_lines(path: Path | str, longest: int = LONGEST) -> Iterator[str]:
    """The lines of a text file, plain or gzip, without line ends.

    Args:
        path: A regular file.
        longest: The most bytes of a line; see `decode_lines`.

    Raises:
        DataError: if the file is missing, a folder, a device, a named pipe, empty, damaged or not UTF-8;
            names file, line and byte.
    """
    empty = True
    with _open(path) as file:
        for line in decode_lines(file, str(path), longest):
            empty = False
            yield line
    if empty:
        raise DataError(f"{path}: the file is empty")


def decode_lines(file: IO[bytes], name: str, longest: int = LONGEST) -> Iterator[str]:
    """The lines of an open file, plain or gzip, without line ends; there may be none.

    A line that is too long for memory's sake is refused: it comes out empty, so that the lines after it keep
    their numbers, and a warning names it.

    Args:
        file: The file.
        name: What to call it in messages.
        longest: The most bytes of a line, its end included.

    Raises:
        DataError: if it cannot be read, is damaged or not UTF-8; names file, line and byte.
    """
    number = replaced = offset = 0
    try:
        for number, (raw, size) in enumerate(_limited(file, longest), 1):
            offset, start = offset + size, offset
            if size > len(raw):
                _log.warning(
                    "%s: line %d has %d bytes, more than the %d that are read: taken as an empty line",
                    name,
                    number,
                    size,
                    longest,
                )
                yield ""
                continue
            line, count = clean_line(_decode_line(raw, name, number, start))
            replaced += count
            yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name}: damaged gzip file after line {number}: {error}") from None
    except OSError as error:
        raise DataError(f"{name}: {error.strerror or error}") from None
    if replaced:
        _log.warning("%s: %d control characters read as spaces", name, replaced)


def _limited(file: IO[bytes], longest: int) -> Iterator[tuple[bytes, int]]:
    """The lines of a file, and the size of each; of one that is too long nothing but its size."""
    while raw := file.readline(longest + 1):
        size = len(raw)
        if size <= longest:
            yield raw, size
            continue
        while raw and not raw.endswith(b"\n"):
            raw = file.readline(longest)
            size += len(raw)
        yield b"", size


def _open(path: Path | str) -> IO[bytes]:
    """A regular file opened for reading bytes, through gzip where it starts like one (text cannot)."""
    file = open_regular(path)
    try:
        zipped = file.peek(2)[:2] == b"\x1f\x8b"
    except OSError as error:
        file.close()
        raise DataError(f"{path}: {error.strerror or error}") from None
    except BaseException:
        file.close()
        raise
    return cast(IO[bytes], _Gzip(file)) if zipped else file


class _Gzip(gzip.GzipFile):
    """A compressed file that closes the file it reads from."""

    def __init__(self, file: io.BufferedReader) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._below = file

    def close(self) -> None:
        super().close()
        self._below.close()


def read_pairs(corpus: CorpusConfig) -> Iterator[tuple[str, str]]:
    """The sentence pairs of a corpus, in order; a tag is not put in here.

    Raises:
        DataError: as `read_lines` does; if the two files differ in their number of lines (names both
            numbers), or a line lacks a column (names the line).
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
    more = [
        pairs + (line is not None) + sum(1 for _ in rest)
        for line, rest in ((source, sources), (target, targets))
    ]
    if more[0] != more[1]:
        raise DataError(
            f"{corpus.source} has {more[0]} lines but {corpus.target} has {more[1]}: "
            f"line N of one must translate line N of the other"
        )


def _read_columns(path: str, columns: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split("\t")
        if len(fields) < max(columns):
            raise DataError(
                f"{path}: line {number}: {len(fields)} tab-separated columns, expected {max(columns)} or more"
            )
        *source, target = (fields[column - 1] for column in columns)
        yield "\t".join(source), target
