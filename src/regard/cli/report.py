"""`regard report`: an HTML page with the translations, attention and scores of one or more systems."""

from typing import Annotated

import typer

from regard.cli.api_flags import ATTENTION_FLAGS, COMPUTATION_FLAGS, SEARCH_FLAGS, ApiCall, ApiCommand
from regard.cli.command import Writes
from regard.cli.output import print_message
from regard.errors import UsageError


@ApiCommand(
    "regard.api.report:report",
    ["models"],
    panels={"Text": "test", "Check": "check"} | SEARCH_FLAGS | ATTENTION_FLAGS | COMPUTATION_FLAGS,
    parts={"check": "regard.api.report:report_check"},
    writes={"output": Writes.FILE},
)
def report_command(
    call: ApiCall,
    config_test: Annotated[
        bool,
        typer.Option(
            "--config-test",
            help="Instead of --test: use the test text in the configuration of the first model, or else its "
            "validation text. The configuration may name any file on this machine, so use this option only "
            "with your own models.",
        ),
    ] = False,
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
    if ("test" in call.values) == config_test:
        raise UsageError(
            "give either --test SOURCE REFERENCE or --config-test, which uses the files in the configuration "
            "of the first model"
        )
    if config_test:
        call.values["test"] = "config"
    if "check" in call.options:
        call.options.setdefault("options", {})["check"] = call.take("check")
    print_message(f"wrote {call()}")
