"""`regard translate`: translate lines of text, and see what the model looked at."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.alignment_options import HeadOption, LayerOption, ShiftOption
from regard.cli.by_word import told_unseen, with_unknown_share, word_fertilities
from regard.cli.translation_writer import Writer
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.decoding.translate import LineResult

__all__ = ["translate"]


def translate(
    models: Annotated[
        list[Path],
        typer.Argument(help="Model directory. Several directories form an ensemble.", show_default=False),
    ],
    input: Annotated[Path | None, typer.Option(help="Text, plain or gzip; else standard input.")] = None,
    output: Annotated[Path | None, typer.Option(help="The translations; else standard output.")] = None,
    tokenized: Annotated[
        bool,
        typer.Option(
            "--tokenized",
            help="The text is tokenised as the training text is: take it as it stands. By default, the "
            "punctuation of plain lines is set apart where the training text is tokenised.",
        ),
    ] = False,
    beam: Annotated[int | None, typer.Option(help="Beam size. 1 is greedy search.")] = None,
    nbest: Annotated[int, typer.Option(help="Translations a line, as LINE ||| TEXT ||| SCORE.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Write SCORE and a tab before each text.")] = False,
    alignment: Annotated[
        str | None,
        typer.Option(help="A file for the word links of each line (0-0 1-2); - adds them to the text."),
    ] = None,
    attention: Annotated[
        Path | None,
        typer.Option(
            help="A file for all attention, one JSON object a translation: prior, before each token was "
            "known, and posterior, once it is; nested by layer, step "
            "(the end symbol's last), head and source token."
        ),
    ] = None,
    layer: LayerOption = None,
    head: HeadOption = None,
    shift: ShiftOption = None,
    tokens: Annotated[
        Path | None,
        typer.Option(help="A file for the tokens, a JSON object a translation; for `score --tokens-from`."),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Draw each attention map in the terminal.")] = False,
    svg: Annotated[
        Path | None,
        typer.Option(help="A picture of the first line's attention; NAME-2.svg... of the others'."),
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw translations instead of searching.")] = False,
    temperature: Annotated[float, typer.Option(help="Of --sample: below 1 sharper, above 1 flatter.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Of --sample: draw from this many best tokens; 0: all.")] = 0,
    top_p: Annotated[
        float, typer.Option(help="Of --sample: from the best that hold this probability.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Of --sample.", max=4_294_967_295)] = 1,
    prefix: Annotated[
        Path | None, typer.Option(help="A file of what each translation must start with, line by line.")
    ] = None,
    fertility: Annotated[
        Path | None,
        typer.Option(
            help="A file of how much attention each source token may receive: a line of MOST, LEAST:MOST, "
            "LEAST: or - for each line; an empty line leaves the model's own.",
        ),
    ] = None,
    word_fertility: Annotated[
        list[str] | None,
        typer.Option(
            help="The same for a word wherever it stands: WORD=MOST, WORD=LEAST:MOST.", show_default=False
        ),
    ] = None,
    terms: Annotated[
        Path | None,
        typer.Option(help="A file of what each translation must hold, line by line: words, phrases, tabs."),
    ] = None,
    mbr: Annotated[
        str | None,
        typer.Option(
            help="Choose among the beam, or the samples of --sample, by expected bleu, chrf or rep (100 less "
            "repetitions); the scores shown are these.",
            show_default=False,
        ),
    ] = None,
    candidates: Annotated[
        int, typer.Option(help="Of --mbr: how many are compared; 0: the whole beam, or 32 samples.", min=0)
    ] = 0,
    mbr_weights: Annotated[
        str,
        typer.Option(
            help="Of --mbr: what a candidate weighs as a reference: uniform, probability, or auto (uniform "
            "for samples, else probability)."
        ),
    ] = "auto",
    length_penalty: Annotated[
        float | None,
        typer.Option(
            help="Alpha of the length penalty; 0: off. Of a Hugging Face directory as its library counts it."
        ),
    ] = None,
    coverage_penalty: Annotated[
        float | None, typer.Option(help="Beta of the coverage penalty. 0 disables it.")
    ] = None,
    coverage_floor: Annotated[
        float | None, typer.Option(help="Epsilon of the coverage penalty: less attention costs no more.")
    ] = None,
    no_repeat_ngram: Annotated[
        int | None, typer.Option(help="Never say an n-gram of this length twice.")
    ] = None,
    min_length: Annotated[int | None, typer.Option(help="The least tokens of a translation.")] = None,
    max_length_ratio: Annotated[
        float | None, typer.Option(help="The most tokens of a translation for each source token...")
    ] = None,
    max_length_extra: Annotated[int | None, typer.Option(help="... and so many more.")] = None,
    forbid_unknown: Annotated[
        bool | None,
        typer.Option(
            "--forbid-unknown/--allow-unknown",
            help="Whether the unknown token is never generated. Default: as the model's configuration says.",
            show_default=False,
        ),
    ] = None,
    replace_unknown: Annotated[
        bool | None,
        typer.Option(
            "--replace-unknown", help="Copy the most attended source word for it.", show_default=False
        ),
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Maximum number of sentences in a batch.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Override a setting of the model, as key=value, for example model.attention.contexts=0. "
            "The weights of the model must still fit.",
            show_default=False,
        ),
    ] = None,
    precision: Annotated[
        str, typer.Option(help="float32, bfloat16 (faster) or int8 (faster, CPU only).")
    ] = "float32",
    device: Annotated[str, typer.Option(help="auto (a GPU if available), cpu, cuda or cuda:N.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="Number of CPU threads.", min=1, max=1_024)] = None,
    engine: Annotated[
        str, typer.Option(help="regard, or ctranslate2 for a model of `regard export`: plain translations.")
    ] = "regard",
) -> None:
    """Translate lines of text.

    Options left out are those the model was trained with. Under `torchrun` each process takes a share of the
    lines.

    Example: regard translate runs/first --beam 5 --show < input.txt

    Best of 64 samples: regard translate runs/first --sample --mbr chrf --candidates 64 < input.txt

    With given words: regard translate runs/first --terms terms.txt < input.txt
    """
    options = {
        "beam": beam,
        "nbest": nbest,
        "length_penalty": length_penalty,
        "coverage_penalty": coverage_penalty,
        "coverage_floor": coverage_floor,
        "no_repeat_ngram": no_repeat_ngram,
        "min_length": min_length,
        "max_length_ratio": max_length_ratio,
        "max_length_extra": max_length_extra,
        "forbid_unknown": forbid_unknown,
        "replace_unknown": replace_unknown,
        "batch": batch,
        "layer": layer,
        "head": head,
        "shift": shift,
    }
    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    if not sample and drawn != {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 1}:
        raise UsageError("--temperature, --top-k, --top-p and --seed shape what --sample draws: add --sample")
    if mbr is None and (candidates or mbr_weights != "auto"):
        raise UsageError("--candidates and --mbr-weights say how --mbr chooses: add --mbr")
    if sample and terms is not None:
        raise UsageError("--terms shapes beam search: leave --sample out")
    if engine not in ("regard", "ctranslate2"):
        raise UsageError(f"--engine {engine!r}: expected regard or ctranslate2")

    from regard.api.loading import load_models, search_settings
    from regard.api.phrases import is_phrase_based, phrase_translator
    from regard.cli.exported import exported_translator, refuse_exported
    from regard.config import from_dict
    from regard.decoding.by_hand import check_bounded
    from regard.decoding.config import SamplingConfig
    from regard.decoding.mbr import MbrConfig
    from regard.decoding.share import translate_shared
    from regard.decoding.translate import Translator, number_lines
    from regard.training.device import pick_device, use_threads
    from regard.training.distributed import join

    use_threads(threads)
    sampling = from_dict(SamplingConfig, drawn, where="sampling options") if sample else None
    compared = {"utility": mbr, "candidates": candidates, "weights": mbr_weights}
    choice = None if mbr is None else from_dict(MbrConfig, compared, where="--mbr options")
    with join(pick_device(device)) as processes:
        interactive = input is None and sys.stdin.isatty()
        if engine == "ctranslate2":
            others = {
                "--alignment": alignment,
                "--attention": attention,
                "--tokens": tokens,
                "--show": show,
                "--svg": svg,
                "--sample": sample,
                "--prefix": prefix,
                "--fertility": fertility,
                "--word-fertility": word_fertility,
                "--terms": terms,
                "--mbr": mbr,
                "--set": settings,
                f"--precision {precision}": precision != "float32",
            }
            translator = exported_translator(models, device, threads, options, others)
        elif is_phrase_based(models):
            others = {
                "--sample": sample,
                "--prefix": prefix,
                "--fertility": fertility,
                "--word-fertility": word_fertility,
                "--terms": terms,
                "--mbr": mbr,
                "--set": settings,
            }
            translator = phrase_translator(models, threads, {**options, "nbest": nbest}, others)
        else:
            refuse_exported(models)
            by_word = word_fertilities(word_fertility or [])
            model, text, base = load_models(models, device, precision, settings or [])
            if beam is None or sample:
                options["beam"] = max(base.beam, nbest, candidates)  # as many are kept as are returned
            if by_word or fertility is not None:
                check_bounded(model, text, str(models[0]))
            translator = Translator(model, text, search_settings(base, options), sampling, by_word, choice)
        if tokenized:
            translator = translator.as_written()
        lines = number_lines(
            _lines(input),
            None if prefix is None else _file_lines(prefix),
            str(prefix),
            None if fertility is None else _file_lines(fertility),
            str(fertility),
            None if terms is None else _file_lines(terms),
            str(terms),
        )
        if interactive and processes.count == 1:
            results = (result for line in lines for result in translator.translate([line]))
        elif processes.count > 1:
            results = translate_shared(translator, lines)
        else:
            results = translator.translate(lines)
        if not processes.is_main:
            for _ in results:
                pass
            return
        if isinstance(translator, Translator) and translator.fertilities:
            results = told_unseen(results, translator)
        if translator.search.forbid_unknown is False and not interactive:
            results = with_unknown_share(results)
        with ExitStack() as files:
            writer = Writer(files, output, nbest > 1, scores, alignment, attention, tokens, show, svg)
            for result in _watched(results, quiet=interactive or (output is None and sys.stdout.isatty())):
                writer.write(result)


def _lines(path: Path | None) -> Iterator[str]:
    """The lines to translate."""
    return _file_lines(path) if path is not None else _standard_input()


def _file_lines(path: Path) -> Iterator[str]:
    from regard.data.corpus import read_lines

    return read_lines(path)


def _standard_input() -> Iterator[str]:
    from regard.data.corpus import decode_lines

    return decode_lines(sys.stdin.buffer, "standard input")


def _watched(results: "Iterator[LineResult]", quiet: bool) -> "Iterator[LineResult]":
    """The same with a progress bar on standard error, where that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed} lines, {task.fields[rate]} a second"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("translate", total=None, rate="?")
        for result in results:
            yield result
            speed = bar.tasks[0].speed
            bar.update(task, advance=1, rate="?" if speed is None else f"{speed:.0f}")
