"""`regard export`: convert a trained model for another inference engine."""

from pathlib import Path
from typing import Annotated

import typer

from regard.errors import UsageError

__all__ = ["export"]


def export(
    engine: Annotated[str, typer.Argument(help="Inference engine: ctranslate2.", show_default=False)],
    model: Annotated[Path, typer.Argument(help="Model directory.", show_default=False)],
    output_dir: Annotated[
        Path, typer.Option("--output-dir", "-o", help="Directory for the exported model.", show_default=False)
    ],
    quantization: Annotated[
        str,
        typer.Option(
            help="Storage type of the weights: float32, float16, bfloat16, int8, int8_float32, int8_float16, "
            "int8_bfloat16 or int16."
        ),
    ] = "float32",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite an existing exported model.")
    ] = False,
) -> None:
    """Convert a model for another inference engine.

    Transformers with softmax attention can be exported to CTranslate2, which is small and fast.

    Example: regard export ctranslate2 runs/first -o exported --quantization int8; then
    regard translate exported --engine ctranslate2 < input.txt
    """
    if engine != "ctranslate2":
        raise UsageError(f"unknown engine {engine!r}: expected ctranslate2")
    from rich.console import Console

    from regard.export import export_ctranslate2

    export_ctranslate2(model, output_dir, quantization, overwrite)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"{output_dir}: exported {model} for CTranslate2 with {quantization} weights", markup=False)
