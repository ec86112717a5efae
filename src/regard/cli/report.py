"""`regard report`: an HTML page with the translations, attention and scores of one or more systems."""

from pathlib import Path
from typing import Annotated, Any

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
from regard.errors import UsageError

__all__ = ["report_command"]


def report_command(
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
    from regard.api.report import ReportOptions, report
    from regard.cli.analyze import split_names
    from regard.training.device import set_num_threads

    set_num_threads(num_threads)
    if (test is None) == (not config_test):
        raise UsageError(
            "give either --test SOURCE REFERENCE or --config-test, which uses the files in the configuration "
            "of the first model"
        )
    maps: Any = attention_maps  # checked by ReportOptions
    options = ReportOptions(
        split_names(names), title, max_lines, gold_links, maps, tokenize, lowercase, meteor
    )
    written = report(
        models,
        test=test,
        output=output,
        aligner=aligner,
        options=options,
        progress=track,
        batch_size=batch_size,
        precision=precision,
        device=device,
        num_threads=num_threads,
        beam_size=beam_size,
        length_penalty=length_penalty,
        coverage_penalty=coverage_penalty,
        layer=layer,
        head=head,
        shift=shift,
    )
    print_message(f"wrote {written}")
