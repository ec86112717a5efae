"""Options that several commands share, each declared once."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.command import Writes

_PANEL = "Output"

OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Output file, compressed if its name ends in .gz, .bz2, .xz or .zst. Default: standard output.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
    Writes.FILE,
]
JsonOption = Annotated[
    Path | None,
    typer.Option(
        "--json",
        help="Also write the results to this JSON file.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
    Writes.FILE,
]
FiguresDirOption = Annotated[
    Path | None,
    typer.Option(
        help="Directory for the figures (SVG). It is created if it does not exist. Default: no figures.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
    Writes.INTO,
]
LinksOutputOption = Annotated[
    Path | None,
    typer.Option(
        help="Output file for the word links of each line (0-0 1-2), derived from attention. In translation, "
        "- appends them to the translations.",
        show_default=False,
        rich_help_panel=_PANEL,
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
    Path | None,
    typer.Option(
        help="Output file for the scores of each sentence, tab-separated.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
    Writes.FILE,
]
