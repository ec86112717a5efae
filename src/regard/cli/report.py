"""`regard report`: an HTML page with the translations, attention and scores of one or more systems."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from regard.cli.api_flags import ApiCall, from_api
from regard.cli.command import Writes, given
from regard.cli.options import (
    CheckerOption,
    LinkOptions,
    OpenOption,
    OptionalDetectorOption,
    ReverseTranslatorOption,
    RuntimeOptions,
    SearchOptions,
    TrainSourceOption,
    TrainTargetOption,
    TranslatorOption,
)
from regard.cli.output import open_page, print_message
from regard.errors import UsageError

__all__ = ["report_command"]


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


@from_api(
    "regard.api.report:report",
    arguments=["models"],
    skip=["test", "check"],
    writes={"output": Writes.FILE},
)
def report_command(
    call: ApiCall,
    check: ReportCheckOptions,
    links: LinkOptions,
    search: SearchOptions,
    runtime: RuntimeOptions,
    test: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            help="Source text and reference translations, plain or compressed.",
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
    open: OpenOption = False,
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
    the training text in the directory of the first model and kept there, unless --no-train-missing is given.

    Example: regard report runs/first --test test.de test.en -o report.html

    Example: regard report runs/first --test test.de test.en --aligner aligner --checker checker

    Example: regard report runs/soft runs/constrained --test test.de test.en --names soft,bounded
    """
    if (test is None) == (not config_test):
        raise UsageError(
            "give either --test SOURCE REFERENCE or --config-test, which uses the files in the configuration "
            "of the first model"
        )
    if given(check):
        from regard.api.report import report_check

        call.options.setdefault("options", {})["check"] = report_check(**given(check))
    written = call(links, search, runtime, test=test or "config")
    print_message(f"wrote {written}")
    if open:
        open_page(written)
