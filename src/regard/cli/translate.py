"""`regard translate`: translate text with one model or an ensemble, and show or save its attention."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from regard.cli.command import expand_groups, given, require_flag, setting
from regard.cli.options import (
    GENERATION,
    CheckerOption,
    CoverageEpsilonOption,
    LinkOptions,
    ModelDirsArgument,
    ModelSettingsOption,
    RuntimeOptions,
    SearchOptions,
    TokenizedOption,
)
from regard.cli.output import track
from regard.cli.translation_writer import (
    TranslationOutput,
    TranslationWriter,
    report_missing_words,
    report_repairs,
    report_unknown_tokens,
)
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.api.translator import Translator
    from regard.generation.base import Capability
    from regard.generation.lines import Line

__all__ = ["SAMPLING", "translate"]

SAMPLING = "regard.generation.config.Sampling"
_MBR = "regard.generation.mbr.MBR"
_REPAIR = "regard.generation.repair_candidates.Repair"
_PANEL = "Check and repair of omissions"


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
            read(self.fertilities),
            read(self.required_terms),
            (str(self.prefixes), str(self.fertilities), str(self.required_terms)),
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


@dataclass(frozen=True)
class CandidateOptions:
    """Sampling, the choice among candidates by expected utility, and the repair of translations."""

    panel: ClassVar[str] = "Sampling and minimum Bayes risk decoding"

    sample: Annotated[
        bool, typer.Option("--sample", help="Sample translations from the model instead of beam search.")
    ] = False
    temperature: Annotated[float | None, setting(f"{SAMPLING}:temperature")] = None
    top_k: Annotated[int | None, setting(f"{SAMPLING}:top_k")] = None
    top_p: Annotated[float | None, setting(f"{SAMPLING}:top_p")] = None
    seed: Annotated[int | None, setting(f"{SAMPLING}:seed")] = None
    mbr: Annotated[
        str | None,
        typer.Option(
            help="Minimum Bayes risk decoding: choose from the beam, or from the samples of --sample, by "
            "expected utility. Utilities are bleu, chrf, rep (100 minus the repetitions per 100 words) and "
            "coverage (100 minus the omitted, added and repeated words per 100 words, by --checker). "
            "Scores in the output are expected utilities.",
            show_default=False,
        ),
    ] = None
    mbr_candidates: Annotated[int | None, setting(f"{_MBR}:num_candidates")] = None
    mbr_weighting: Annotated[str | None, setting(f"{_MBR}:weighting")] = None
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Check the translations with --checker, and translate sentences again whose translation "
            "probably omits a word. Each change is reported. --tokens-output and --attention-output contain "
            "the translation and the probabilities before and after.",
            rich_help_panel=_PANEL,
        ),
    ] = False
    checker: CheckerOption = None
    check_threshold: Annotated[float | None, setting(f"{_REPAIR}:threshold", rich_help_panel=_PANEL)] = None
    check_strategies: Annotated[
        list[str] | None,
        setting(f"{_REPAIR}:strategies", note="The option may be repeated.", rich_help_panel=_PANEL),
    ] = None
    check_weight: Annotated[float | None, setting(f"{_REPAIR}:weight", rich_help_panel=_PANEL)] = None
    check_max_loss: Annotated[float | None, setting(f"{_REPAIR}:max_loss", rich_help_panel=_PANEL)] = None

    def options(self) -> dict[str, Any]:
        """Return the options of a translation that are given: `sampling`, `mbr`, `repair` and `checker`.

        Raises:
            UsageError: If a flag is given without the one that it depends on.
            ConfigError: If a setting is invalid; names it.
            DataError: If the checker cannot be read.
        """
        from regard.api.loading import load_checker
        from regard.config import from_dict
        from regard.generation.config import Sampling
        from regard.generation.mbr import MBR
        from regard.generation.repair_candidates import Repair

        options: dict[str, Any] = {}
        flags = {name: getattr(self, name) for name in ("temperature", "top_k", "top_p", "seed")}
        if _depend("--sample", self.sample, flags):
            options["sampling"] = from_dict(Sampling, _given(flags), origin="sampling options")
        flags = {"mbr_candidates": self.mbr_candidates, "mbr_weighting": self.mbr_weighting}
        if _depend("--mbr", self.mbr is not None, flags):
            chosen = {"num_candidates": self.mbr_candidates, "weighting": self.mbr_weighting}
            chosen["utility"] = self.mbr
            options["mbr"] = from_dict(MBR, _given(chosen), origin="--mbr options")
        settings = ("threshold", "strategies", "weight", "max_loss")
        flags = {f"check_{name}": getattr(self, f"check_{name}") for name in settings}
        if _depend("--check", self.check, flags):
            chosen = {name: flags[f"check_{name}"] for name in settings}
            options["repair"] = from_dict(Repair, _given(chosen), origin="--check options")
        if self.checker is not None:
            options["checker"] = load_checker(self.checker)
        return options


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
    options = {**given(search), **given(links), **candidates.options()}
    if candidates.sample and text.required_terms is not None:
        raise UsageError("--required-terms needs beam search, so it cannot be used with --sample")
    fertilities = _word_fertilities(text.word_fertility or [])

    from regard.api.translator import load
    from regard.training.device import set_num_threads

    set_num_threads(runtime.num_threads)
    model = load(
        *models,
        device=runtime.device,
        precision=runtime.precision,
        overrides=runtime.settings or [],
        tokenized=text.tokenized,
        engine=runtime.engine,
        num_threads=runtime.num_threads,
    )
    _require_capabilities(model, text, output)
    if runtime.batch_size is not None:
        options["batch_size"] = runtime.batch_size
    # In interactive use, a block would wait for more lines before it shows the first translation.
    if text.interactive:
        options["buffer_lines"] = 1
    results = model.translate_lines(text.lines(), fertilities, **options)
    if candidates.check:
        results = report_repairs(results, options["repair"].threshold)
    if fertilities:
        results = report_missing_words(results, fertilities)
    if not text.interactive:
        results = report_unknown_tokens(results)
    with ExitStack() as files:
        writer = TranslationWriter(files, output, search.num_return > 1)
        # A progress bar would be mixed with translations on the same terminal.
        quiet = text.interactive or (output.output is None and sys.stdout.isatty())
        for result in results if quiet else track(results, "translate", None):
            writer.write(result)


def _require_capabilities(model: "Translator", text: TranslationInput, output: TranslationOutput) -> None:
    """Check that the model supports the given flags.

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
            model.backend.require(capability, flag)


def _depend(flag: str, present: bool, others: dict[str, Any]) -> bool:
    """Return whether a flag is given; refuse the others without it."""
    require_flag(flag, present, others)
    return present


def _given(flags: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if value is not None}


def _word_fertilities(options: Sequence[str]) -> dict[str, tuple[float, float]]:
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
