"""`regard report`: an HTML page with the translations, attention and scores of one or more systems."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.attention_options import HeadOption, LayerOption, ShiftOption
from regard.cli.common_options import (
    BatchSizeOption,
    BeamSizeOption,
    CoveragePenaltyOption,
    DeviceOption,
    GoldLinksOption,
    LengthPenaltyOption,
    NumThreadsOption,
    PrecisionOption,
)
from regard.cli.progress import print_message, track
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.api.model import Model
    from regard.data.corpus import CorpusConfig
    from regard.data.links import GoldLinks
    from regard.reporting.systems import SystemResults

__all__ = ["report"]


def report(
    models: Annotated[
        list[Path],
        typer.Argument(
            help="Model directories to compare. Files with translations are accepted as well.",
            show_default=False,
        ),
    ],
    test: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            help="Source text and reference translations, plain or gzip.",
            metavar="SOURCE REFERENCE",
            show_default=False,
        ),
    ] = None,
    config_test: Annotated[
        bool,
        typer.Option(
            "--config-test",
            help="Instead of --test: use the test text in the configuration of the first model, or else its "
            "validation text. The configuration may name any file on this machine, so use this option only "
            "with your own models.",
        ),
    ] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="Output file for the HTML page.")] = Path(
        "report.html"
    ),
    names: Annotated[
        str | None,
        typer.Option(
            help="Display names of the systems, separated by commas. Default: the names of the directories "
            "and files.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default=False)] = None,
    max_lines: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of lines, from the start of the text. Default: all lines.",
            min=1,
            show_default=False,
            max=1_000_000_000,
        ),
    ] = None,
    aligner: Annotated[
        Path | None,
        typer.Option(
            help="Directory of a word aligner (`regard align --save-aligner`), needed to find dropped "
            "words. Its links are also shown on the attention maps.",
            show_default=False,
        ),
    ] = None,
    gold_links: GoldLinksOption = None,
    attention_maps: Annotated[
        str,
        typer.Option(
            help="Attention maps on the page. links: only the map that is used for word links. all: also "
            "the maps of all layers and heads, and the prior attention."
        ),
    ] = "links",
    layer: LayerOption = None,
    head: HeadOption = None,
    shift: ShiftOption = None,
    tokenize: Annotated[
        str,
        typer.Option(
            help="Tokenizer for BLEU and lengths: 13a, none (the text is already tokenized) or another "
            "tokenizer of `regard evaluate`."
        ),
    ] = "13a",
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Ignore case in BLEU, chrF, REP and word links.")
    ] = False,
    meteor: Annotated[
        bool, typer.Option(help="Whether to compute METEOR if it is installed (English references only).")
    ] = True,
    beam_size: BeamSizeOption = None,
    length_penalty: LengthPenaltyOption = None,
    coverage_penalty: CoveragePenaltyOption = None,
    batch_size: BatchSizeOption = None,
    precision: PrecisionOption = "float32",
    device: DeviceOption = "auto",
    num_threads: NumThreadsOption = None,
) -> None:
    """Write an HTML page that compares the translations and the attention of one or more systems.

    The page works without a network connection. For each sentence, it shows dropped and repeated words and
    the attention of each target word. It also shows scores with confidence intervals, scores by source
    length, statistics of the attention, and training curves. Sentences can be sorted, filtered, searched and
    linked to. As in `regard analyze errors`, REP and DROP use the words of each model's tokenizers, with
    subword tokens joined. As in `regard analyze attention`, the statistics of the attention are computed by
    forced decoding of the references.

    Example: regard report runs/first --test test.de test.en --aligner aligner -o report.html

    Example: regard report runs/soft runs/constrained --test test.de test.en --names soft,bounded
    """
    if attention_maps not in ("links", "all"):
        raise UsageError(f"--attention-maps {attention_maps!r}: expected links or all")
    from regard.api.loading import name_models
    from regard.cli.analyze import split_names
    from regard.cli.output import open_output
    from regard.metrics.translation import check_tokenizer
    from regard.reporting.page import Report, render
    from regard.reporting.scores import compute_scores
    from regard.training.device import set_num_threads

    set_num_threads(num_threads)
    check_tokenizer(tokenize)
    if (test is None) == (not config_test):
        raise UsageError(
            "give either --test SOURCE REFERENCE or --config-test, which uses the files in the configuration "
            "of the first model"
        )
    text = _TestSet.read(test, models[0], gold_links, max_lines)
    source, reference = text.files
    named = name_models(models, split_names(names))
    settings = {
        "batch_size": batch_size,
        "precision": precision,
        "device": device,
        "num_threads": num_threads,
        "beam_size": beam_size,
        "length_penalty": length_penalty,
        "coverage_penalty": coverage_penalty,
        "layer": layer,
        "head": head,
        "shift": shift,
    }
    with open_output(output) as file:
        systems = _collect(named, text, settings, attention_maps == "all", lowercase)
        if gold_links is not None:
            _check_gold(systems, text, gold_links)
        if aligner is not None:
            from regard.analysis.linking import Linker
            from regard.reporting.systems import add_word_links

            linker = Linker.load(aligner, lowercase, num_threads)
            for note in linker.unknown_word_notes(_words(systems[0])):
                print_message(note)
            systems = [add_word_links(system, linker.align) for system in systems]
        scores = compute_scores(systems, text.pairs, tokenize, lowercase, meteor, text.gold)
        name = title or f"{', '.join(named)}: {source.name}"
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
    print_message(f"wrote {output}")


@dataclass(frozen=True)
class _TestSet:
    """The text of a report.

    Attributes:
        files: Files of the source text and of the references.
        pairs: Pairs of source and reference lines.
        gold: Gold links of the pairs, if given.
        num_lines: Number of lines in the files, of which `pairs` has the first ones.
    """

    files: tuple[Path, Path]
    pairs: list[tuple[str, str]]
    gold: "list[GoldLinks] | None"
    num_lines: int

    @classmethod
    def read(
        cls, test: tuple[Path, Path] | None, model: Path, gold: Path | None, lines: int | None
    ) -> "_TestSet":
        """Read the given files or, by default, those in the configuration of the model.

        Raises:
            UsageError: If the model has no configuration with a text.
            DataError: If a file cannot be read, contains no text or has the wrong number of lines.
        """
        from regard.config import from_dict
        from regard.data.corpus import CorpusConfig, corpus_name, read_pairs
        from regard.data.links import read_gold_links

        if test is not None:
            corpus = from_dict(CorpusConfig, {"source": str(test[0]), "target": str(test[1])})
        else:
            corpus = _config_corpus(model)
        pairs = list(read_pairs(corpus))
        for side, what in enumerate(("source", "reference")):
            if not any(pair[side].strip() for pair in pairs):
                raise DataError(f"{corpus_name(corpus)}: the {what} contains no text")
        links = None if gold is None else list(read_gold_links(gold))
        if links is not None and len(links) != len(pairs):
            raise DataError(
                f"{gold} has {len(links)} lines but {corpus_name(corpus)} has {len(pairs)}: "
                "gold links need one line per source line"
            )
        names = corpus.source or corpus.tsv or "", corpus.target or corpus.tsv or ""
        files = Path(names[0]), Path(names[1])
        return cls(files, pairs[:lines], None if links is None else links[:lines], len(pairs))


def _config_corpus(model: Path) -> "CorpusConfig":
    """Return the test text in the configuration of a model, or else its validation text."""
    from regard.data.hf import is_hf_directory
    from regard.run_config import load_config

    if not model.is_dir():
        raise UsageError(
            f"{model}: this is not a model directory with a configuration. Give --test SOURCE REFERENCE."
        )
    if is_hf_directory(model):
        raise UsageError(
            f"{model}: the configuration of a Hugging Face model names no text. Give --test SOURCE REFERENCE."
        )
    data = load_config(model).data
    return data.test or data.valid


def _collect(
    named: "dict[str, Model | list[Path]]",
    text: _TestSet,
    settings: dict[str, Any],
    all_layers: bool,
    lowercase: bool,
) -> "list[SystemResults]":
    """Return the results of each system on the text, in the order of the command line."""
    from regard.api.loading import load_systems
    from regard.reporting.systems import collect_system

    found = {
        system.name: collect_system(system, text.pairs, track, all_layers, lowercase)
        for system in load_systems(named, settings, text.num_lines, str(text.files[0]))
    }
    return [found[name] for name in named]


def _check_gold(systems: "Sequence[SystemResults]", text: _TestSet, gold: Path) -> None:
    """Check that the gold links stay within the sentences as tokenized by each model.

    Raises:
        DataError: If a link points beyond its sentence; the links then belong to another text, or to another
            tokenization.
    """
    from regard.data.links import check_links

    assert text.gold is not None
    for system in systems:
        for one, links, attention in zip(system.sentences, text.gold, system.attention, strict=False):
            if attention is not None:
                words = {"source": len(one.sentence.source), "reference": len(one.sentence.reference)}
                where = f"{gold}:{one.sentence.line}"
                check_links(links.possible, words, where, f" with the tokenization of {system.name}")


def _words(system: "SystemResults") -> list[tuple[Sequence[str], Sequence[str]]]:
    return [(one.sentence.source, one.sentence.reference) for one in system.sentences]


def _notes(systems: "Sequence[SystemResults]", text: _TestSet, tokenize: str) -> list[str]:
    """Return notes for the reader of the page, such as the number of skipped lines."""
    from regard.metrics.translation import looks_tokenized

    notes = []
    if len(text.pairs) < text.num_lines:
        notes.append(f"Only the first {len(text.pairs):,} of {text.num_lines:,} lines are included.")
    if tokenize != "none" and looks_tokenized([reference for _, reference in text.pairs]):
        notes.append(
            f"Many references end in ' .', so the text may be tokenized. The tokenizer {tokenize} of BLEU "
            "expects detokenized text. Use --tokenize none for tokenized text."
        )
    for system in systems:
        num_too_long = sum(one.error is not None for one in system.sentences)
        if num_too_long:
            notes.append(
                f"{system.name}: {num_too_long} lines are too long for the model and were not translated."
            )
        if system.curves is not None and system.curves.num_malformed_lines:
            notes.append(
                f"{system.name}: {system.curves.num_malformed_lines} lines of record.jsonl cannot be read."
            )
    return notes
