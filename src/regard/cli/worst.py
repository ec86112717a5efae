"""`regard analyze errors`: dropped and repeated words of translations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.analysed import Analysed
from regard.cli.linker import Linker
from regard.cli.progress import following, say
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.cli.output import Output
    from regard.data.links import Links
    from regard.decoding.phrases import PhraseTranslator
    from regard.decoding.translate import LineResult, Translator
    from regard.report.worst import Sentence

__all__ = ["WorstOptions", "show_worst"]

_WIDTH = 100  # line width in characters if the output is not a terminal


@dataclass(frozen=True)
class WorstOptions:
    """The options of `regard analyze errors`.

    Attributes:
        aligner: Directory of a word aligner. None finds no dropped words.
        links_reference: File with links of source and reference, used instead of the aligner's.
        number: Number of sentences to show. 0 shows all.
        lowercase: Whether to ignore case.
        search: Search settings, as arguments of `search_settings`.
        threads: Number of CPU threads. None uses all processors.
    """

    aligner: Path | None
    links_reference: Path | None
    number: int
    lowercase: bool
    search: dict[str, Any]
    threads: int | None


def show_worst(analysed: Analysed, options: WorstOptions) -> None:
    """Translate and show the sentences, starting with those that have the highest number of errors.

    Raises:
        UsageError: If an option is missing.
        DataError: If a file cannot be read or has the wrong format.
    """
    from regard.api.phrases import load_translator
    from regard.cli.output import open_output, write_json
    from regard.report.worst import corpus_scores, worst_first

    if options.links_reference is not None and options.aligner is None:
        raise UsageError(
            "--links-reference needs --aligner as well, for the links between source and translations"
        )
    linking = _Linking.read(options)
    pairs = analysed.pairs()
    linking.check(len(pairs), analysed.reference)
    with open_output(analysed.output) as file:
        search = {"nbest": 1, "batch": analysed.batch, **options.search}
        translator = load_translator(
            analysed.models, analysed.device, analysed.precision, search, options.threads
        )
        sentences = _examine(_translated(translator, pairs), pairs, translator, linking, options.lowercase)
        if not sentences:
            raise DataError(
                f"{analysed.source}: all lines are too long for the model: nothing was translated"
            )
        ranked, scores = worst_first(sentences), corpus_scores(sentences)
        _show(file, ranked[: options.number or None], scores, len(sentences))
        aligner, links = options.aligner, options.links_reference
        figures = {
            "models": [str(folder) for folder in analysed.models],
            "source": str(analysed.source),
            "reference": str(analysed.reference),
            "aligner": None if aligner is None else str(aligner),
            "links_reference": None if links is None else str(links),
            "lowercase": options.lowercase,
            "lines": len(pairs),
            **scores,
            "sentences": [sentence.record() for sentence in ranked],
        }
        write_json(analysed.json_file, figures)
    if aligner is None:
        say("dropped words cannot be found without --aligner: the sentences are ranked by repetitions only")


def _translated(
    translator: "Translator | PhraseTranslator", pairs: Sequence[tuple[str, str]]
) -> "Iterator[LineResult]":
    """Yield the translation results of all lines that are not too long."""
    from regard.decoding.translate import number_lines

    lines = number_lines(source for source, _ in pairs)
    for result in following(translator.translate(lines), "translate", len(pairs)):
        if not result.refused:
            yield result


@dataclass(frozen=True)
class _Linking:
    """The source of word links: an aligner and, optionally, a file with the links of the references.

    Attributes:
        linker: The aligner. None computes no links.
        given: Links of the source and the reference of each line, from a file.
        name: Name of the file.
    """

    linker: Linker | None
    given: "list[Links] | None"
    name: str

    @classmethod
    def read(cls, options: WorstOptions) -> "_Linking":
        """Load the aligner and the links that are given in the options."""
        from regard.data.corpus import read_lines
        from regard.data.links import parse_links

        folder, links = options.aligner, options.links_reference
        linker = None if folder is None else Linker.load(folder, options.lowercase, options.threads)
        given = None
        if links is not None:
            given = [parse_links(line, f"{links}:{n}") for n, line in enumerate(read_lines(links), 1)]
        return cls(linker, given, str(links))

    def check(self, lines: int, reference: Path) -> None:
        """Check that the file has one line of links per reference line.

        Raises:
            DataError: If the number of lines differs.
        """
        if self.given is not None and len(self.given) != lines:
            raise DataError(
                f"{self.name} has {len(self.given)} lines but {reference} has {lines}: links need one line "
                "per reference line"
            )

    def links(self, sentences: "Sequence[Sentence]") -> "list[tuple[Links, Links]] | None":
        """Return the links of each source sentence with its reference and with its translation."""
        if self.linker is None:
            return None
        pairs = [(sentence.source, sentence.reference) for sentence in sentences]
        self.linker.warn_if_strange(pairs)
        produced = self.linker.align([(sentence.source, sentence.output) for sentence in sentences])
        if self.given is None:
            wanted = self.linker.align(pairs)
        else:
            wanted = [self._given(sentence) for sentence in sentences]
        return list(zip(wanted, produced, strict=True))

    def _given(self, sentence: "Sentence") -> "Links":
        from regard.data.links import check_links

        assert self.given is not None
        # Line numbers count from 1. Lines that are too long have no sentence here.
        links = self.given[sentence.line - 1]
        words = {"source": len(sentence.source), "reference": len(sentence.reference)}
        check_links(links, words, f"{self.name}:{sentence.line}", " with the tokenization of the model")
        return links


def _examine(
    results: "Iterator[LineResult]",
    pairs: Sequence[tuple[str, str]],
    translator: "Translator | PhraseTranslator",
    linking: _Linking,
    lowercase: bool,
) -> "list[Sentence]":
    """Return the sentences as words, with their attention and links."""
    from dataclasses import replace

    from regard.report.collect import examine

    sentences = [
        examine(result, pairs[result.line.number - 1][1], translator, lowercase) for result in results
    ]
    links = linking.links(sentences)
    if links is None:
        return sentences
    return [replace(sentence, links=found) for sentence, found in zip(sentences, links, strict=True)]


def _show(file: "Output", sentences: "Sequence[Sentence]", scores: dict[str, float], examined: int) -> None:
    """Write the sentences and the scores, with colors on a terminal and as plain text otherwise."""
    from rich.console import Console
    from rich.text import Text

    from regard.report.marked import LEGEND, marked_lines

    console = Console(highlight=False, markup=False) if file.is_terminal else None
    shown = ", ".join(f"{name.upper()} {score:.2f}" for name, score in scores.items())
    last = [Text(LEGEND, "dim"), Text(f"{shown}; {len(sentences)} of {examined} sentences shown")]
    width = console.width if console else _WIDTH
    for block in (*(marked_lines(sentence, width) for sentence in sentences), last):
        for line in block:
            if console is not None:
                console.print(line)
            else:
                file.write(line.plain + "\n")
        if block is not last:
            file.write("\n")
