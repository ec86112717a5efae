"""`regard convert` and `regard download`: published Hugging Face models."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import ModelDirArgument
from regard.cli.output import print_message

__all__ = ["convert_command", "download_command"]


def convert_command(model: ModelDirArgument) -> None:
    """Convert the pickled weights of a Hugging Face model to safetensors.

    Published models often have `pytorch_model.bin`. It is read without executing its code; a file with more
    than tensors is refused. `model.safetensors` is written next to it when the model's outputs are equal.

    Example: regard convert opus-mt-de-en
    """
    from regard.api.weights import convert

    made = convert(model)
    print_message(
        f"{model}: wrote {', '.join(made.files)}: {made.num_tensors:,} tensors, {made.num_parameters:,} "
        f"values ({', '.join(made.dtypes)}); the model's outputs are equal"
    )


def download_command(
    name: Annotated[str, typer.Argument(help="Name on the Hugging Face Hub.", show_default=False)],
    output_dir: Annotated[
        Path | None,
        typer.Option(
            "--output-dir",
            "-o",
            help="Output directory. Default: the last part of the name.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Download a model from the Hugging Face Hub into a directory.

    Only weights, configurations and tokenizers are downloaded. Pickled weights are converted to safetensors.

    Example: regard download Helsinki-NLP/opus-mt-de-en, then regard translate opus-mt-de-en < input.txt
    """
    from regard.api.weights import download

    directory = download(name, output_dir)
    print_message(f"{directory}: downloaded {name}")
