"""Files of word links for DROP, the share of source words that are covered by the reference only."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.data.whitespace import split_whitespace
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.data.links import Links

__all__ = ["LinkFiles"]


@dataclass(frozen=True)
class LinkFiles:
    """Files with word links of a source text with its reference and with the output of one or two systems.

    Attributes:
        reference: File with links (i-j) of source and reference.
        hypothesis: File with links of source and output.
        baseline: File with links of source and the output of the other system.
        source: File with the source text, which is used to check that the links stay within its sentences.
    """

    reference: Path | None
    hypothesis: Path | None
    baseline: Path | None
    source: Path | None

    def check(self, required: bool, has_baseline: bool) -> None:
        """Check that the required files are given, and no others.

        Args:
            required: Whether DROP is computed.
            has_baseline: Whether two systems are compared.

        Raises:
            UsageError: If a file is missing or not used.
        """
        options = {
            "--reference-links": (self.reference, required),
            "--hypothesis-links": (self.hypothesis, required),
            "--baseline-links": (self.baseline, required and has_baseline),
        }
        for option, (path, needed) in options.items():
            if needed and path is None:
                raise UsageError(
                    f"--metrics drop needs {option}: a file with word links i-j of the source and that text. "
                    "All link files must be written by the same aligner."
                )
            if path is not None and not needed:
                missing = "--baseline" if required else "--metrics drop"
                raise UsageError(f"{option} has no effect without {missing}")

    def to_dict(self) -> dict[str, str]:
        """Return the names of the files, for the JSON results."""
        names = {"reference": self.reference, "output": self.hypothesis, "other": self.baseline}
        return {f"links_{name}": str(path) for name, path in names.items() if path is not None}

    def read(
        self, reference: Sequence[str] | None, outputs: Sequence[Sequence[str] | None], num_sentences: int
    ) -> "tuple[list[Links], list[Links]]":
        """Return the links of the reference, repeated for each system, and the links of all outputs.

        Args:
            reference: Lines of the reference, or None if its tokenization is not known.
            outputs: Lines of each system's output, or None in the same case.
            num_sentences: Required number of lines of each file.

        Raises:
            DataError: If a file cannot be read, has a different number of lines or a line that is not a list
                of links, or if a link points beyond its sentence.
        """
        sources = None if self.source is None else _read(self.source, num_sentences)
        paths = [path for path in (self.reference, self.hypothesis, self.baseline) if path is not None]
        wanted, *produced = (
            _read_links(path, sources, text, num_sentences)
            for path, text in zip(paths, (reference, *outputs), strict=True)
        )
        # DROP of each system is computed against the same links of the reference.
        return wanted * len(outputs), [links for system in produced for links in system]


def _read(path: Path, expected: int) -> list[str]:
    from regard.data.corpus import read_lines

    lines = list(read_lines(path))
    if len(lines) != expected:
        raise DataError(f"{path} has {len(lines)} lines but there are {expected} sentences: one line each")
    return lines


def _read_links(
    path: Path, sources: Sequence[str] | None, targets: Sequence[str] | None, expected: int
) -> "list[Links]":
    from regard.data.links import check_links, parse_links

    links = []
    for number, line in enumerate(_read(path, expected), 1):
        parsed = parse_links(line, f"{path}:{number}")
        sides = (("source", sources), ("target", targets))
        words = {
            name: None if text is None else len(split_whitespace(text[number - 1])) for name, text in sides
        }
        check_links(parsed, words, f"{path}:{number}")
        links.append(parsed)
    return links
