"""`regard analyse`: analyze the translations and the attention of models on a text."""

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.alignment_options import HeadOption, LayerOption, ShiftOption
from regard.errors import UsageError

__all__ = ["analyse"]

_WORST = "With --worst"
_ATTENTION = "With --attention"
_BY_LENGTH = "With --by-length"
_TRANSLATING = "With --worst or --by-length"
_SIDE_BY_SIDE = "With --attention or --by-length"


def analyse(
    models: Annotated[
        list[Path],
        typer.Argument(
            help="Model directories. With --worst, several directories form an ensemble; otherwise the "
            "models are compared. With --by-length, files with translations are accepted as well.",
            show_default=False,
        ),
    ],
    source: Annotated[Path, typer.Option(help="Source text, plain or gzip.", show_default=False)],
    reference: Annotated[
        Path, typer.Option(help="Reference translations, one line per source line.", show_default=False)
    ],
    worst: Annotated[
        bool,
        typer.Option(
            "--worst", help="Show dropped and repeated words; sentences with many errors come first."
        ),
    ] = False,
    attention: Annotated[
        bool,
        typer.Option(
            "--attention",
            help="Show entropy, accuracy, coverage and alignment error of attention under teacher forcing.",
        ),
    ] = False,
    by_length: Annotated[
        bool, typer.Option("--by-length", help="Show BLEU, REP and DROP by source length.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Output file for the report. Default: standard output.", show_default=False
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", help="Also write the results, for all sentences, to this JSON file.", show_default=False
        ),
    ] = None,
    aligner: Annotated[
        Path | None,
        typer.Option(
            help="Directory of a word aligner (`regard align --save`), needed to find dropped words.",
            show_default=False,
            rich_help_panel=_TRANSLATING,
        ),
    ] = None,
    links_reference: Annotated[
        Path | None,
        typer.Option(
            help="File with word links (i-j) of source and reference, used instead of the aligner's links.",
            show_default=False,
            rich_help_panel=_WORST,
        ),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(
            "--number",
            "-n",
            help="Number of sentences to show. 0 shows all. Default: 10.",
            min=0,
            rich_help_panel=_WORST,
            max=1_000_000_000,
        ),
    ] = None,
    lowercase: Annotated[
        bool,
        typer.Option(
            "--lowercase",
            help="Ignore case in repetitions and word links and, with --by-length, in BLEU.",
            rich_help_panel=_TRANSLATING,
        ),
    ] = False,
    beam: Annotated[
        int | None,
        typer.Option(help="Beam size. 1 is greedy search.", rich_help_panel=_TRANSLATING),
    ] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(help="Alpha of the length penalty. 0 disables it.", rich_help_panel=_TRANSLATING),
    ] = None,
    coverage_penalty: Annotated[
        float | None,
        typer.Option(
            help="Beta of the coverage penalty. 0 disables it.",
            rich_help_panel=_TRANSLATING,
        ),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option(
            help="Gold word links of the text (.talp: i-j sure, ipj possible), for the alignment error rate.",
            show_default=False,
            rich_help_panel=_ATTENTION,
        ),
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option(
            help="Directory for the figures (SVG). It is created if it does not exist.",
            show_default=False,
            rich_help_panel=_SIDE_BY_SIDE,
        ),
    ] = None,
    line: Annotated[
        list[int] | None,
        typer.Option(
            help="With --svg: number of the line whose attention maps are plotted, from 1. The option may be "
            "repeated. Default: the line in which the models differ most.",
            min=1,
            show_default=False,
            rich_help_panel=_ATTENTION,
        ),
    ] = None,
    names: Annotated[
        str | None,
        typer.Option(
            help="Display names of the systems, separated by commas. Default: the names of the directories.",
            show_default=False,
            rich_help_panel=_SIDE_BY_SIDE,
        ),
    ] = None,
    layer: LayerOption = None,
    head: HeadOption = None,
    shift: ShiftOption = None,
    prior: Annotated[
        bool,
        typer.Option(
            "--prior",
            help="Use the prior attention, before the target token is observed (for hard attention: the "
            "selected words). Default: the posterior attention, given the target token.",
            rich_help_panel=_ATTENTION,
        ),
    ] = False,
    bin_width: Annotated[
        float | None,
        typer.Option(
            "--bin",
            help="Width of the entropy bins in nats. Default: 0.2.",
            min=0.001,
            rich_help_panel=_ATTENTION,
            max=1_000,
        ),
    ] = None,
    bucket: Annotated[
        int | None,
        typer.Option(
            help="Width of a length bucket in words. There are six buckets, and one more for longer "
            "sentences. Default: 10.",
            min=1,
            rich_help_panel=_BY_LENGTH,
            max=1_000_000,
        ),
    ] = None,
    tokenize: Annotated[
        str | None,
        typer.Option(
            help="Tokenizer for BLEU, REP and lengths: 13a, none (the text is already tokenized) or another "
            "tokenizer of `regard evaluate`. Default: 13a.",
            show_default=False,
            rich_help_panel=_BY_LENGTH,
        ),
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Maximum number of sentences in a batch.")] = None,
    precision: Annotated[
        str, typer.Option(help="float32, bfloat16 (faster) or int8 (faster, CPU only).")
    ] = "float32",
    device: Annotated[str, typer.Option(help="auto (a GPU if available), cpu, cuda or cuda:N.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="Number of CPU threads.", min=1, max=1_024)] = None,
) -> None:
    """Analyze the translations or the attention of models on a text.

    --worst: translate the text. For each sentence, show the source words that are covered by the reference
    but not by the translation, the repeated words, and the attention that each source word received next to
    its fertility (Malaviya et al. 2018). Then show REP and DROP of the text. Words are those of the model's
    tokenizers, with subword tokens joined. The score of a sentence is its contribution to REP plus 1 for each
    dropped word.

    --attention: run forced decoding on the references. Show the entropy of the attention, the accuracy of the
    next token and how it depends on the entropy, and the coverage of the source sentences. With --gold, also
    show the alignment error of the words with the highest attention (Shankar & Sarawagi 2019, Figures 2 to 5,
    Table 3). For hard attention, which selects words, the set of all selected words of each target word is
    scored as links as well; these columns are marked "(set)".

    --by-length: translate the text with each model and score the sentences of 1 to 10 source words, of 11 to
    20 words, and so on up to 61 words and more (Indurthi et al. 2019, Table 2, Figure 2). The scores have
    95 % confidence intervals and differences from the first system.

    Example: regard analyse runs/first --worst --source test.de --reference test.en --aligner aligner

    Example: regard analyse runs/soft runs/posterior --attention --source test.de --reference test.en --svg .

    Example: regard analyse runs/soft runs/hard --by-length --source test.de --reference test.en --svg .
    """
    # Options are None or False if they are not given, so that `_check` can find those of other modes.
    searching = {"beam": beam, "length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    translating = {"aligner": aligner, "lowercase": lowercase or None, **searching}
    attending = {"gold": gold, "line": line, "prior": prior or None}
    chosen = {"layer": layer, "head": head, "shift": shift}
    modes = {"--worst": worst, "--attention": attention, "--by-length": by_length}
    one, two, three = modes
    _check(
        modes,
        [
            ((one,), {"links-reference": links_reference, "number": number}),
            ((one, three), translating),
            ((two,), {**attending, "bin": bin_width}),
            ((one, two), chosen),
            ((two, three), {"svg": svg, "names": names}),
            ((three,), {"bucket": bucket, "tokenize": tokenize}),
        ],
    )
    # Import after the checks, so that a usage error is reported without loading PyTorch.
    from regard.cli.analysed import Analysed
    from regard.training.device import use_threads

    use_threads(threads)
    analysed = Analysed(models, source, reference, output, json_file, batch, precision, device)
    if worst:
        from regard.cli.worst import WorstOptions, show_worst

        shown = 10 if number is None else number
        searching |= chosen
        show_worst(analysed, WorstOptions(aligner, links_reference, shown, lowercase, searching, threads))
    elif attention:
        from regard.cli.attention import AttentionOptions, show_attention

        show_attention(
            analysed, AttentionOptions(gold, svg, line or [], names, chosen, prior, bin_width or 0.2)
        )
    else:
        from regard.cli.by_length import ByLengthOptions, show_by_length

        cut = (bucket or 10, tokenize or "13a", lowercase)
        show_by_length(analysed, ByLengthOptions(aligner, svg, names, *cut, searching, threads))


def _check(modes: dict[str, bool], options: list[tuple[tuple[str, ...], dict[str, Any]]]) -> None:
    """Check that exactly one mode is chosen and that every given option applies to this mode."""
    chosen = [mode for mode, wanted in modes.items() if wanted]
    if len(chosen) != 1:
        problem = "only one analysis can be run at a time" if chosen else "no analysis is chosen"
        raise UsageError(f"{problem}: give one of {', '.join(modes)}")
    for owners, values in options:
        for name, value in values.items():
            if chosen[0] not in owners and value is not None:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} cannot be used with {chosen[0]}, only with {' or '.join(owners)}")
