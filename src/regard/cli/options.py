"""Options that several commands share, each declared once."""

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.command import Writes

_PANEL = "Output"


def _path(*names: str, help: str) -> Any:
    return typer.Option(*names, help=help, show_default=False, rich_help_panel=_PANEL)


OutputOption = Annotated[
    Path | None,
    _path(
        "--output",
        "-o",
        help="Output file, compressed if its name ends in .gz, .bz2, .xz or .zst. Default: standard output.",
    ),
    Writes.FILE,
]
JsonOption = Annotated[
    Path | None, _path("--json", help="Also write the results to this JSON file."), Writes.FILE
]
FiguresDirOption = Annotated[
    Path | None,
    _path(help="Directory for the figures (SVG). It is created if it does not exist. Default: no figures."),
    Writes.INTO,
]
LinksOutputOption = Annotated[
    Path | None,
    _path(
        help="Output file for the word links of each line (0-0 1-2), derived from attention. In translation, "
        "- appends them to the translations.",
    ),
    Writes.FILE,
]
NumSentencesOption = Annotated[
    int,
    typer.Option(
        "--num-sentences",
        "-n",
        help="Number of sentences to show. 0 shows all.",
        min=0,
        max=1_000_000_000,
        rich_help_panel=_PANEL,
    ),
]
SentenceScoresOption = Annotated[
    Path | None, _path(help="Output file for the scores of each sentence, tab-separated."), Writes.FILE
]
