"""Options shared by all commands that show attention or derive word links from it."""

from typing import Annotated

import typer

__all__ = ["HeadOption", "LayerOption", "ShiftOption"]

LayerOption = Annotated[
    int | None,
    typer.Option(
        "--layer",
        help="Layer of the source attention, from 0; -1 is the last. Default: the layer that the model uses "
        "for word links (generation.alignment.layer).",
        show_default=False,
    ),
]
HeadOption = Annotated[
    int | None,
    typer.Option(
        "--head",
        help="Head of that layer, from 0; -1 is the last. Default: the mean of the heads that the model uses "
        "for word links (generation.alignment.heads), or of all heads with --layer.",
        show_default=False,
    ),
]
ShiftOption = Annotated[
    bool | None,
    typer.Option(
        "--shift/--no-shift",
        help="Whether the attention of a token is taken from the time step that has the token as input, one "
        "step after it was generated. Default: the model's setting for word links "
        "(generation.alignment.shift).",
        show_default=False,
    ),
]
