"""The options of every command that shows attention, or makes word links from it."""

from typing import Annotated

import typer

__all__ = ["HeadOption", "LayerOption", "ShiftOption"]

LayerOption = Annotated[
    int | None,
    typer.Option(
        "--layer",
        help="Layer of the attention to the source, from 0; -1 is the last. Default: the one that the "
        "model's word links come from (search.alignment.layer).",
        show_default=False,
    ),
]
HeadOption = Annotated[
    int | None,
    typer.Option(
        "--head",
        help="Head of that layer, from 0; -1 is the last. Default: the mean of the heads that the model's "
        "word links come from (search.alignment.heads), or of all heads with --layer.",
        show_default=False,
    ),
]
ShiftOption = Annotated[
    bool | None,
    typer.Option(
        "--shift/--no-shift",
        help="Take the attention of a token from the time step that has it as input, the one after it was "
        "generated. Default: as the model's word links are made (search.alignment.shift).",
        show_default=False,
    ),
]
