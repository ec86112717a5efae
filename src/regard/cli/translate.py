"""`regard translate`: translate text with one model or an ensemble, and show or save its attention."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from regard.cli.command import expand_groups, given, setting
from regard.cli.options import (
    GENERATION,
    CoverageEpsilonOption,
    LinkOptions,
    ModelDirsArgument,
    ModelSettingsOption,
    RuntimeOptions,
    SearchOptions,
    TokenizedOption,
)
from regard.cli.output import print_message
from regard.cli.translation_candidates import CandidateOptions
from regard.cli.translation_writer import TranslationOutput, TranslationWriter
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.generation.base import BaseTranslator, Capability
    from regard.generation.lines import Line
    from regard.generation.translation import Translation

__all__ = ["translate"]


@dataclass(frozen=True)
class TranslationInput:
    """The text to translate, and the files with demands on the translation of each line."""

    panel: ClassVar[str] = "Input"

    input: Annotated[
        Path | None, typer.Option(help="Source text, plain or compressed. Default: standard input.")
    ] = None
    tokenized: TokenizedOption = False
    prefixes: Annotated[
        Path | None,
        typer.Option(help="File with the required beginnings of the translations, one line per source line."),
    ] = None
    required_terms: Annotated[
        Path | None,
        typer.Option(
            help="File with required words and phrases, one line per source line, separated by tabs. An "
            "empty line requires none."
        ),
    ] = None
    fertilities: Annotated[
        Path | None,
        typer.Option(
            help="File with bounds of the total attention of source tokens, one line per source line. A line "
            "has one field per token or word: MAX, MIN:MAX, MIN: or -. The model's own fertility replaces a "
            "missing maximum. An empty line means the model's own fertilities.",
        ),
    ] = None
    word_fertility: Annotated[
        list[str] | None,
        typer.Option(
            help="Bounds of the total attention of a source word in all lines: WORD=MAX or WORD=MIN:MAX. The "
            "option may be repeated.",
            show_default=False,
        ),
    ] = None

    @property
    def interactive(self) -> bool:
        """Whether the user types the lines in a terminal."""
        return self.input is None and sys.stdin.isatty()

    def lines(self) -> "Iterator[Line]":
        """Yield the numbered lines, with their prefixes, fertilities and required terms."""
        from regard.generation.lines import enumerate_lines
        from regard.text.corpus import decode_lines, read_lines

        def read(path: Path | None) -> Iterator[str] | None:
            return None if path is None else read_lines(path)

        return enumerate_lines(
            read(self.input) or decode_lines(sys.stdin.buffer, "standard input"),
            read(self.prefixes),
            str(self.prefixes),
            read(self.fertilities),
            str(self.fertilities),
            read(self.required_terms),
            str(self.required_terms),
        )


@dataclass(frozen=True)
class TranslationSearch(SearchOptions):
    """All settings of beam search."""

    num_return: Annotated[
        int,
        setting(
            f"{GENERATION}:num_return",
            note="With more than 1, the format is LINE ||| TEXT ||| SCORE, with lines counted from 0. In a "
            "text with ||| or a character reference, & and | are written as &amp; and &#124;.",
        ),
    ] = 1
    coverage_epsilon: CoverageEpsilonOption = None
    no_repeat_ngram_size: Annotated[int | None, setting(f"{GENERATION}:no_repeat_ngram_size")] = None
    min_length: Annotated[int | None, setting(f"{GENERATION}:min_length")] = None
    max_length_ratio: Annotated[float | None, setting(f"{GENERATION}:max_length_ratio")] = None
    max_length_offset: Annotated[int | None, setting(f"{GENERATION}:max_length_offset")] = None
    suppress_unk: Annotated[
        bool | None, setting(f"{GENERATION}:suppress_unk", "--suppress-unk/--allow-unk")
    ] = None
    replace_unk: Annotated[bool | None, setting(f"{GENERATION}:alignment.replace_unk", "--replace-unk")] = (
        None
    )


@dataclass(frozen=True)
class TranslationRuntime(RuntimeOptions):
    """The options of the computation, with changes of the model and its inference engine."""

    settings: ModelSettingsOption = None
    engine: Annotated[
        Literal["regard", "ctranslate2"] | None,
        typer.Option(
            help="Inference engine. ctranslate2 is for a model of `regard export` and supports plain "
            "translation only. Default: the engine of the model.",
            show_default=False,
        ),
    ] = None


@expand_groups
def translate(
    models: ModelDirsArgument,
    text: TranslationInput,
    output: TranslationOutput,
    search: TranslationSearch,
    links: LinkOptions,
    candidates: CandidateOptions,
    runtime: TranslationRuntime,
) -> None:
    """Translate text, one line at a time.

    Options that are not given have the values in the configuration of the model.

    Example: regard translate runs/first --beam-size 5 --show-attention < input.txt

    Best of 64 samples: regard translate runs/first --sample --mbr chrf --mbr-candidates 64 < input.txt

    Required terms: regard translate runs/first --required-terms terms.txt < input.txt

    Repair of omissions: regard translate runs/first --check --checker checkers/de-en < input.txt
    """
    # Wrong flags are reported before the model is loaded.
    configs = candidates.configs()
    if candidates.sample and text.required_terms is not None:
        raise UsageError("--required-terms needs beam search, so it cannot be used with --sample")

    from regard.api.loading import load_translator
    from regard.training.device import set_num_threads

    set_num_threads(runtime.num_threads)
    fertilities = parse_word_fertilities(text.word_fertility or [])
    loaded = load_translator(
        models,
        runtime.device,
        runtime.precision,
        None,
        runtime.settings or [],
        num_threads=runtime.num_threads,
        engine=runtime.engine,
    )
    options = {**given(search), **given(links), "batch_size": runtime.batch_size}
    translator = candidates.checked(loaded, options, configs, fertilities)
    _require_capabilities(translator, text, output)
    results = _results(translator.pretokenized() if text.tokenized else translator, text)
    if candidates.check:
        results = candidates.report_repairs(results)
    if fertilities:
        results = report_missing_words(results, fertilities)
    # In interactive use, the message would interrupt the dialog.
    if translator.resolved_search.suppress_unk is False and not text.interactive:
        results = report_unknown_tokens(results)
    with ExitStack() as files:
        writer = TranslationWriter(files, output, search.num_return > 1)
        # A progress bar would be mixed with translations on the same terminal.
        quiet = text.interactive or (output.output is None and sys.stdout.isatty())
        for result in _with_progress(results, quiet):
            writer.write(result)


def _require_capabilities(
    translator: "BaseTranslator", text: TranslationInput, output: TranslationOutput
) -> None:
    """Check that the translator supports the given flags.

    Raises:
        UsageError: If it does not; names the flag.
    """
    needed: list[tuple[Capability, str, object]] = [
        ("prefix", "--prefixes", text.prefixes),
        ("fertility", "--fertilities", text.fertilities),
        ("terms", "--required-terms", text.required_terms),
        ("attention", "--links-output", output.links_output),
        ("attention", "--attention-output", output.attention_output),
        ("attention", "--show-attention", output.show_attention),
        ("attention", "--svg", output.svg),
    ]
    for capability, flag, value in needed:
        if value:
            translator.require(capability, flag)


def _results(translator: "BaseTranslator", text: TranslationInput) -> "Iterator[Translation]":
    """Return the results of all lines, or of one line at a time if the user waits for each."""
    if text.interactive:
        # A block would wait for more lines before it shows the first translation.
        return (result for line in text.lines() for result in translator.translate([line]))
    return translator.translate(text.lines())


def parse_word_fertilities(options: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the minimum and maximum attention of words, parsed from WORD=MAX or WORD=MIN:MAX.

    Raises:
        UsageError: If an option does not have this form.
        DataError: If the numbers of an option are not valid fertilities.
    """
    from regard.data.fertility import parse_bounds

    fertilities: dict[str, tuple[float, float]] = {}
    for option in options:
        # Split at the last "=", because the word itself may contain one.
        word, equals, bounds = option.rpartition("=")
        if not equals or not word:
            raise UsageError(f"--word-fertility {option!r}: expected WORD=MAX or WORD=MIN:MAX")
        fertilities[word] = parse_bounds(bounds, f"--word-fertility {option!r}")
    return fertilities


def report_missing_words(results: "Iterator[Translation]", words: Iterable[str]) -> "Iterator[Translation]":
    """Yield the results, then report the words of `--word-fertility` that did not occur in the text."""
    left = set(words)
    for result in results:
        if left:
            left.difference_update(result.source_words)
        yield result
    for word in words:
        if word in left:
            print_message(f"--word-fertility {word}: this word does not occur in the text")


def report_unknown_tokens(results: "Iterator[Translation]") -> "Iterator[Translation]":
    """Yield the results, then report the share of unknown tokens in the best translations."""
    from regard.text.vocabulary import SPECIAL_TOKENS, UNK

    tokens = unknown = 0
    for result in results:
        tokens += len(result.tokens)
        unknown += result.tokens.count(SPECIAL_TOKENS[UNK])
        yield result
    if tokens:
        print_message(
            f"{unknown:,} of {tokens:,} generated tokens are unknown ({100 * unknown / tokens:.2f} %)"
        )


def _with_progress(results: "Iterator[Translation]", quiet: bool) -> "Iterator[Translation]":
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
            # A line counts only after its translation has been written.
            yield result
            speed = bar.tasks[0].speed
            bar.update(task, advance=1, rate="?" if speed is None else f"{speed:.0f}")
