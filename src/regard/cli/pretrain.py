"""`regard pretrain`: train a masked or causal language model, stored in Hugging Face format."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["pretrain_command"]


def pretrain_command(
    config: Annotated[
        Path, typer.Argument(help="TOML file with the configuration of the run.", show_default=False)
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Settings that override those of the file, as key=value.", show_default=False),
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            help="Output directory. Default: `output_dir` of the configuration, or else runs/NAME.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Pretrain an encoder (model.kind = "masked") or a decoder ("causal") on monolingual text.

    The output directory has the Hugging Face format. It can be loaded by `transformers`, and by `regard
    train` with model.kind = "pretrained" or "hf". Run the same command again to resume a run that was
    stopped. The command needs the package transformers (extra: hf).

    Example: regard pretrain encoder.toml 'text.train=["mono.de"]' text.valid=valid.de --output-dir
        encoders/de
    """
    from rich.console import Console

    from regard.pretrain import pretrain as run
    from regard.pretrain import read_pretrain_config
    from regard.training.device import process_rank

    settings = read_pretrain_config(config, list(overrides or []))
    directory = output_dir or Path(settings.output_dir or config.stem)
    result = run(settings, directory)
    # Under torchrun, only one process reports.
    if process_rank() == 0:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(f"Stopped after {result.reason} at step {result.progress.step}.", markup=False)
        if result.signal is not None:
            console.print("The state is saved. Run the same command again to resume.")
        elif result.progress.best_score is not None:
            found = (
                f"Best validation perplexity: {result.progress.best_score:.2f}. The model is in {directory}."
            )
            console.print(found, markup=False)
    if result.signal is not None:
        raise typer.Exit(128 + result.signal)
