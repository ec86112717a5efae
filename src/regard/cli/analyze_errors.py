"""`regard analyze errors`: dropped and repeated words of translations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.analysis_input import AnalysisInput
from regard.cli.linker import Linker
from regard.cli.output import print_message, track
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.cli.output import Output
    from regard.data.links import Links
    from regard.generation.base import BaseTranslator
    from regard.generation.lines import LineResult
    from regard.reporting.errors import SentenceErrors

__all__ = ["ErrorOptions", "analyze_errors"]

_LINE_WIDTH = 100  # line width in characters if the output is not a terminal


@dataclass(frozen=True)
class ErrorOptions:
    """The options of `regard analyze errors`.

    Attributes:
        aligner_dir: Directory of a word aligner. None finds no dropped words.
        reference_links: File with links of source and reference, used instead of the aligner's.
        num_sentences: Number of sentences to show. 0 shows all.
        lowercase: Whether to ignore case.
        generation: Search settings, as arguments of `search_settings`.
        num_threads: Number of CPU threads. None uses all processors.
    """

    aligner_dir: Path | None
    reference_links: Path | None
    num_sentences: int
    lowercase: bool
    generation: dict[str, Any]
    num_threads: int | None


def analyze_errors(inputs: AnalysisInput, options: ErrorOptions) -> None:
    """Translate and show the sentences, starting with those that have the highest number of errors.

    Raises:
        UsageError: If an option is missing.
        DataError: If a file cannot be read or has the wrong format.
    """
    from regard.cli.output import open_output, write_json
    from regard.reporting.errors import corpus_scores, sort_by_errors

    if options.reference_links is not None and options.aligner_dir is None:
        raise UsageError(
            "--reference-links needs --aligner as well, for the links between source and translations"
        )
    link_source = _LinkSource.read(options)
    pairs = inputs.read_pairs()
    link_source.check(len(pairs), inputs.reference)
    with open_output(inputs.output) as file:
        translator = inputs.load_translator(inputs.models, options.generation, options.num_threads)
        sentences = _collect_sentences(
            _translate(translator, pairs), pairs, translator, link_source, options.lowercase
        )
        if not sentences:
            raise DataError(f"{inputs.source}: all lines are too long for the model: nothing was translated")
        ranked, scores = sort_by_errors(sentences), corpus_scores(sentences)
        _show(file, ranked[: options.num_sentences or None], scores, len(sentences))
        aligner, links = options.aligner_dir, options.reference_links
        results = {
            "models": [str(path) for path in inputs.models],
            "source": str(inputs.source),
            "reference": str(inputs.reference),
            "aligner": None if aligner is None else str(aligner),
            "links_reference": None if links is None else str(links),
            "lowercase": options.lowercase,
            "lines": len(pairs),
            **scores,
            "sentences": [sentence.record() for sentence in ranked],
        }
        write_json(inputs.json_file, results)
    if aligner is None:
        print_message(
            "dropped words cannot be found without --aligner: the sentences are ranked by repetitions only"
        )


def _translate(translator: "BaseTranslator", pairs: Sequence[tuple[str, str]]) -> "Iterator[LineResult]":
    """Yield the translation results of all lines that are not too long."""
    from regard.generation.lines import enumerate_lines

    lines = enumerate_lines(source for source, _ in pairs)
    for result in track(translator.translate(lines), "translate", len(pairs)):
        if not result.error:
            yield result


@dataclass(frozen=True)
class _LinkSource:
    """The source of word links: an aligner and, optionally, a file with the links of the references.

    Attributes:
        linker: The aligner. None computes no links.
        reference_links: Links of the source and the reference of each line, from a file.
        name: Name of the file.
    """

    linker: Linker | None
    reference_links: "list[Links] | None"
    name: str

    @classmethod
    def read(cls, options: ErrorOptions) -> "_LinkSource":
        """Load the aligner and the links that are given in the options."""
        from regard.data.corpus import read_lines
        from regard.data.links import parse_links

        directory, links = options.aligner_dir, options.reference_links
        linker = None if directory is None else Linker.load(directory, options.lowercase, options.num_threads)
        reference_links = None
        if links is not None:
            reference_links = [
                parse_links(line, f"{links}:{n}") for n, line in enumerate(read_lines(links), 1)
            ]
        return cls(linker, reference_links, str(links))

    def check(self, lines: int, reference: Path) -> None:
        """Check that the file has one line of links per reference line.

        Raises:
            DataError: If the number of lines differs.
        """
        if self.reference_links is not None and len(self.reference_links) != lines:
            raise DataError(
                f"{self.name} has {len(self.reference_links)} lines but {reference} has {lines}: links need "
                "one line per reference line"
            )

    def links(self, sentences: "Sequence[SentenceErrors]") -> "list[tuple[Links, Links]] | None":
        """Return the links of each source sentence with its reference and with its translation."""
        if self.linker is None:
            return None
        pairs = [(sentence.source, sentence.reference) for sentence in sentences]
        self.linker.warn_if_unknown_words(pairs)
        produced = self.linker.align([(sentence.source, sentence.output) for sentence in sentences])
        if self.reference_links is None:
            wanted = self.linker.align(pairs)
        else:
            wanted = [self._checked_links(sentence) for sentence in sentences]
        return list(zip(wanted, produced, strict=True))

    def _checked_links(self, sentence: "SentenceErrors") -> "Links":
        from regard.data.links import check_links

        assert self.reference_links is not None
        # Line numbers count from 1. Lines that are too long have no sentence here.
        links = self.reference_links[sentence.line - 1]
        words = {"source": len(sentence.source), "reference": len(sentence.reference)}
        check_links(links, words, f"{self.name}:{sentence.line}", " with the tokenization of the model")
        return links


def _collect_sentences(
    results: "Iterator[LineResult]",
    pairs: Sequence[tuple[str, str]],
    translator: "BaseTranslator",
    link_source: _LinkSource,
    lowercase: bool,
) -> "list[SentenceErrors]":
    """Return the sentences as words, with their attention and links."""
    from dataclasses import replace

    from regard.reporting.systems import sentence_from_result

    sentences = [
        sentence_from_result(result, pairs[result.line.number - 1][1], translator, lowercase)
        for result in results
    ]
    links = link_source.links(sentences)
    if links is None:
        return sentences
    return [replace(sentence, links=found) for sentence, found in zip(sentences, links, strict=True)]


def _show(
    file: "Output", sentences: "Sequence[SentenceErrors]", scores: dict[str, float], examined: int
) -> None:
    """Write the sentences and the scores, with colors on a terminal and as plain text otherwise."""
    from rich.console import Console
    from rich.text import Text

    from regard.reporting.error_markup import LEGEND, format_errors

    console = Console(highlight=False, markup=False) if file.is_terminal else None
    shown = ", ".join(f"{name.upper()} {score:.2f}" for name, score in scores.items())
    last = [Text(LEGEND, "dim"), Text(f"{shown}; {len(sentences)} of {examined} sentences shown")]
    width = console.width if console else _LINE_WIDTH
    for block in (*(format_errors(sentence, width) for sentence in sentences), last):
        for line in block:
            if console is not None:
                console.print(line)
            else:
                file.write(line.plain + "\n")
        if block is not last:
            file.write("\n")
