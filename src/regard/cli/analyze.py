"""`regard analyze`: translation errors, attention, faithfulness of maps and scores by length."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from regard.cli.command import Command, expand_groups, given
from regard.cli.options import (
    AlignerOption,
    FiguresDirOption,
    GoldLinksOption,
    JsonOption,
    LinkOptions,
    LowercaseOption,
    ModelDirsArgument,
    NamesOption,
    NoAlignerOption,
    NumSentencesOption,
    OutputOption,
    PriorOption,
    ReferenceLinksOption,
    ReferenceOption,
    RuntimeOptions,
    SearchOptions,
    SourceOption,
    SystemsArgument,
    TokenizeOption,
    split_names,
)
from regard.cli.output import open_output, print_message, render_figures, track, write_images, write_json

__all__ = ["analyze"]

analyze = typer.Typer(
    name="analyze",
    help="Analyze the translation errors, the attention, the faithfulness of maps or the scores by length.",
    no_args_is_help=True,
)


@dataclass(frozen=True)
class AnalysisFiles:
    """The text and the output files of an analysis."""

    panel: ClassVar[str] = "Files"

    source: SourceOption
    reference: ReferenceOption
    output: OutputOption = None
    json_file: JsonOption = None


@dataclass(frozen=True)
class ErrorOptions:
    """The word links, and the sentences that are shown."""

    aligner: AlignerOption = None
    no_aligner: NoAlignerOption = False
    reference_links: ReferenceLinksOption = None
    num_sentences: NumSentencesOption = 10
    lowercase: LowercaseOption = False


@analyze.command("errors", cls=Command)
@expand_groups
def errors_command(
    models: ModelDirsArgument,
    files: AnalysisFiles,
    options: ErrorOptions,
    search: SearchOptions,
    links: LinkOptions,
    runtime: RuntimeOptions,
) -> None:
    """Show the sentences with the highest number of dropped and repeated words.

    The text is translated. For each sentence, the output shows the source words that are covered by the
    reference but not by the translation, the repeated words, and the attention that each source word received
    next to its fertility (Malaviya et al. 2018). The last line has REP and DROP of the text. Words are those
    of the model's tokenizers, with subword tokens joined. The score of a sentence is its contribution to REP
    plus 1 for each dropped word. The links of --reference-links replace those of the aligner. A word with
    little attention may still be translated: regard check finds omissions without a reference.

    Example: regard analyze errors runs/first --source test.de --reference test.en

    Example: regard analyze errors runs/first --source test.de --reference test.en --aligner aligner
    """
    from regard import analyze as analyses
    from regard.cli.analysis_output import show_errors
    from regard.training.device import set_num_threads

    set_num_threads(runtime.num_threads)
    # The output is opened before the analysis, so that an unwritable file is reported at once.
    with open_output(files.output) as file:
        result = analyses.errors(
            models,
            files.source,
            files.reference,
            aligner=options.aligner,
            train_missing=not options.no_aligner,
            reference_links=options.reference_links,
            lowercase=options.lowercase,
            progress=track,
            **given(search),
            **given(links),
            **given(runtime),
        )
        show_errors(file, result, options.num_sentences)
        write_json(files.json_file, result.to_dict())
    for note in result.notes:
        print_message(note)


@dataclass(frozen=True)
class AttentionFlags:
    """The gold links, the figures, and the statistics."""

    gold_links: GoldLinksOption = None
    figures_dir: FiguresDirOption = None
    line: Annotated[
        list[int] | None,
        typer.Option(
            help="With --figures-dir: number of the line whose attention maps are plotted, from 1. The "
            "option may be repeated. Default: the line in which the models differ most.",
            min=1,
            show_default=False,
        ),
    ] = None
    names: NamesOption = None
    prior: PriorOption = False
    bin_width: Annotated[
        float, typer.Option(help="Width of the entropy bins in nats.", min=0.001, max=1_000)
    ] = 0.2


@analyze.command("attention", cls=Command)
@expand_groups
def attention_command(
    models: SystemsArgument,
    files: AnalysisFiles,
    options: AttentionFlags,
    links: LinkOptions,
    runtime: RuntimeOptions,
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
    from regard.plot.style import require_matplotlib
    from regard.training.device import set_num_threads

    set_num_threads(runtime.num_threads)
    # A missing package is reported before the analysis, which may take long.
    if options.figures_dir is not None:
        require_matplotlib()
    lines = options.line or (() if options.figures_dir is None else "auto")
    with open_output(files.output) as file:
        result = analyses.attention(
            models,
            files.source,
            files.reference,
            options=AttentionOptions(options.gold_links, lines, options.prior, options.bin_width),
            names=split_names(options.names),
            progress=track,
            **given(links),
            **given(runtime),
        )
        show_attention(file, result)
        write_json(files.json_file, result.to_dict())
    if options.figures_dir is not None:
        for line_map in result.maps:
            if line_map.error is not None:
                print_message(f"line {line_map.line} is not plotted: {line_map.error}")
        write_images(options.figures_dir, render_figures(result.figures()))


@dataclass(frozen=True)
class FaithfulnessFlags:
    """The names of the models, and the figure."""

    figures_dir: FiguresDirOption = None
    names: NamesOption = None


@analyze.command("faithfulness", cls=Command)
@expand_groups
def faithfulness_command(
    models: SystemsArgument,
    files: AnalysisFiles,
    options: FaithfulnessFlags,
    links: LinkOptions,
    runtime: RuntimeOptions,
) -> None:
    """Show how faithful attention and attribution maps are to the predictions.

    Forced decoding runs on the references. For each target token, the source token with the largest weight in
    the map is removed; the table shows the fall of the probability of the target token in percentage points,
    next to the mean for a random source token and to the largest fall that is possible. By default,
    all kinds of maps are compared; --map selects one.

    Example: regard analyze faithfulness runs/first --source test.de --reference test.en
    """
    from regard import analyze as analyses
    from regard.analysis.faithfulness import MAP_METHODS
    from regard.cli.analysis_output import show_faithfulness
    from regard.plot.style import require_matplotlib
    from regard.training.device import set_num_threads

    set_num_threads(runtime.num_threads)
    if options.figures_dir is not None:
        require_matplotlib()
    with open_output(files.output) as file:
        result = analyses.faithfulness(
            models,
            files.source,
            files.reference,
            names=split_names(options.names),
            progress=track,
            **{"map": MAP_METHODS, **given(links)},
            **given(runtime),
        )
        show_faithfulness(file, result)
        write_json(files.json_file, result.to_dict())
    if options.figures_dir is not None:
        write_images(options.figures_dir, render_figures({"faithfulness": result.plot()}))


@dataclass(frozen=True)
class LengthFlags:
    """The buckets, the scores and the figure."""

    aligner: AlignerOption = None
    lowercase: LowercaseOption = False
    figures_dir: FiguresDirOption = None
    names: NamesOption = None
    bucket_width: Annotated[
        int,
        typer.Option(
            help="Width of a length bucket in words. There are six buckets and one for longer sentences.",
            min=1,
            max=1_000_000,
        ),
    ] = 10
    tokenize: TokenizeOption = "13a"


@analyze.command("length", cls=Command)
@expand_groups
def length_command(
    systems: SystemsArgument,
    files: AnalysisFiles,
    options: LengthFlags,
    search: SearchOptions,
    runtime: RuntimeOptions,
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
    from regard.plot.style import require_matplotlib
    from regard.training.device import set_num_threads

    set_num_threads(runtime.num_threads)
    if options.figures_dir is not None:
        require_matplotlib()
    with open_output(files.output) as file:
        result = analyses.length(
            systems,
            files.source,
            files.reference,
            options=LengthOptions(options.aligner, options.bucket_width, options.tokenize, options.lowercase),
            names=split_names(options.names),
            progress=track,
            **given(search),
            **given(runtime),
        )
        show_length(file, result)
        write_json(files.json_file, result.to_dict())
    if options.figures_dir is not None:
        write_images(options.figures_dir, render_figures({"length": result.plot()}))
    for note in result.notes:
        print_message(note)
