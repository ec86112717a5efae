"""Arguments of the Python API: texts and files."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.analysis.inputs import ParallelText
from regard.errors import DataError, UsageError
from regard.text.corpus import clean_line, read_lines

__all__ = [
    "NamedText",
    "TextSource",
    "as_list",
    "as_texts",
    "check_num_lines",
    "check_texts",
    "named_text",
    "parallel_text",
    "read_parallel",
    "read_texts",
    "reference_sets",
    "source_name",
]

TextSource = Path | str | Iterable[str]
"""A text: a file with one sentence per line, or the sentences."""


def as_list(given: Any, name: str) -> list[Any]:
    """Return the items of an iterable as a list.

    Raises:
        UsageError: if the argument is not iterable.
    """
    try:
        return list(given)
    except TypeError:
        raise UsageError(f"{name}: expected a list, got {given!r}") from None


def check_texts(given: Any, name: str) -> list[str]:
    """Return the items as a list of strings that can be encoded as UTF-8, cleaned as lines of a file are.

    Raises:
        UsageError: if an item is not such a string.
    """
    texts = as_list(given, name)
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
    return [clean_line(text)[0] for text in texts]


def as_texts(given: Iterable[Any], name: str) -> list[str]:
    """Return a list of strings from strings or from objects with a `text` attribute.

    Raises:
        UsageError: if the argument is a single string, or contains other items.
    """
    # A string is an iterable of strings, so each character would become a sentence.
    if isinstance(given, str):
        raise UsageError(f"{name}: expected a list of sentences, got a single string")
    return check_texts([getattr(line, "text", line) for line in as_list(given, name)], name)


def read_texts(given: Path | str | Iterable[Any], name: str) -> list[str]:
    """Return the lines of a file, or a list of strings as `as_texts` does.

    Raises:
        DataError: if the file cannot be read.
        UsageError: if the list contains other items than texts.
    """
    return list(read_lines(Path(given))) if isinstance(given, str | Path) else as_texts(given, name)


def source_name(given: Any, name: str) -> str:
    """Return the name of a text for messages: its file, or else the name of the argument."""
    return str(given) if isinstance(given, str | Path) else name


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


def parallel_text(sources: TextSource, references: TextSource) -> ParallelText:
    """Return the text of two files, or of lists of sentences.

    Raises:
        DataError: if a file cannot be read, a side contains no text, or the numbers of lines differ.
        UsageError: if a list contains other items than texts.
    """
    if isinstance(sources, Path | str) and isinstance(references, Path | str):
        return ParallelText.read(sources, references)
    return ParallelText(
        tuple(read_texts(sources, "sources")),
        tuple(read_texts(references, "references")),
        str(sources) if isinstance(sources, Path | str) else None,
        str(references) if isinstance(references, Path | str) else None,
    )


def read_parallel(
    first: TextSource, second: TextSource, names: tuple[str, str]
) -> tuple[list[str], list[str]]:
    """Return the lines of two texts.

    Args:
        first: The source lines, or a file.
        second: Their translations, or a file.
        names: Names of lists in messages. A file has its own name.

    Raises:
        DataError: if a file cannot be read, or the numbers of lines differ.
    """
    sides = read_texts(first, names[0]), read_texts(second, names[1])
    check_num_lines(source_name(first, names[0]), len(sides[0]), source_name(second, names[1]), len(sides[1]))
    return sides


@dataclass(frozen=True)
class NamedText:
    """A text: its name in messages, its file if it has one, and its sentences."""

    name: str
    file: str | None
    lines: list[str]


def named_text(given: TextSource, argument: str) -> NamedText:
    """Return a text, which has the name of its file, or else of its argument."""
    file = str(given) if isinstance(given, Path | str) else None
    return NamedText(file or argument, file, read_texts(given, argument))


def reference_sets(given: Iterable[Any] | Path | str) -> list[NamedText]:
    """Return one or more sets of references."""
    if isinstance(given, Path | str):
        return [named_text(given, "references")]
    references = as_list(given, "references")
    # Within a list, only a `Path` is a file: a string is a reference.
    if references and all(isinstance(each, list | tuple | Path) for each in references):
        return [named_text(each, f"reference {number}") for number, each in enumerate(references, 1)]
    return [named_text(references, "references")]
