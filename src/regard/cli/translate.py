"""`regard translate`: translate text with one model or an ensemble, and show or save its attention."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.attention_options import HeadOption, LayerOption, ShiftOption
from regard.cli.common_options import (
    BatchSizeOption,
    BeamSizeOption,
    CoveragePenaltyOption,
    DeviceOption,
    NumThreadsOption,
    PrecisionOption,
)
from regard.cli.translation_writer import TranslationWriter
from regard.cli.word_fertility import parse_word_fertilities, report_missing_words, report_unknown_tokens
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.generation.base import Capability
    from regard.generation.lines import LineResult

__all__ = ["translate"]


def translate(
    models: Annotated[
        list[Path],
        typer.Argument(help="Model directory. Several directories form an ensemble.", show_default=False),
    ],
    input: Annotated[
        Path | None, typer.Option(help="Source text, plain or gzip. Default: standard input.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Output file for the translations. Default: standard output.")
    ] = None,
    tokenized: Annotated[
        bool,
        typer.Option(
            "--tokenized",
            help="The text is already tokenized in the same way as the training text. By default, "
            "punctuation is separated from words if the training text is tokenized.",
        ),
    ] = False,
    beam_size: BeamSizeOption = None,
    num_return: Annotated[
        int,
        typer.Option(
            help="Number of translations per line. With more than 1, the format is LINE ||| TEXT ||| SCORE, "
            "with lines counted from 0."
        ),
    ] = 1,
    with_scores: Annotated[
        bool, typer.Option("--with-scores", help="Write the score and a tab before each translation.")
    ] = False,
    links_output: Annotated[
        str | None,
        typer.Option(
            help="Output file for the word links of each line (0-0 1-2). With -, the links are appended to "
            "the translations."
        ),
    ] = None,
    attention_output: Annotated[
        Path | None,
        typer.Option(
            help="Output file for the attention weights, with one JSON object per line. `attention` is the "
            "attention before a target token is observed, and `posterior_attention` is the attention given "
            "the token. Both are nested by layer, time step (including the end symbol), head and source "
            "token."
        ),
    ] = None,
    layer: LayerOption = None,
    head: HeadOption = None,
    shift: ShiftOption = None,
    tokens_output: Annotated[
        Path | None,
        typer.Option(
            help="Output file for the tokens, with one JSON object per line, for "
            "`regard score --tokens-from`."
        ),
    ] = None,
    show_attention: Annotated[
        bool, typer.Option("--show-attention", help="Print the attention map of each line to the terminal.")
    ] = False,
    svg: Annotated[
        Path | None,
        typer.Option(
            help="SVG file for the attention map of the first line. The maps of other lines are written to "
            "NAME-2.svg, NAME-3.svg and so on."
        ),
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Sample translations from the model instead of beam search.")
    ] = False,
    temperature: Annotated[
        float,
        typer.Option(
            help="With --sample: the logits are divided by the temperature. Values below 1 sharpen the "
            "distribution; values above 1 flatten it."
        ),
    ] = 1.0,
    top_k: Annotated[
        int,
        typer.Option(help="With --sample: sample from the K most probable tokens only. 0 uses all tokens."),
    ] = 0,
    top_p: Annotated[
        float,
        typer.Option(
            help="With --sample: sample from the smallest set of tokens with at least this total probability."
        ),
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="With --sample: random seed.", max=4_294_967_295)] = 1,
    prefixes: Annotated[
        Path | None,
        typer.Option(help="File with the required beginnings of the translations, one line per source line."),
    ] = None,
    fertilities: Annotated[
        Path | None,
        typer.Option(
            help="File with bounds of the total attention of source tokens, one line per source line. A line "
            "has one field per token or word: MAX, MIN:MAX, MIN: or -. The model's own fertility replaces a "
            "missing maximum. An empty line means the model's own fertilities.",
        ),
    ] = None,
    word_fertility: Annotated[
        list[str] | None,
        typer.Option(
            help="Bounds of the total attention of a source word in all lines: WORD=MAX or WORD=MIN:MAX. The "
            "option may be repeated.",
            show_default=False,
        ),
    ] = None,
    required_terms: Annotated[
        Path | None,
        typer.Option(
            help="File with required words and phrases, one line per source line, separated by tabs. An "
            "empty line requires none."
        ),
    ] = None,
    mbr: Annotated[
        str | None,
        typer.Option(
            help="Minimum Bayes risk decoding: choose from the beam, or from the samples of --sample, by "
            "expected utility. Utilities are bleu, chrf and rep (100 minus the repetitions per 100 words). "
            "Scores in the output are expected utilities.",
            show_default=False,
        ),
    ] = None,
    mbr_candidates: Annotated[
        int,
        typer.Option(help="With --mbr: number of candidates. 0 uses the whole beam, or 32 samples.", min=0),
    ] = 0,
    mbr_weighting: Annotated[
        str,
        typer.Option(
            help="With --mbr: weights of the candidates as references: uniform, probability, or auto "
            "(uniform for samples, probability for the beam)."
        ),
    ] = "auto",
    length_penalty: Annotated[
        float | None,
        typer.Option(
            help="Alpha of the length penalty. 0 disables it. For a Hugging Face model, the penalty is that "
            "of the transformers library."
        ),
    ] = None,
    coverage_penalty: CoveragePenaltyOption = None,
    coverage_epsilon: Annotated[
        float | None,
        typer.Option(help="Epsilon of the coverage penalty: lower bound of the attention of a source word."),
    ] = None,
    no_repeat_ngram_size: Annotated[
        int | None, typer.Option(help="Length of n-grams that must not be repeated. 0 allows repetitions.")
    ] = None,
    min_length: Annotated[
        int | None, typer.Option(help="Minimum number of tokens of a translation, without the end symbol.")
    ] = None,
    max_length_ratio: Annotated[
        float | None,
        typer.Option(
            help="Maximum number of tokens of a translation per source token; --max-length-offset is added."
        ),
    ] = None,
    max_length_offset: Annotated[
        int | None,
        typer.Option(help="Number of tokens added to the maximum length of --max-length-ratio."),
    ] = None,
    suppress_unk: Annotated[
        bool | None,
        typer.Option(
            "--suppress-unk/--allow-unk",
            help="Whether the unknown token is excluded from translations. Default: the model's setting.",
            show_default=False,
        ),
    ] = None,
    replace_unk: Annotated[
        bool | None,
        typer.Option(
            "--replace-unk",
            help="Replace each unknown token by the source word with the highest attention.",
            show_default=False,
        ),
    ] = None,
    batch_size: BatchSizeOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Override a setting of the model, as key=value, for example model.attention.top_k=0. "
            "The weights of the model must still fit.",
            show_default=False,
        ),
    ] = None,
    precision: PrecisionOption = "float32",
    device: DeviceOption = "auto",
    num_threads: NumThreadsOption = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Inference engine: regard, or ctranslate2 for a model of `regard export`, which supports "
            "plain translation only. Default: the engine of the model.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Translate text, one line at a time.

    Options that are not given have the values in the configuration of the model. Under `torchrun`, each
    process translates a share of the lines.

    Example: regard translate runs/first --beam-size 5 --show-attention < input.txt

    Best of 64 samples: regard translate runs/first --sample --mbr chrf --mbr-candidates 64 < input.txt

    Required terms: regard translate runs/first --required-terms terms.txt < input.txt
    """
    options = {
        "beam_size": beam_size,
        "num_return": num_return,
        "length_penalty": length_penalty,
        "coverage_penalty": coverage_penalty,
        "coverage_epsilon": coverage_epsilon,
        "no_repeat_ngram_size": no_repeat_ngram_size,
        "min_length": min_length,
        "max_length_ratio": max_length_ratio,
        "max_length_offset": max_length_offset,
        "suppress_unk": suppress_unk,
        "replace_unk": replace_unk,
        "batch_size": batch_size,
        "layer": layer,
        "head": head,
        "shift": shift,
    }
    # These options have defaults, so a changed value shows that the user has given them.
    sampled = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    if not sample and sampled != {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 1}:
        raise UsageError("--temperature, --top-k, --top-p and --seed need --sample")
    if mbr is None and (mbr_candidates or mbr_weighting != "auto"):
        raise UsageError("--mbr-candidates and --mbr-weighting need --mbr")
    if sample and required_terms is not None:
        raise UsageError("--required-terms needs beam search, so it cannot be used with --sample")
    if engine not in (None, "regard", "ctranslate2"):
        raise UsageError(f"--engine {engine!r}: expected regard or ctranslate2")

    from regard.api.loading import load_translator
    from regard.config import from_dict
    from regard.generation.config import SamplingConfig
    from regard.generation.lines import enumerate_lines
    from regard.generation.mbr import MbrConfig
    from regard.generation.parallel import translate_distributed
    from regard.training.device import pick_device, set_num_threads
    from regard.training.distributed import init_process_group

    set_num_threads(num_threads)
    sampling = from_dict(SamplingConfig, sampled, origin="sampling options") if sample else None
    mbr_options = {"utility": mbr, "num_candidates": mbr_candidates, "weighting": mbr_weighting}
    mbr_config = None if mbr is None else from_dict(MbrConfig, mbr_options, origin="--mbr options")
    with init_process_group(pick_device(device)) as processes:
        interactive = input is None and sys.stdin.isatty()
        by_word = parse_word_fertilities(word_fertility or [])
        loaded = load_translator(
            models, device, precision, None, settings or [], num_threads=num_threads, engine=engine
        )
        translator = loaded.with_search(options, sampling, mbr_config, by_word)
        needed: list[tuple[Capability, str, object]] = [
            ("prefix", "--prefixes", prefixes),
            ("fertility", "--fertilities", fertilities),
            ("terms", "--required-terms", required_terms),
            ("attention", "--links-output", links_output),
            ("attention", "--attention-output", attention_output),
            ("attention", "--show-attention", show_attention),
            ("attention", "--svg", svg),
        ]
        for capability, option, value in needed:
            if value:
                translator.require(capability, option)
        if tokenized:
            translator = translator.pretokenized()
        lines = enumerate_lines(
            _lines(input),
            None if prefixes is None else _file_lines(prefixes),
            str(prefixes),
            None if fertilities is None else _file_lines(fertilities),
            str(fertilities),
            None if required_terms is None else _file_lines(required_terms),
            str(required_terms),
        )
        if interactive and processes.world_size == 1:
            # Translate each line at once instead of waiting for a full batch.
            results = (result for line in lines for result in translator.translate([line]))
        elif processes.world_size > 1:
            results = translate_distributed(translator, lines)
        else:
            results = translator.translate(lines)
        if not processes.is_main:
            # Only the main process writes; the others run their share of the work.
            for _ in results:
                pass
            return
        if by_word:
            results = report_missing_words(results, by_word, translator.text)
        # In interactive use, the message would interrupt the dialog.
        if translator.resolved_search.suppress_unk is False and not interactive:
            results = report_unknown_tokens(results)
        with ExitStack() as files:
            writer = TranslationWriter(
                files,
                output,
                num_return > 1,
                with_scores,
                links_output,
                attention_output,
                tokens_output,
                show_attention,
                svg,
                translator.text,
            )
            for result in _with_progress(
                results, quiet=interactive or (output is None and sys.stdout.isatty())
            ):
                writer.write(result)


def _lines(path: Path | None) -> Iterator[str]:
    """Return the lines of a file or of standard input."""
    return _file_lines(path) if path is not None else _standard_input()


def _file_lines(path: Path) -> Iterator[str]:
    from regard.data.corpus import read_lines

    return read_lines(path)


def _standard_input() -> Iterator[str]:
    from regard.data.corpus import decode_lines

    return decode_lines(sys.stdin.buffer, "standard input")


def _with_progress(results: "Iterator[LineResult]", quiet: bool) -> "Iterator[LineResult]":
    """Yield the results and show a progress bar, if stderr is a terminal and `quiet` is false."""
    if quiet or not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed} lines, {task.fields[rate]} lines/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("translate", total=None, rate="?")
        for result in results:
            yield result
            speed = bar.tasks[0].speed
            bar.update(task, advance=1, rate="?" if speed is None else f"{speed:.0f}")
