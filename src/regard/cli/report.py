"""`regard report`: one offline page of what models did with a text, sentence by sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.alignment_options import HeadOption, LayerOption, ShiftOption
from regard.cli.linker import Linker
from regard.cli.progress import following, say
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.cli.analysed import Analysed
    from regard.data.corpus import CorpusConfig
    from regard.data.links import GoldLinks
    from regard.data.text import TextPair
    from regard.report.collect import System

__all__ = ["report"]


def report(
    models: Annotated[
        list[Path],
        typer.Argument(
            help="Model folders, side by side; a file in the place of one is taken for translations.",
            show_default=False,
        ),
    ],
    test: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            help="The text and its references, plain or gzip.",
            metavar="SOURCE REFERENCE",
            show_default=False,
        ),
    ] = None,
    own_test: Annotated[
        bool,
        typer.Option(
            "--own-test",
            help="Instead of --test: the files that the first model's config names as its test text, or "
            "else as its validation text. They are read wherever they lie: use it with models of your own.",
        ),
    ] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("report.html"),
    names: Annotated[
        str | None,
        typer.Option(
            help="Display names of the systems, separated by commas. Default: the names of the directories "
            "and files.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The page's title.", show_default=False)] = None,
    lines: Annotated[
        int | None,
        typer.Option(help="The first so many lines; else all.", min=1, show_default=False, max=1_000_000_000),
    ] = None,
    aligner: Annotated[
        Path | None,
        typer.Option(
            help="A word aligner, from `regard align --save`: it tells what was dropped, and its links are "
            "drawn over the maps.",
            show_default=False,
        ),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option(
            help="Gold word links of the text (.talp: i-j sure, ipj possible), for the alignment error rate.",
            show_default=False,
        ),
    ] = None,
    maps: Annotated[
        str,
        typer.Option(
            help="links: the attention map that word links come from; all: every layer and head too, and "
            "what attention was before each word was known."
        ),
    ] = "links",
    layer: LayerOption = None,
    head: HeadOption = None,
    shift: ShiftOption = None,
    tokenize: Annotated[
        str,
        typer.Option(
            help="The words of BLEU and lengths: 13a, none (text is tokenised), others as of `evaluate`."
        ),
    ] = "13a",
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Ignore case in BLEU, chrF, REP and word links.")
    ] = False,
    meteor: Annotated[
        bool, typer.Option(help="METEOR where it is installed; its data is for English references.")
    ] = True,
    beam: Annotated[
        int | None,
        typer.Option(help="Beam size. 1 is greedy search.", show_default=False),
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Alpha of the length penalty. 0 disables it.", show_default=False)
    ] = None,
    coverage_penalty: Annotated[
        float | None,
        typer.Option(help="Beta of the coverage penalty. 0 disables it.", show_default=False),
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Maximum number of sentences in a batch.")] = None,
    precision: Annotated[
        str, typer.Option(help="float32, bfloat16 (faster) or int8 (faster, CPU only).")
    ] = "float32",
    device: Annotated[str, typer.Option(help="auto (a GPU if available), cpu, cuda or cuda:N.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="Number of CPU threads.", min=1, max=1_024)] = None,
) -> None:
    """Make one page of what models did with a text; a browser opens it without a network.

    It shows for each sentence what was dropped and said twice, and where each word was looked for; scores
    with intervals, by length too; how attention was spread; how training went. Sentences can be sorted,
    filtered, searched and linked to. REP and DROP are of words as each model's tokenizers cut them, subwords
    joined, as of `regard analyse --worst`; figures of attention are under the references, as of
    `regard analyse --attention`.

    Example: regard report runs/first --test test.de test.en --aligner aligner -o report.html

    Example: regard report runs/soft runs/constrained --test test.de test.en --names soft,bounded
    """
    if maps not in ("links", "all"):
        raise UsageError(f"--maps {maps!r}: expected links or all")
    from regard.cli.analysed import Analysed
    from regard.cli.output import open_output
    from regard.metrics.translation import as_tokenizer
    from regard.report.page import Report, render
    from regard.report.scores import score_systems
    from regard.training.device import use_threads

    use_threads(threads)
    as_tokenizer(tokenize)
    if (test is None) == (not own_test):
        raise UsageError(
            "give the text either as --test SOURCE REFERENCE or as --own-test, which reads the files that "
            "the first model's config names"
        )
    text = _Text.read(test, models[0], gold, lines)
    source, reference = text.files
    analysed = Analysed(models, source, reference, output, None, batch, precision, device)
    called = analysed.names(names)
    search = {
        "beam": beam,
        "length_penalty": length_penalty,
        "coverage_penalty": coverage_penalty,
        "layer": layer,
        "head": head,
        "shift": shift,
    }
    with open_output(output) as file:
        systems = _collect(analysed, called, text, search, maps == "all", lowercase, threads)
        if gold is not None:
            _check_gold(systems, text, gold)
        if aligner is not None:
            from regard.report.collect import link_system

            linker = Linker.load(aligner, lowercase, threads)
            linker.warn_if_strange(_words(systems[0]))
            systems = [link_system(system, linker.align) for system in systems]
        scores = score_systems(systems, text.pairs, tokenize, lowercase, meteor, text.gold)
        name = title or f"{', '.join(called)}: {source.name}"
        page = Report(
            name,
            str(source),
            str(reference),
            text.pairs,
            systems,
            scores,
            text.gold,
            _notes(systems, text, tokenize),
        )
        file.write(render(page))
    say(f"wrote {output}")


@dataclass(frozen=True)
class _Text:
    """The lines to report on.

    Attributes:
        files: Where the text and its references come from.
        pairs: The lines and their references.
        gold: Their gold links.
        whole: How many lines there are in the files.
    """

    files: tuple[Path, Path]
    pairs: list[tuple[str, str]]
    gold: "list[GoldLinks] | None"
    whole: int

    @classmethod
    def read(
        cls, test: tuple[Path, Path] | None, model: Path, gold: Path | None, lines: int | None
    ) -> "_Text":
        """Read the files that were given, or those of the model's config where none were.

        Raises:
            UsageError: if there are none.
            DataError: if a file is not what it should be.
        """
        from regard.config import from_dict
        from regard.data.corpus import CorpusConfig, corpus_name, read_pairs
        from regard.data.links import read_gold

        if test is not None:
            corpus = from_dict(CorpusConfig, {"source": str(test[0]), "target": str(test[1])})
        else:
            corpus = _own_text(model)
        pairs = list(read_pairs(corpus))
        for side, what in enumerate(("source", "reference")):
            if not any(pair[side].strip() for pair in pairs):
                raise DataError(f"{corpus_name(corpus)}: the {what} holds no text")
        links = None if gold is None else list(read_gold(gold))
        if links is not None and len(links) != len(pairs):
            raise DataError(
                f"{gold} has {len(links)} lines, {corpus_name(corpus)} has {len(pairs)}; "
                "expected the same number"
            )
        names = corpus.source or corpus.tsv or "", corpus.target or corpus.tsv or ""
        files = Path(names[0]), Path(names[1])
        return cls(files, pairs[:lines], None if links is None else links[:lines], len(pairs))


def _own_text(model: Path) -> "CorpusConfig":
    """The text a model's config names."""
    from regard.data.hf import is_hf_folder
    from regard.experiment import load_config

    if not model.is_dir():
        raise UsageError(
            f"{model}: not a model folder, whose config names a text; give --test SOURCE REFERENCE"
        )
    if is_hf_folder(model):
        raise UsageError(f"{model}: a Hugging Face folder names no text; give --test SOURCE REFERENCE")
    data = load_config(model).data
    return data.test or data.valid


