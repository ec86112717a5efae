"""`regard analyse`: translate a text and show what the model did with it, sentence by sentence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.alignment import Corpus, WordAligner
    from regard.cli.output import Output
    from regard.data.links import Links
    from regard.data.text import Side, TextPair
    from regard.decoding.translate import LineResult, Translation, Translator
    from regard.report.worst import Received, Sentence

__all__ = ["analyse"]

_WIDTH = 100  # of plain text
_STRANGE = 0.3  # the share of words an aligner may not know before a person is told


def analyse(
    models: Annotated[
        list[Path], typer.Argument(help="A model folder; several make an ensemble.", show_default=False)
    ],
    source: Annotated[Path, typer.Option(help="The text to translate, plain or gzip.", show_default=False)],
    reference: Annotated[Path, typer.Option(help="Its translations, line by line.", show_default=False)],
    worst: Annotated[
        bool, typer.Option("--worst", help="Words dropped and words repeated, worst sentences first.")
    ] = False,
    aligner: Annotated[
        Path | None,
        typer.Option(
            help="A word aligner, from `regard align --save`: it tells what was dropped.", show_default=False
        ),
    ] = None,
    links_reference: Annotated[
        Path | None,
        typer.Option(
            help="Word links (i-j) of source and reference, in the place of the aligner's.",
            show_default=False,
        ),
    ] = None,
    number: Annotated[
        int, typer.Option("--number", "-n", help="How many sentences to show; 0: all.", min=0)
    ] = 10,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The sentences; else standard output.", show_default=False),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write everything about all sentences to this file.", show_default=False),
    ] = None,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Ignore case in repetitions and word links.")
    ] = False,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept alive; 1 is greedy search.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Alpha of the length penalty; 0: off.")] = None,
    coverage_penalty: Annotated[
        float | None, typer.Option(help="Beta of the coverage penalty on neglected source words; 0: off.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="The most sentences in a batch.")] = None,
    precision: Annotated[str, typer.Option(help="float32, or bfloat16 (faster).")] = "float32",
    device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu, cuda, cuda:N.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="Threads on the CPU.", min=1)] = None,
) -> None:
    """Translate a text and show what went wrong.

    --worst: for each sentence, the source words that the reference covers and the translation does not, the
    words said again and again, and the attention each source word got against its fertility (Malaviya et al.
    2018); then REP and DROP of the text. Words are those of the model's tokenizers, subwords joined; a
    sentence scores what it adds to REP, and 1 for each word dropped.

    Example: regard analyse runs/first --worst --source test.de --reference test.en --aligner aligner
    """
    if not worst:
        raise UsageError("nothing to analyse: say what to look for, with --worst")
    if links_reference is not None and aligner is None:
        raise UsageError(
            "--links-reference needs --aligner too, which links the source with the translations"
        )

    from regard.cli.output import open_output, write_json
    from regard.report.worst import corpus_scores, worst_first
    from regard.training.device import use_threads

    use_threads(threads)
    linker = _Linker.read(aligner, links_reference, lowercase, threads or 0)
    pairs = _read_pairs(source, reference)
    linker.check(len(pairs), reference)
    options = {
        "beam": beam,
        "nbest": 1,
        "length_penalty": length_penalty,
        "coverage_penalty": coverage_penalty,
        "batch": batch,
    }
    with open_output(output) as file:
        translator = _translator(models, options, device, precision)
        sentences = _examine(_translated(translator, pairs), pairs, translator, linker, lowercase)
        if not sentences:
            raise DataError(f"{source}: every line is too long to be translated")
        ranked, scores = worst_first(sentences), corpus_scores(sentences)
        _show_worst(file, ranked[: number or None], scores, len(sentences))
        figures = {
            "models": [str(folder) for folder in models],
            "source": str(source),
            "reference": str(reference),
            "aligner": None if aligner is None else str(aligner),
            "links_reference": None if links_reference is None else str(links_reference),
            "lowercase": lowercase,
            "lines": len(pairs),
            **scores,
            "sentences": [sentence.record() for sentence in ranked],
        }
        write_json(json_file, figures)
    if aligner is None:
        _say("without --aligner nothing is known of dropped words: sentences are ranked by repetitions alone")


# What every mode needs: the text, the models, the translations.


def _read_pairs(source: Path, reference: Path) -> list[tuple[str, str]]:
    from regard.config import from_dict
    from regard.data.corpus import CorpusConfig, read_pairs

    pairs = list(read_pairs(from_dict(CorpusConfig, {"source": str(source), "target": str(reference)})))
    for side, path in enumerate((source, reference)):
        if not any(pair[side].strip() for pair in pairs):
            raise DataError(f"{path}: holds no text")
    return pairs


def _translator(models: list[Path], options: dict[str, Any], device: str, precision: str) -> "Translator":
    from regard.cli.models import load_models, search_settings
    from regard.decoding.translate import Translator

    model, text, base = load_models(models, device, precision)
    return Translator(model, text, search_settings(base, options))


def _translated(translator: "Translator", pairs: Sequence[tuple[str, str]]) -> "Iterator[LineResult]":
    """The lines that are not too long, with a progress bar on standard error where that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    from regard.decoding.translate import number_lines

    lines = number_lines(source for source, _ in pairs)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("translate", total=len(pairs))
        for result in translator.translate(lines):
            bar.advance(task)
            if not result.refused:
                yield result


def _say(message: str) -> None:
    from rich.console import Console

    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(message)


# --worst


