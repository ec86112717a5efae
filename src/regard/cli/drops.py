"""The files of word links that `regard evaluate --metric drop` counts from."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.data.spacing import split_at_spaces
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.data.links import Links

__all__ = ["LinkFiles"]


@dataclass(frozen=True)
class LinkFiles:
    """Word links of the same source text with a reference and with the output of one system or two.

    Attributes:
        reference: Links (i-j) of source and reference.
        output: Links of source and output.
        other: Links of source and the other system's output, where there is one.
        source: The source text, to find links beyond its words.
    """

    reference: Path | None
    output: Path | None
    other: Path | None
    source: Path | None

    def check(self, wanted: bool, compared: bool) -> None:
        """See that the files given are those needed.

        Args:
            wanted: Whether DROP is to be counted.
            compared: Whether two systems are compared.

        Raises:
            UsageError: if a file is missing or given for nothing.
        """
        options = {
            "--links-reference": (self.reference, wanted),
            "--links-output": (self.output, wanted),
            "--links-other": (self.other, wanted and compared),
        }
        for option, (path, needed) in options.items():
            if needed and path is None:
                raise UsageError(
                    f"--metric drop needs {option}: word links i-j of the source with that text, all by the "
                    "same aligner"
                )
            if path is not None and not needed:
                missing = "--other" if wanted else "--metric drop"
                raise UsageError(f"{option} is of no use without {missing}")

    def record(self) -> dict[str, str]:
        """The files' names, for the figures."""
        names = {"reference": self.reference, "output": self.output, "other": self.other}
        return {f"links_{name}": str(path) for name, path in names.items() if path is not None}

    def read(
        self, reference: Sequence[str] | None, outputs: Sequence[Sequence[str] | None], sentences: int
    ) -> "tuple[list[Links], list[Links]]":
        """The links of the references, once for each system, and of the systems' outputs, joined.

        Args:
            reference: The text the links of the reference end in; none where its words are not known.
            outputs: The same of each system's output.
            sentences: How many lines each file must have.

        Raises:
            DataError: if a file cannot be read, a line is not of links, a link points beyond its sentence, or
                the numbers of lines differ.
        """
        sources = None if self.source is None else _read(self.source, sentences)
        paths = [path for path in (self.reference, self.output, self.other) if path is not None]
        wanted, *said = (
            _read_links(path, sources, text, sentences)
            for path, text in zip(paths, (reference, *outputs), strict=True)
        )
        return wanted * len(outputs), [links for system in said for links in system]


def _read(path: Path, expected: int) -> list[str]:
    from regard.data.corpus import read_lines

    lines = list(read_lines(path))
    if len(lines) != expected:
        raise DataError(f"{path} has {len(lines)} lines; expected {expected}, one a sentence")
    return lines


def _read_links(
    path: Path, sources: Sequence[str] | None, targets: Sequence[str] | None, expected: int
) -> "list[Links]":
    from regard.data.links import check_links, parse_links

    links = []
    for number, line in enumerate(_read(path, expected), 1):
        drawn = parse_links(line, f"{path}:{number}")
        sides = (("source", sources), ("target", targets))
        words = {
            name: None if text is None else len(split_at_spaces(text[number - 1])) for name, text in sides
        }
        check_links(drawn, words, f"{path}:{number}")
        links.append(drawn)
    return links
