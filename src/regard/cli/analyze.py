"""`regard analyze`: translation errors, attention and scores by length of models on a text."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.attention_options import HeadOption, LayerOption, ShiftOption
from regard.cli.command import Command
from regard.cli.common_options import (
    BatchSizeOption,
    BeamSizeOption,
    CoveragePenaltyOption,
    DeviceOption,
    GoldLinksOption,
    LengthPenaltyOption,
    NumThreadsOption,
    PrecisionOption,
    ReferenceOption,
    SourceOption,
)

__all__ = ["analyze", "split_names"]

analyze = typer.Typer(
    name="analyze",
    help="Analyze the translation errors, the attention or the scores by length of models on a text.",
    no_args_is_help=True,
)

OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="Output file for the report. Default: standard output.", show_default=False
    ),
]
JsonOption = Annotated[
    Path | None,
    typer.Option(
        "--json", help="Also write the results, for all sentences, to this JSON file.", show_default=False
    ),
]
AlignerOption = Annotated[
    Path | None,
    typer.Option(
        help="Directory of a word aligner (`regard align --save-aligner`), needed to find dropped words.",
        show_default=False,
    ),
]
LowercaseOption = Annotated[
    bool,
    typer.Option("--lowercase", help="Ignore case in scores, repetitions and word links."),
]
FiguresOption = Annotated[
    Path | None,
    typer.Option(
        help="Directory for the figures (SVG). It is created if it does not exist. Default: no figures.",
        show_default=False,
    ),
]
NamesOption = Annotated[
    str | None,
    typer.Option(
        help="Display names of the systems, separated by commas. Default: the names of the directories.",
        show_default=False,
    ),
]


def split_names(names: str | None) -> list[str] | None:
    """Return the display names of `--names`, which are separated by commas."""
    return None if names is None else [name.strip() for name in names.split(",")]


@analyze.command("errors", cls=Command)
def errors_command(
    models: Annotated[
        list[Path],
        typer.Argument(help="Model directories. Several directories form an ensemble.", show_default=False),
    ],
    source: SourceOption,
    reference: ReferenceOption,
    output: OutputOption = None,
    json_file: JsonOption = None,
    aligner: AlignerOption = None,
    reference_links: Annotated[
        Path | None,
        typer.Option(
            help="File with word links (i-j) of source and reference, used instead of the aligner's links.",
            show_default=False,
        ),
    ] = None,
    num_sentences: Annotated[
        int,
        typer.Option(
            "--num-sentences",
            "-n",
            help="Number of sentences to show. 0 shows all.",
            min=0,
            max=1_000_000_000,
        ),
    ] = 10,
    lowercase: LowercaseOption = False,
    beam_size: BeamSizeOption = None,
    length_penalty: LengthPenaltyOption = None,
    coverage_penalty: CoveragePenaltyOption = None,
    layer: LayerOption = None,
    head: HeadOption = None,
    shift: ShiftOption = None,
    batch_size: BatchSizeOption = None,
    precision: PrecisionOption = "float32",
    device: DeviceOption = "auto",
    num_threads: NumThreadsOption = None,
) -> None:
    """Show the sentences with the highest number of dropped and repeated words.

    The text is translated. For each sentence, the output shows the source words that are covered by the
    reference but not by the translation, the repeated words, and the attention that each source word received
    next to its fertility (Malaviya et al. 2018). The last line has REP and DROP of the text. Words are those
    of the model's tokenizers, with subword tokens joined. The score of a sentence is its contribution to REP
    plus 1 for each dropped word.

    Example: regard analyze errors runs/first --source test.de --reference test.en --aligner aligner
    """
    from regard import analyze as analyses
    from regard.cli.analysis_output import show_errors
    from regard.cli.output import open_output, write_json
    from regard.cli.progress import print_message, track
    from regard.training.device import set_num_threads

    set_num_threads(num_threads)
    with open_output(output) as file:
        result = analyses.errors(
            models,
            source,
            reference,
            aligner=aligner,
            reference_links=reference_links,
            lowercase=lowercase,
            progress=track,
            beam_size=beam_size,
            length_penalty=length_penalty,
            coverage_penalty=coverage_penalty,
            layer=layer,
            head=head,
            shift=shift,
            batch_size=batch_size,
            precision=precision,
            device=device,
            num_threads=num_threads,
        )
        show_errors(file, result, num_sentences)
        write_json(json_file, result.to_dict())
    for note in result.notes:
        print_message(note)


@analyze.command("attention", cls=Command)
def attention_command(
    models: Annotated[
        list[Path],
        typer.Argument(help="Model directories. Several models are compared.", show_default=False),
    ],
    source: SourceOption,
    reference: ReferenceOption,
    output: OutputOption = None,
    json_file: JsonOption = None,
    gold_links: GoldLinksOption = None,
    figures_dir: FiguresOption = None,
    line: Annotated[
        list[int] | None,
        typer.Option(
            help="With --figures-dir: number of the line whose attention maps are plotted, from 1. The "
            "option may be repeated. Default: the line in which the models differ most.",
            min=1,
            show_default=False,
        ),
    ] = None,
    names: NamesOption = None,
    layer: LayerOption = None,
    head: HeadOption = None,
    shift: ShiftOption = None,
    prior: Annotated[
        bool,
        typer.Option(
            "--prior",
            help="Use the prior attention, before the target token is observed (for hard attention: the "
            "selected words). Default: the posterior attention, given the target token.",
        ),
    ] = False,
    bin_width: Annotated[
        float, typer.Option(help="Width of the entropy bins in nats.", min=0.001, max=1_000)
    ] = 0.2,
    batch_size: BatchSizeOption = None,
    precision: PrecisionOption = "float32",
    device: DeviceOption = "auto",
    num_threads: NumThreadsOption = None,
) -> None:
    """Show entropy, accuracy, coverage and alignment error of attention under teacher forcing.

    Forced decoding runs on the references. The tables show the entropy of the attention, the accuracy of the
    next token and how it depends on the entropy, and the coverage of the source sentences. With --gold-links,
    they also show the alignment error of the words with the highest attention (Shankar & Sarawagi 2019,
    Figures 2 to 5, Table 3). Hard attention selects words: the set of all selected words of each target word
    is also scored as links, in the columns marked "(set)".

    Example: regard analyze attention runs/soft runs/posterior --source test.de --reference test.en
    """
    from regard import analyze as analyses
    from regard.analysis.attention import AttentionOptions
    from regard.cli.analysis_output import show_attention
    from regard.cli.output import open_output, render_figures, write_images, write_json
    from regard.cli.progress import print_message, track
    from regard.plotting.style import require_matplotlib
    from regard.training.device import set_num_threads

    set_num_threads(num_threads)
    if figures_dir is not None:
        require_matplotlib()
    lines = line or (() if figures_dir is None else "auto")
    with open_output(output) as file:
        result = analyses.attention(
            models,
            source,
            reference,
            options=AttentionOptions(gold_links, lines, prior, bin_width),
            names=split_names(names),
            progress=track,
            layer=layer,
            head=head,
            shift=shift,
            batch_size=batch_size,
            precision=precision,
            device=device,
            num_threads=num_threads,
        )
        show_attention(file, result)
        write_json(json_file, result.to_dict())
    if figures_dir is not None:
        for one in result.maps:
            if one.error is not None:
                print_message(f"line {one.line} is not plotted: {one.error}")
        write_images(figures_dir, render_figures(result.figures()))


@analyze.command("length", cls=Command)
def length_command(
    systems: Annotated[
        list[Path],
        typer.Argument(
            help="Model directories or files with translations, which are compared.", show_default=False
        ),
    ],
    source: SourceOption,
    reference: ReferenceOption,
    output: OutputOption = None,
    json_file: JsonOption = None,
    aligner: AlignerOption = None,
    lowercase: LowercaseOption = False,
    beam_size: BeamSizeOption = None,
    length_penalty: LengthPenaltyOption = None,
    coverage_penalty: CoveragePenaltyOption = None,
    figures_dir: FiguresOption = None,
    names: NamesOption = None,
    bucket_width: Annotated[
        int,
        typer.Option(
            help="Width of a length bucket in words. There are six buckets and one for longer sentences.",
            min=1,
            max=1_000_000,
        ),
    ] = 10,
    tokenize: Annotated[
        str,
        typer.Option(
            help="Tokenizer for BLEU, REP and lengths: 13a, none (the text is already tokenized) or another "
            "tokenizer of `regard evaluate`."
        ),
    ] = "13a",
    batch_size: BatchSizeOption = None,
    precision: PrecisionOption = "float32",
    device: DeviceOption = "auto",
    num_threads: NumThreadsOption = None,
) -> None:
    """Show BLEU, REP and DROP by source length.

    The text is translated with each model. Sentences of 1 to 10 source words, of 11 to 20 words, and so on up
    to 61 words and more are scored separately (Indurthi et al. 2019, Table 2, Figure 2). The scores have 95 %
    confidence intervals and differences from the first system.

    Example: regard analyze length runs/soft runs/hard --source test.de --reference test.en --figures-dir .
    """
    from regard import analyze as analyses
    from regard.analysis.length import LengthOptions
    from regard.cli.analysis_output import show_length
    from regard.cli.output import open_output, render_figures, write_images, write_json
    from regard.cli.progress import print_message, track
    from regard.plotting.style import require_matplotlib
    from regard.training.device import set_num_threads

    set_num_threads(num_threads)
    if figures_dir is not None:
        require_matplotlib()
    with open_output(output) as file:
        result = analyses.length(
            systems,
            source,
            reference,
            options=LengthOptions(aligner, bucket_width, tokenize, lowercase),
            names=split_names(names),
            progress=track,
            beam_size=beam_size,
            length_penalty=length_penalty,
            coverage_penalty=coverage_penalty,
            batch_size=batch_size,
            precision=precision,
            device=device,
            num_threads=num_threads,
        )
        show_length(file, result)
        write_json(json_file, result.to_dict())
    if figures_dir is not None:
        write_images(figures_dir, render_figures({"length": result.plot()}))
    for note in result.notes:
        print_message(note)