@dataclass(frozen=True)
class _Linker:
    """Where word links come from: an aligner, for the references perhaps a file.

    Attributes:
        aligner: The aligner.
        given: The links of each line's source and reference.
        name: Where they come from.
        lowercase: Whether to ignore case.
        threads: Of compiled work; 0: as many as there are processors.
    """

    aligner: "WordAligner | None"
    given: "list[Links] | None"
    name: str
    lowercase: bool
    threads: int

    @classmethod
    def read(cls, aligner: Path | None, links: Path | None, lowercase: bool, threads: int) -> "_Linker":
        """Load what there is."""
        from regard.alignment import WordAligner
        from regard.data.corpus import read_lines
        from regard.data.links import parse_links

        trained = None if aligner is None else WordAligner.load(aligner)
        given = None
        if links is not None:
            given = [parse_links(line, f"{links}:{n}") for n, line in enumerate(read_lines(links), 1)]
        return cls(
            trained, given, str(links), lowercase or (trained is not None and trained.lowercase), threads
        )

    def check(self, lines: int, reference: Path) -> None:
        """Refuse links of another text."""
        if self.given is not None and len(self.given) != lines:
            raise DataError(
                f"{self.name} has {len(self.given)} lines, {reference} has {lines}; expected the same number"
            )

    def links(self, sentences: "Sequence[Sentence]") -> "list[tuple[Links, Links]] | None":
        """The links of each source sentence with its reference, and with its translation."""
        if self.aligner is None:
            return None
        self._warn_if_strange(sentences)
        said = self._align([(sentence.source, sentence.output) for sentence in sentences])
        if self.given is None:
            wanted = self._align([(sentence.source, sentence.reference) for sentence in sentences])
        else:
            wanted = [self._given(sentence) for sentence in sentences]
        return list(zip(wanted, said, strict=True))

    def _given(self, sentence: "Sentence") -> "Links":
        assert self.given is not None
        links = self.given[sentence.line - 1]
        for side, (name, words) in enumerate(
            (("source", sentence.source), ("reference", sentence.reference))
        ):
            beyond = sorted(link for link in links if link[side] >= len(words))
            if beyond:
                raise DataError(
                    f"{self.name}:{sentence.line}: link {beyond[0][0]}-{beyond[0][1]} points beyond the "
                    f"{name} sentence, which has {len(words)} words as the model reads it"
                )
        return links

    def _align(self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> "list[Links]":
        assert self.aligner is not None
        return list(self.aligner.align(self._corpus(pairs), threads=self.threads))

    def _corpus(self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> "Corpus":
        from regard.alignment import Corpus

        assert self.aligner is not None
        if self.lowercase:
            pairs = [([word.lower() for word in s], [word.lower() for word in t]) for s, t in pairs]
        return Corpus.from_tokens(pairs, self.aligner.words, allow_empty=True)

    def _warn_if_strange(self, sentences: "Sequence[Sentence]") -> None:
        """Tell of an aligner that hardly knows the text."""
        from regard.alignment.corpus import UNKNOWN

        corpus = self._corpus([(sentence.source, sentence.reference) for sentence in sentences])
        sides = corpus.source.tokens, corpus.target.tokens
        strange = sum(int((side == UNKNOWN).sum()) for side in sides) / max(sum(map(len, sides)), 1)
        if strange > _STRANGE:
            _say(
                f"the aligner has never seen {strange:.0%} of the words: was it trained on text cut into "
                "words as the model's tokenizers cut it?"
            )


def _examine(
    results: "Iterator[LineResult]",
    pairs: Sequence[tuple[str, str]],
    translator: "Translator",
    linker: _Linker,
    lowercase: bool,
) -> "list[Sentence]":
    """The sentences in words, with their attention and links."""
    from dataclasses import replace

    from regard.report.worst import Sentence

    text = translator.text
    sentences = []
    for result in results:
        best = result.translations[0] if result.translations else None
        own = result.source_tokens[: len(result.source_tokens) - (len(text.sink) if best else 0)]
        said = () if best is None else _words(text.target, _said(best, translator))
        sentences.append(
            Sentence(
                line=result.line.number,
                source=_words(text.source, own),
                reference=_words(text.target, text.target.tokenize(pairs[result.line.number - 1][1])),
                # A model may say two blanks in a row, with no word between them.
                output=tuple(word for word in said if word),
                received=None if best is None else _received(best, own, text),
                lowercase=lowercase,
            )
        )
    links = linker.links(sentences)
    if links is None:
        return sentences
    return [replace(sentence, links=found) for sentence, found in zip(sentences, links, strict=True)]


def _words(side: "Side", tokens: Sequence[str]) -> tuple[str, ...]:
    """The words that tokens are the pieces of."""
    from itertools import groupby

    pieces = groupby(zip(side.word_ids(tokens), tokens, strict=True), key=lambda piece: piece[0])
    return tuple(side.tokenizer.decode([token for _, token in word]).strip() for _, word in pieces)


def _said(best: "Translation", translator: "Translator") -> Sequence[str]:
    """The tokens of a translation as it was written."""
    from regard.data.vocabulary import UNK

    if translator.search.replace_unknown and UNK in best.hypothesis.tokens:
        return translator.text.target.tokenize(best.text)
    return best.tokens


def _received(best: "Translation", tokens: Sequence[str], text: "TextPair") -> "Received | None":
    """What the words of the source received; none where the model attends to nothing."""
    from regard.report.worst import received_attention

    if best.tokens and not best.weights.any():
        return None
    fertilities = None
    if text.budget is not None:
        (fertilities,) = text.budget.most([text.source.vocabulary.ids(tokens)])
    return received_attention(best.weights, best.source_words, fertilities)


def _show_worst(
    file: "Output", sentences: "Sequence[Sentence]", scores: dict[str, float], examined: int
) -> None:
    """In colour and as wide as it is on a terminal, plain lines elsewhere."""
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
