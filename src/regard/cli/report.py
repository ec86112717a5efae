"""`regard report`: an HTML page with the translations, attention and scores of one or more systems."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from regard.cli.command import Writes, expand_groups, given
from regard.cli.options import (
    AlignerOption,
    CheckerOption,
    GoldLinksOption,
    LinkOptions,
    LowercaseOption,
    NamesOption,
    NoAlignerOption,
    OpenOption,
    OptionalDetectorOption,
    ReverseTranslatorOption,
    RuntimeOptions,
    SearchOptions,
    SystemsArgument,
    TokenizeOption,
    TrainSourceOption,
    TrainTargetOption,
    TranslatorOption,
    split_names,
)
from regard.cli.output import open_page, print_message, track
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.reporting.page import SystemsCheck

__all__ = ["report_command"]


@dataclass(frozen=True)
class ReportText:
    """The text of the report and its annotations."""

    panel: ClassVar[str] = "Text"

    test: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            help="Source text and reference translations, plain or compressed.",
            metavar="SOURCE REFERENCE",
            show_default=False,
        ),
    ] = None
    config_test: Annotated[
        bool,
        typer.Option(
            "--config-test",
            help="Instead of --test: use the test text in the configuration of the first model, or else its "
            "validation text. The configuration may name any file on this machine, so use this option only "
            "with your own models.",
        ),
    ] = False
    max_lines: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of lines, from the start of the text. Default: all lines.",
            min=1,
            max=1_000_000_000,
            show_default=False,
        ),
    ] = None
    aligner: AlignerOption = None
    no_aligner: NoAlignerOption = False
    gold_links: GoldLinksOption = None


@dataclass(frozen=True)
class ReportCheckOptions:
    """The check of the translations without the reference."""

    panel: ClassVar[str] = "Check"

    detector: OptionalDetectorOption = None
    checker: CheckerOption = None
    train_source: TrainSourceOption = None
    train_target: TrainTargetOption = None
    translator: TranslatorOption = None
    reverse_translator: ReverseTranslatorOption = None

    def read(self) -> "SystemsCheck | None":
        """Return the check; None if no option is given.

        Raises:
            UsageError: If options contradict each other.
        """
        from regard.config.extensions import require_hook

        if all(value is None for value in vars(self).values()):
            return None
        if (self.train_source is None) != (self.train_target is None):
            raise UsageError("--train-source and --train-target need each other: give both files")
        training = (
            None
            if self.train_source is None or self.train_target is None
            else (self.train_source, self.train_target)
        )
        if training is not None and self.checker is not None:
            raise UsageError("give either --checker or --train-source and --train-target, not both")
        translators = self.translator, self.reverse_translator
        report_check = require_hook("report_check", "check")
        return report_check(self.detector or "combined", self.checker, training, *translators)


@dataclass(frozen=True)
class PageOptions:
    """The content of the page."""

    panel: ClassVar[str] = "Page"

    output: Annotated[
        Path, typer.Option("--output", "-o", help="Output file for the HTML page."), Writes.FILE
    ] = Path("report.html")
    open: OpenOption = False
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default=False)] = None
    names: NamesOption = None
    attention_maps: Annotated[
        Literal["links", "all"],
        typer.Option(
            help="Attention maps on the page. links: only the map that is used for word links. all: also "
            "the maps of all layers and heads, and the prior attention."
        ),
    ] = "links"
    tokenize: TokenizeOption = "13a"
    lowercase: LowercaseOption = False


@expand_groups
def report_command(
    models: SystemsArgument,
    text: ReportText,
    page: PageOptions,
    check: ReportCheckOptions,
    links: LinkOptions,
    search: SearchOptions,
    runtime: RuntimeOptions,
) -> None:
    """Write an HTML page that compares the translations and the attention of one or more systems.

    The page works without a network connection. It starts with a summary in words and a card of each model.
    For each sentence, it shows dropped and repeated words and the attention of each target word, with the
    links of the aligner. It also shows scores with confidence intervals, scores by source length, statistics
    of the attention, and training curves. Sentences can be sorted, filtered, searched and linked to. Tables
    can be saved as CSV, figures as SVG and PNG. As in `regard analyze errors`, REP and DROP use the words of
    each model's tokenizers, with subword tokens joined. As in `regard analyze attention`, the statistics of
    the attention are computed by forced decoding of the references. A detector marks words that are probably
    omitted, added or repeated, and the worst sentences come first. Its aligner and its model are trained on
    the training text in the directory of the first model and kept there, unless --no-aligner is given.

    Example: regard report runs/first --test test.de test.en -o report.html

    Example: regard report runs/first --test test.de test.en --aligner aligner --checker checker

    Example: regard report runs/soft runs/constrained --test test.de test.en --names soft,bounded
    """
    # This check precedes the imports, which take long, so that the error appears at once.
    if (text.test is None) == (not text.config_test):
        raise UsageError(
            "give either --test SOURCE REFERENCE or --config-test, which uses the files in the configuration "
            "of the first model"
        )

    from regard.api.report import ReportOptions, report
    from regard.training.device import set_num_threads

    detection = check.read()
    set_num_threads(runtime.num_threads)
    options = ReportOptions(
        split_names(page.names),
        page.title,
        text.max_lines,
        text.gold_links,
        page.attention_maps,
        page.tokenize,
        page.lowercase,
        detection,
        not text.no_aligner,
    )
    written = report(
        models,
        test=text.test or "config",
        output=page.output,
        aligner=text.aligner,
        options=options,
        progress=track,
        **given(runtime),
        **given(search),
        **given(links),
    )
    print_message(f"wrote {written}")
    if page.open:
        open_page(written)
