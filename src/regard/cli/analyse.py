"""`regard analyse`: what models do with a text, sentence by sentence and in figures."""

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
            help="Model folders. --worst: several make an ensemble; else they stand side by side. "
            "--by-length: files of translations too.",
            show_default=False,
        ),
    ],
    source: Annotated[Path, typer.Option(help="The text, plain or gzip.", show_default=False)],
    reference: Annotated[Path, typer.Option(help="Its translations, line by line.", show_default=False)],
    worst: Annotated[
        bool, typer.Option("--worst", help="Words dropped and words repeated, worst sentences first.")
    ] = False,
    attention: Annotated[
        bool,
        typer.Option(
            "--attention", help="Entropy, accuracy, coverage and alignment of attention on the references."
        ),
    ] = False,
    by_length: Annotated[
        bool, typer.Option("--by-length", help="BLEU, REP and DROP in buckets of source length.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="What is shown; else standard output.", show_default=False),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write everything about all sentences to this file.", show_default=False),
    ] = None,
    aligner: Annotated[
        Path | None,
        typer.Option(
            help="A word aligner, from `regard align --save`: it tells what was dropped.",
            show_default=False,
            rich_help_panel=_TRANSLATING,
        ),
    ] = None,
    links_reference: Annotated[
        Path | None,
        typer.Option(
            help="Word links (i-j) of source and reference, in the place of the aligner's.",
            show_default=False,
            rich_help_panel=_WORST,
        ),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(
            "--number",
            "-n",
            help="How many sentences to show, 10 if not given; 0: all.",
            min=0,
            rich_help_panel=_WORST,
            max=1_000_000_000,
        ),
    ] = None,
    lowercase: Annotated[
        bool,
        typer.Option(
            "--lowercase",
            help="Ignore case in repetitions and word links; --by-length: in BLEU too.",
            rich_help_panel=_TRANSLATING,
        ),
    ] = False,
    beam: Annotated[
        int | None,
        typer.Option(help="Hypotheses kept alive; 1 is greedy search.", rich_help_panel=_TRANSLATING),
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Alpha of the length penalty; 0: off.", rich_help_panel=_TRANSLATING)
    ] = None,
    coverage_penalty: Annotated[
        float | None,
        typer.Option(
            help="Beta of the coverage penalty on neglected source words; 0: off.",
            rich_help_panel=_TRANSLATING,
        ),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option(
            help="Gold word links of the text (.talp: i-j sure, ipj possible): alignment error rate.",
            show_default=False,
            rich_help_panel=_ATTENTION,
        ),
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option(
            help="Draw the figures into this folder; made if it is not there.",
            show_default=False,
            rich_help_panel=_SIDE_BY_SIDE,
        ),
    ] = None,
    line: Annotated[
        list[int] | None,
        typer.Option(
            help="With --svg: a line whose maps to draw, from 1; may be repeated. Else the line in which "
            "the models differ most.",
            min=1,
            show_default=False,
            rich_help_panel=_ATTENTION,
        ),
    ] = None,
    names: Annotated[
        str | None,
        typer.Option(
            help="What to call the models, separated by commas; else as their folders.",
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
            help="The prior: attention before the token was known, of models that correct it afterwards (of "
            "hard attention the selection). Default: the posterior, once it is known.",
            rich_help_panel=_ATTENTION,
        ),
    ] = False,
    bin_width: Annotated[
        float | None,
        typer.Option(
            "--bin",
            help="Width of the bins of entropies in nats, 0.2 if not given.",
            min=0.001,
            rich_help_panel=_ATTENTION,
            max=1_000,
        ),
    ] = None,
    bucket: Annotated[
        int | None,
        typer.Option(
            help="Lengths in a bucket, 10 if not given; there are six, and one of all that is longer.",
            min=1,
            rich_help_panel=_BY_LENGTH,
            max=1_000_000,
        ),
    ] = None,
    tokenize: Annotated[
        str | None,
        typer.Option(
            help="The words of BLEU, REP and lengths: 13a if not given, none (text is tokenised), others as "
            "of `regard evaluate`.",
            show_default=False,
            rich_help_panel=_BY_LENGTH,
        ),
    ] = None,
    batch: Annotated[int | None, typer.Option(help="The most sentences in a batch.")] = None,
    precision: Annotated[str, typer.Option(help="float32; bfloat16 or, on a CPU, int8: faster.")] = "float32",
    device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu, cuda, cuda:N.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="Threads on the CPU.", min=1, max=1_024)] = None,
) -> None:
    """Show what models do with a text.

    --worst: translate it, and show for each sentence the source words that the reference covers and the
    translation does not, the words said again and again, and the attention each source word got against its
    fertility (Malaviya et al. 2018); then REP and DROP of the text. Words are those of the model's
    tokenizers, subwords joined; a sentence scores what it adds to REP, and 1 for each word dropped.

    --attention: lead the models through the references and show how spread out their attention is, how often
    the next word is right and how that hangs on it, how much of each source sentence is looked at, and with
    --gold how well the most attended words align (Shankar & Sarawagi 2019, Figures 2 to 5, Table 3). Of hard
    attention, which selects words, all selected words of each target word are scored as links, too: "(set)".

    --by-length: translate it with each model, and score the sentences of 1 to 10 source words, 11 to 20, ...,
    61 and more (Indurthi et al. 2019, Table 2, Figure 2), with 95 % intervals and differences from the first.

    Example: regard analyse runs/first --worst --source test.de --reference test.en --aligner aligner

    Example: regard analyse runs/soft runs/posterior --attention --source test.de --reference test.en --svg .

    Example: regard analyse runs/soft runs/hard --by-length --source test.de --reference test.en --svg .
    """
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
    """One mode, and no option that belongs to others alone."""
    chosen = [mode for mode, wanted in modes.items() if wanted]
    if len(chosen) != 1:
        problem = "one of them at a time" if chosen else "nothing to analyse: say what to look for"
        raise UsageError(f"{problem}, with {' or '.join(modes)}")
    for owners, values in options:
        for name, value in values.items():
            if chosen[0] not in owners and value is not None:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} belongs to {' or '.join(owners)}, not to {chosen[0]}")
