"""`regard export`: a trained model for another engine."""

from pathlib import Path
from typing import Annotated

import typer

from regard.errors import UsageError

__all__ = ["export"]


def export(
    engine: Annotated[str, typer.Argument(help="ctranslate2.", show_default=False)],
    model: Annotated[Path, typer.Argument(help="Model directory.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="The new folder.", show_default=False)],
    quantization: Annotated[
        str,
        typer.Option(
            help="How weights are kept: float32, float16, bfloat16, int8, int8_float32, int8_float16, "
            "int8_bfloat16 or int16."
        ),
    ] = "float32",
    force: Annotated[
        bool, typer.Option("--force", help="Replace a model exported to that folder before.")
    ] = False,
) -> None:
    """Write a model for another engine: softmax Transformers for CTranslate2, which is small and fast.

    Example: regard export ctranslate2 runs/first -o exported --quantization int8; then
    regard translate exported --engine ctranslate2 < input.txt
    """
    if engine != "ctranslate2":
        raise UsageError(f"{engine!r}: there is no such engine; expected ctranslate2")
    from rich.console import Console

    from regard.export.ctranslate2 import export as run

    run(model, output, quantization, force)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"{output}: {model} for CTranslate2, {quantization}", markup=False)
