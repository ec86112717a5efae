"""Files of word links: those of DROP, the share of source words that the output omits, and gold links."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from regard.cli.options import GoldLinksOption, ReferenceLinksOption, SourceFileOption
from regard.data.whitespace import split_whitespace
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.data.links import Links

__all__ = ["GoldFiles", "LinkFiles"]


@dataclass(frozen=True)
class LinkFiles:
    """Files with word links of a source text with its reference and with the output of one or two systems."""

    panel: ClassVar[str] = "Word links"

    reference_links: ReferenceLinksOption = None
    hypothesis_links: Annotated[
        Path | None, typer.Option(help="For DROP: file with word links of source and HYPOTHESIS.")
    ] = None
    baseline_links: Annotated[
        Path | None, typer.Option(help="For DROP: file with word links of source and --baseline.")
    ] = None
    source: SourceFileOption = None

    def check(self, required: bool, has_baseline: bool) -> None:
        """Check that the required files are given, and no others.

        Args:
            required: Whether DROP is computed.
            has_baseline: Whether two systems are compared.

        Raises:
            UsageError: If a file is missing or not used.
        """
        options = {
            "--reference-links": (self.reference_links, required),
            "--hypothesis-links": (self.hypothesis_links, required),
            "--baseline-links": (self.baseline_links, required and has_baseline),
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
        names = {
            "reference": self.reference_links,
            "output": self.hypothesis_links,
            "other": self.baseline_links,
        }
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
        files = self.reference_links, self.hypothesis_links, self.baseline_links
        # `check` has ensured one file for the reference and one for each system.
        paths = [path for path in files if path is not None]
        wanted, *produced = (
            _read_links(path, sources, text, num_sentences)
            for path, text in zip(paths, (reference, *outputs), strict=True)
        )
        # DROP of each system is computed against the same links of the reference.
        return wanted * len(outputs), [links for system in produced for links in system]


@dataclass(frozen=True)
class GoldFiles:
    """Files with gold links and with the links that are scored against them."""

    panel: ClassVar[str] = "Word links"

    gold_links: GoldLinksOption = None
    predicted_links: Annotated[
        Path | None, typer.Option(help="File with word links (i-j) to score against --gold-links.")
    ] = None
    target: Annotated[
        Path | None,
        typer.Option(
            help="With --gold-links: target text of the word links. Links beyond the words of a line are an "
            "error."
        ),
    ] = None

    @property
    def given(self) -> bool:
        """Whether links are scored."""
        return self.gold_links is not None or self.predicted_links is not None

    def check(self) -> None:
        """Check that both files are given, or none.

        Raises:
            UsageError: If one of them is missing.
        """
        if (self.gold_links is None) != (self.predicted_links is None):
            raise UsageError("--gold-links and --predicted-links need each other: give both or neither")
        if self.target is not None and self.gold_links is None:
            raise UsageError("--target has no effect without --gold-links")

    def evaluate(self, source: Path | None, num_bootstrap_samples: int, seed: int) -> dict[str, Any]:
        """Return precision, recall and AER of the links."""
        from regard.api.alignment import evaluate_links

        assert self.predicted_links is not None and self.gold_links is not None
        found = evaluate_links(
            self.predicted_links,
            self.gold_links,
            sources=source,
            targets=self.target,
            num_bootstrap_samples=num_bootstrap_samples,
            seed=seed,
        )
        return {
            "links": str(self.predicted_links),
            "gold": str(self.gold_links),
            "pairs": found.num_pairs,
            "precision": found.precision,
            "recall": found.recall,
            "aer": found.aer,
            "aer_interval": [found.aer_low, found.aer_high],
        }


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
