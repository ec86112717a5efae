"""`regard pretrain`: a language model on text of one language, as a Hugging Face folder."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["pretrain"]


def pretrain(
    config: Annotated[
        Path, typer.Argument(help="TOML file with the configuration of the run.", show_default=False)
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Settings that override those of the file, as key=value.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder; else the config's `folder`, else runs/NAME.", show_default=False),
    ] = None,
) -> None:
    """Pre-train an encoder (model.kind = "masked") or a decoder ("causal") on text of one language.

    What comes out is a Hugging Face folder: `transformers` loads it, and so does `regard train` with
    model.kind = "pretrained" or "hf". The same command goes on with a run that was stopped or killed. Needs
    transformers (the extra hf).

    Example: regard pretrain encoder.toml 'text.train=["mono.de"]' text.valid=valid.de --out encoders/de
    """
    from rich.console import Console

    from regard.pretrain import pretrain as run
    from regard.pretrain import read_pretraining
    from regard.training.distributed import process_rank

    settings = read_pretraining(config, list(overrides or []))
    folder = out or Path(settings.folder or config.stem)
    result = run(settings, folder)
    if process_rank() == 0:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(f"Stopped after {result.reason}: update {result.progress.update}.", markup=False)
        if result.signal is not None:
            console.print("The state is saved. Run the same command again to resume.")
        elif result.progress.best is not None:
            found = f"Best validation perplexity: {result.progress.best:.2f}. The model is {folder}."
            console.print(found, markup=False)
    if result.signal is not None:
        raise typer.Exit(128 + result.signal)
