"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "BatchSizeOption",
    "BeamSizeOption",
    "CoveragePenaltyOption",
    "DeviceOption",
    "GoldLinksOption",
    "LengthPenaltyOption",
    "NumThreadsOption",
    "PrecisionOption",
    "ReferenceOption",
    "SourceOption",
]

SourceOption = Annotated[Path, typer.Option(help="Source text, plain or gzip.", show_default=False)]
ReferenceOption = Annotated[
    Path, typer.Option(help="Reference translations, one line per source line.", show_default=False)
]
BeamSizeOption = Annotated[
    int | None,
    typer.Option(help="Beam size. 1 is greedy search. Default: that of the model.", show_default=False),
]
LengthPenaltyOption = Annotated[
    float | None,
    typer.Option(
        help="Alpha of the length penalty. 0 disables it. Default: that of the model.", show_default=False
    ),
]
CoveragePenaltyOption = Annotated[
    float | None,
    typer.Option(
        help="Beta of the coverage penalty. 0 disables it. Default: that of the model.", show_default=False
    ),
]
BatchSizeOption = Annotated[
    int | None,
    typer.Option(
        help="Maximum number of sentences in a batch. Default: that of the model.", min=1, show_default=False
    ),
]
PrecisionOption = Annotated[str, typer.Option(help="float32, bfloat16 (faster) or int8 (faster, CPU only).")]
DeviceOption = Annotated[str, typer.Option(help="auto (a GPU if available), cpu, cuda or cuda:N.")]
NumThreadsOption = Annotated[
    int | None,
    typer.Option(
        help="Number of CPU threads. Default: all available processors.",
        min=1,
        max=1_024,
        show_default=False,
    ),
]
GoldLinksOption = Annotated[
    Path | None,
    typer.Option(
        help="Gold word links of the text (.talp: i-j sure, ipj possible), for the alignment error rate.",
        show_default=False,
    ),
]
