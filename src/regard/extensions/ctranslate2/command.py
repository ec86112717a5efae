"""`regard export`: convert a model for CTranslate2."""

from typing import Annotated, Literal

import typer

from regard.cli.command import check_paths
from regard.cli.options import ModelDirArgument, NewOutputDirOption, OverwriteOption
from regard.cli.output import print_message

__all__ = ["export"]


@check_paths
def export(
    engine: Annotated[Literal["ctranslate2"], typer.Argument(help="Inference engine.", show_default=False)],
    model: ModelDirArgument,
    output_dir: NewOutputDirOption,
    quantization: Annotated[
        str,
        typer.Option(
            help="Storage type of the weights: float32, float16, bfloat16, int8, int8_float32, int8_float16, "
            "int8_bfloat16 or int16."
        ),
    ] = "float32",
    overwrite: OverwriteOption = False,
) -> None:
    """Convert a model for another inference engine.

    Transformers with softmax attention can be exported to CTranslate2, which is small and fast.

    Example: regard export ctranslate2 runs/first -o exported --quantization int8; then
    regard translate exported --engine ctranslate2 < input.txt
    """
    from regard.extensions.ctranslate2.export import export_ctranslate2

    export_ctranslate2(model, output_dir, quantization, overwrite)
    print_message(f"{output_dir}: exported {model} for CTranslate2 with {quantization} weights")
