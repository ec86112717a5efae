"""Arguments of the Python API: texts and word links, as files or as lists."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from regard.analysis.inputs import ParallelText
from regard.errors import DataError, UsageError
from regard.text.corpus import clean_line, read_lines
from regard.text.links import Links, check_links
from regard.text.words import split_whitespace

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
        if isinstance(source, str | Path):
            return cls(str(source), str(source), list(read_lines(Path(source))))
        return cls(argument, None, check_texts([getattr(line, "text", line) for line in source], argument))


def check_texts(texts: Iterable[Any], name: str) -> list[str]:
    """Return strings that can be encoded as UTF-8, cleaned as lines of a file are.

    Raises:
        UsageError: if an item is not such a string.
    """
    cleaned = []
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"{name}: expected a string, got {text!r}")
        # A lone surrogate is possible in a Python string, but no file or response can contain it.
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{name}: character {error.start + 1} of {text!r} is not valid Unicode"
            ) from None
        cleaned.append(clean_line(text)[0])
    return cleaned


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


def read_parallel(
    first: TextSource, second: TextSource, names: tuple[str, str] = ("sources", "targets")
) -> tuple[NamedText, NamedText]:
    """Return two texts with the same number of lines.

    Args:
        first: The source lines, or a file.
        second: Their translations, or a file.
        names: Names of lists in messages. A file has its own name.

    Raises:
        DataError: if a file cannot be read, or the numbers of lines differ.
    """
    left, right = NamedText.read(first, names[0]), NamedText.read(second, names[1])
    check_num_lines(left.name, len(left.lines), right.name, len(right.lines))
    return left, right


def parallel_text(sources: TextSource, references: TextSource) -> ParallelText:
    """Return the text of two files, or of lists of sentences.

    Raises:
        DataError: if a file cannot be read, a side contains no text, or the numbers of lines differ.
        UsageError: if a list contains other items than texts.
    """
    source, reference = read_parallel(sources, references, ("sources", "references"))
    return ParallelText(tuple(source.lines), tuple(reference.lines), source.file, reference.file)


def reference_sets(references: Iterable[Any] | Path | str) -> list[NamedText]:
    """Return one or more sets of references."""
    items = references if isinstance(references, Path | str) else list(references)
    # Within a list, only a `Path` is a file: a string is a reference.
    if isinstance(items, list) and items and all(isinstance(item, list | tuple | Path) for item in items):
        return [NamedText.read(item, f"reference {number}") for number, item in enumerate(items, 1)]
    return [NamedText.read(items, "references")]


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
