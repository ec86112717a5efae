"""Arguments of the Python API: texts and word links, as files or as lists."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from regard.errors import UsageError
from regard.text.corpus import CorpusConfig, clean_line, pair_lines, read_file, read_plain_lines
from regard.text.formats.base import FileOptions, Segment
from regard.text.links import Links, check_links
from regard.text.words import split_whitespace

if TYPE_CHECKING:
    from regard.analysis.inputs import ParallelText

TextSource = Path | str | Iterable[str]
"""A text: a file with one sentence per line, or the sentences."""
LinkSource = Path | str | Iterable[Any]
"""Word links: a file in the Pharaoh format, `Alignments`, or the links of each sentence pair.

The links of a pair are pairs of positions, or an array as in `Translation.alignment`.
"""


@dataclass(frozen=True)
class NamedText:
    """A text: its name in messages, its file if it has one, and its sentences."""

    name: str
    file: str | None
    lines: list[str]

    @classmethod
    def read(cls, source: Path | str | Iterable[Any], argument: str) -> Self:
        """Return the lines of a file, or a list of strings or of objects with a `text`, such as translations.

        Args:
            source: The file or the list.
            argument: The name of a list. A file has its own name.

        Raises:
            DataError: if the file cannot be read.
            UsageError: if the list contains other items than texts.
        """
        file = file_name(source)
        return cls(file or argument, file, list(iterate_texts(source, argument)))


def file_name(source: Any) -> str | None:
    """Return the name of a file; None for a list."""
    return str(source) if isinstance(source, str | Path) else None


def iterate_texts(source: Path | str | Iterable[Any], argument: str) -> Iterator[str]:
    """Yield the lines of a file, or the texts of a list, cleaned as lines are; see `NamedText.read`."""
    if isinstance(source, str | Path):
        yield from read_plain_lines(source)
        return
    for item in source:
        text = getattr(item, "text", item)
        if not isinstance(text, str):
            raise UsageError(f"{argument}: expected a string, got {text!r}")
        # A lone surrogate is possible in a Python string, but no file or response can contain it.
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{argument}: character {error.start + 1} of {text!r} is not valid Unicode"
            ) from None
        yield clean_line(text)[0]


def check_texts(texts: Iterable[Any], name: str) -> list[str]:
    """Return strings that can be encoded as UTF-8, cleaned as lines of a file are.

    Raises:
        UsageError: if an item is not such a string.
    """
    return list(iterate_texts(list(texts), name))


def open_segments(
    first: TextSource,
    second: TextSource | None = None,
    names: tuple[str, str] = ("sources", "targets"),
    options: FileOptions | None = None,
) -> Iterator[Segment]:
    """Yield the segments of two texts with the same number of lines, or of one file with both sides.

    Args:
        first: The source lines, or a file; with `second` None, a file with both sides.
        second: Their translations, or a file.
        names: Names of lists in messages. A file has its own name.
        options: Format of a file with both sides. Default: that of its suffix.

    Raises:
        DataError: if a file cannot be read, is not of its format, or the numbers of lines differ.
        UsageError: if the format is unknown, the options have no effect, or a list contains other items.
    """
    if second is None:
        if not isinstance(first, str | Path):
            raise UsageError(f"{names[1]}: missing; only a file may contain both sides")
        yield from read_file(first, options or FileOptions())
        return
    check_unused(options)
    labels = file_name(first) or names[0], file_name(second) or names[1]
    yield from pair_lines(iterate_texts(first, names[0]), iterate_texts(second, names[1]), labels)


def corpus_files(source: Path | str, target: Path | str | None, options: FileOptions | None) -> CorpusConfig:
    """Return the corpus of two plain files, or of one file with both sides.

    Raises:
        UsageError: if options of a file format are given for two plain files.
    """
    if target is None:
        return CorpusConfig(file=str(source), **asdict(options or FileOptions()))
    check_unused(options)
    return CorpusConfig(source=str(source), target=str(target))


def check_unused(options: FileOptions | None) -> None:
    """Raise UsageError if options of a file format are given, which need one file with both sides."""
    if options is not None and options != FileOptions():
        raise UsageError("options of a file format (--format, --columns...) need one file with both sides")


def read_parallel(
    first: TextSource,
    second: TextSource | None = None,
    names: tuple[str, str] = ("sources", "targets"),
    options: FileOptions | None = None,
) -> tuple[NamedText, NamedText]:
    """Return two texts with the same number of lines; see `open_segments`."""
    segments = list(open_segments(first, second, names, options))
    source_file, target_file = file_name(first), file_name(first if second is None else second)
    return (
        NamedText(source_file or names[0], source_file, [segment.source for segment in segments]),
        NamedText(target_file or names[1], target_file, [segment.target for segment in segments]),
    )


def parallel_text(sources: TextSource, references: TextSource) -> "ParallelText":
    """Return the text of two files, or of lists of sentences.

    Raises:
        DataError: if a file cannot be read, a side contains no text, or the numbers of lines differ.
        UsageError: if a list contains other items than texts.
    """
    source, reference = read_parallel(sources, references, ("sources", "references"))
    from regard.analysis.inputs import ParallelText  # imports the aligners and Numba

    return ParallelText(tuple(source.lines), tuple(reference.lines), source.file, reference.file)


def count_words(lines: Iterable[str]) -> list[int]:
    """Return the number of words of each line."""
    return [len(split_whitespace(line)) for line in lines]


def check_rows(rows: Sequence[Links], lengths: Mapping[str, list[int]], name: str) -> None:
    """Check that the links of each sentence pair are within its sentences.

    Args:
        rows: The links of each pair.
        lengths: Numbers of words of all source and all target sentences. A missing side is not checked.
        name: Name of the links, for messages.

    Raises:
        DataError: if a link points beyond its sentence.
    """
    for row, links in enumerate(rows):
        words = {side: lengths[side][row] if side in lengths else None for side in ("source", "target")}
        check_links(links, words, f"{name}:{row + 1}")