def _collect(
    analysed: "Analysed",
    names: Sequence[str],
    text: _Text,
    search: dict[str, Any],
    every: bool,
    lowercase: bool,
    threads: int | None,
) -> "list[System]":
    """What each system makes of the text, in their order."""
    from regard.api.phrases import load_translator
    from regard.data.corpus import read_lines
    from regard.report.collect import collect_lines, collect_model
    from regard.report.curves import read_curves

    given: dict[str, list[str]] = {}
    for name, path in zip(names, analysed.models, strict=True):
        # Before models are run: files are quickly found wanting.
        if path.is_dir():
            continue
        if not path.exists():
            raise UsageError(f"{path}: neither a model folder nor a file of translations")
        given[name] = list(read_lines(path))
        if len(given[name]) != text.whole:
            raise DataError(
                f"{path} has {len(given[name])} lines, {text.files[0]} has {text.whole}; "
                "expected the same number"
            )
    settings = {"nbest": 1, "batch": analysed.batch, **search}
    found: dict[str, System] = {}
    cutting: TextPair | None = None
    for name, path in zip(names, analysed.models, strict=True):
        if name in given:
            continue
        translator = load_translator([path], analysed.device, analysed.precision, settings, threads)
        found[name] = collect_model(
            name, path, translator, text.pairs, following, every, lowercase, read_curves(path)
        )
        cutting = cutting or translator.text
    for name, path in zip(names, analysed.models, strict=True):
        if name in given:
            own_lines = given[name][: len(text.pairs)]
            found[name] = collect_lines(name, path, own_lines, text.pairs, cutting, lowercase)
    return [found[name] for name in names]


def _check_gold(systems: "Sequence[System]", text: _Text, gold: Path) -> None:
    """Refuse links of another text, or of one that is cut into other words."""
    from regard.data.links import check_links

    assert text.gold is not None
    for system in systems:
        for one, links, looked in zip(system.sentences, text.gold, system.attention, strict=False):
            if looked is not None:
                words = {"source": len(one.sentence.source), "reference": len(one.sentence.reference)}
                where = f"{gold}:{one.sentence.line}"
                check_links(links.possible, words, where, f" as {system.name} reads it")


def _words(system: "System") -> list[tuple[Sequence[str], Sequence[str]]]:
    return [(one.sentence.source, one.sentence.reference) for one in system.sentences]


def _notes(systems: "Sequence[System]", text: _Text, tokenize: str) -> list[str]:
    """What a reader should know."""
    from regard.metrics.translation import looks_tokenized

    notes = []
    if len(text.pairs) < text.whole:
        notes.append(f"The first {len(text.pairs):,} of {text.whole:,} lines.")
    if tokenize != "none" and looks_tokenized([reference for _, reference in text.pairs]):
        notes.append(
            f"Many references end in ' .': is the text tokenised? BLEU's tokenizer {tokenize} expects "
            "detokenised text; --tokenize none takes the words as they stand."
        )
    for system in systems:
        refused = sum(one.refused is not None for one in system.sentences)
        if refused:
            notes.append(f"{system.name} left {refused} lines empty: they are too long for it.")
        if system.curves is not None and system.curves.broken:
            notes.append(f"{system.name}: {system.curves.broken} lines of its record.jsonl cannot be read.")
    return notes
