"""The contract of formats of bilingual files, which hold a text and its translation, and their registry.

A format is a function that yields the segments of an open file:

    @register_file_format("lines", suffixes=(".pairs",))
    def read_alternating_lines(content: FileContent) -> Iterator[Segment]:
        lines = enumerate(decode_lines(content.file, content.name), 1)
        for (line, source), (_, target) in zip(lines, lines):
            yield Segment(source, target, line)

`regard.text.corpus.read_file` opens the file, finds its format and reports the units that were skipped.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import Field

from regard.config import configclass, option
from regard.config.registry import NamedRegistry
from regard.errors import UsageError
from regard.text.compression import remove_suffix


@dataclass(frozen=True, slots=True)
class Segment:
    """A source text and its translation, each without line feeds.

    Attributes:
        source: The source text.
        target: Its translation.
        line: The line of the file at which the segment starts, from 1; for lists, the position in the list.
        id: The identifier in the file; None if it has none.
    """

    source: str
    target: str
    line: int
    id: str | None = None


@configclass
class FileOptions:
    """The format of a bilingual file, and the parts of the file that are read."""

    format: str | None = option(
        default=None,
        help="Format of a file that holds both sides: tsv, csv, jsonl, po, xliff, tmx, or one of a plugin. "
        "Default: that of the suffix, before a suffix of compression.",
    )
    columns: tuple[Annotated[int, Field(le=1_000)] | str, ...] = option(
        default=(),
        help="Columns of a TSV or CSV file: numbers, counted from 1, or names of the header in its first "
        "line. The last one is the target. The others are the source, joined with tabs. Default: the columns "
        "named source and target or translation; without them, 1,2 and no header.",
    )
    fields: tuple[str, ...] = option(
        default=(),
        help="Two fields of a JSONL file: source and target. `translation.de` is the field `de` of the "
        "object `translation`. Default: source,target.",
    )
    languages: tuple[str, ...] = option(
        default=(),
        help="Codes of the source and the target language, for a TMX or XLIFF file with several language "
        "pairs; `en` includes `en-US`.",
    )

    def __post_init__(self) -> None:
        """Check the numbers of columns, fields and languages."""
        numbers = [int(column) for column in self.columns if str(column).isdecimal()]
        if len(self.columns) == 1 or len(set(map(str, self.columns))) < len(self.columns):
            raise ValueError("`columns` contains a column twice, or only one column")
        if len(numbers) not in (0, len(self.columns)) or not all(0 < n <= 1_000 for n in numbers):
            raise ValueError("`columns` are numbers from 1 to 1,000 or names of the header, not both")
        for name in ("fields", "languages"):
            if len(getattr(self, name)) not in (0, 2):
                raise ValueError(f"`{name}` are two: source and target")


@dataclass(frozen=True)
class FileContent:
    """An open bilingual file.

    Attributes:
        file: The content, still compressed if the file is.
        name: The file name, for messages.
        options: The parts of the file to read.
        skipped: Number of skipped units by reason, such as `untranslated`; the reader increments it.
    """

    file: IO[bytes]
    name: str
    options: FileOptions
    skipped: Counter[str]


@dataclass(frozen=True)
class FileFormat:
    """A registered format.

    Attributes:
        read: The function that yields the segments.
        suffixes: Suffixes of file names, in lower case.
        options: Names of the fields of `FileOptions` that it uses.
    """

    read: Callable[[FileContent], Iterator[Segment]]
    suffixes: tuple[str, ...]
    options: tuple[str, ...]


FILE_FORMATS: NamedRegistry[FileFormat] = NamedRegistry("file format", ["regard.text.formats"])
"""The formats of bilingual files by name."""


def register_file_format(
    name: str, suffixes: tuple[str, ...], options: tuple[str, ...] = ()
) -> Callable[[Any], Any]:
    """Return a decorator that registers the reader of a format, from a `FileContent` to its segments.

    Args:
        name: The name, as for `--format`.
        suffixes: Suffixes of the names of such files, such as `.tmx`.
        options: The fields of `FileOptions` that the reader uses: `columns`, `fields` or `languages`.
    """

    def decorate(read: Callable[[FileContent], Iterator[Segment]]) -> Any:
        FILE_FORMATS.add(name, FileFormat(read, suffixes, options), source=read)
        return read

    return decorate


def find_format(path: Path | str, options: FileOptions) -> FileFormat:
    """Return the format of a bilingual file, by the options or by the suffix of its name.

    Raises:
        UsageError: if the format is unknown, or an option has no effect on it.
    """
    names = ", ".join(FILE_FORMATS.names())
    if options.format is None:
        suffix = Path(remove_suffix(Path(path).name)).suffix.lower()
        formats = filter(None, map(FILE_FORMATS.get, FILE_FORMATS.names()))
        chosen = next((entry for entry in formats if suffix in entry.suffixes), None)
        if chosen is None:
            raise UsageError(
                f"{path}: give a second file, or one file with both sides, whose format is that of its "
                f"suffix or of format (--format): {names}"
            )
    else:
        chosen = FILE_FORMATS.get(options.format)
        if chosen is None:
            raise UsageError(f"format {options.format!r}: expected one of {names}")
    for field in dataclasses.fields(FileOptions):
        if field.name not in ("format", *chosen.options) and getattr(options, field.name):
            raise UsageError(f"{path}: {field.name} (--{field.name}) has no effect on this file format")
    return chosen
