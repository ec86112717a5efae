"""`regard train`: train a model from a TOML configuration, or resume an earlier run."""

import json
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["train_command"]


def train_command(
    config: Annotated[
        Path, typer.Argument(help="TOML file with the configuration of the run.", show_default=False)
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Settings that override those of the file, as key=value.", show_default=False),
    ] = None,
    init_from: Annotated[
        str | None,
        typer.Option(
            "--init-from",
            help="Model directory whose weights initialize the model (training.init_from).",
            show_default=False,
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Also write the results to this JSON file.", show_default=False),
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            help="Output directory. Default: `output_dir` of the configuration, or else runs/NAME.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Train a model. Its text is prepared first if necessary.

    Run the same command again to resume a run that was stopped or killed; the resulting weights are
    identical to those of an uninterrupted run. Ctrl-C and SIGTERM save the state, then exit with status 130
    or 143. A second Ctrl-C stops at once. Under `torchrun`, each process computes a share of every batch.

    Example: regard train recipes/multi30k-lstm.toml training.max_minutes=60 --output-dir runs/first
    """
    from rich.console import Console

    from regard.cli.output import write_json
    from regard.cli.progress import preparation_progress
    from regard.experiment import run_training as run
    from regard.metrics.base import METRICS
    from regard.run_config import read_run_config
    from regard.training.distributed import process_rank

    changes = list(overrides or [])
    if init_from is not None:
        # The value is parsed as TOML, whose basic strings have the escapes of JSON.
        changes.append(f"training.init_from={json.dumps(init_from, ensure_ascii=False)}")
    settings = read_run_config(config, changes)
    directory = output_dir or Path(settings.output_dir or config.stem)
    result = run(settings, directory, preparation_progress)
    # Under torchrun, only one process reports.
    if process_rank() == 0:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(f"Stopped after {result.reason} at step {result.progress.step}.", markup=False)
        if result.signal is not None:
            console.print("The state is saved. Run the same command again to resume.")
        elif result.progress.best_score is not None:
            metric = "bleu" if settings.model.kind == "phrase" else settings.training.validation.metric
            registered = METRICS.get(metric)
            name = metric if registered is None else registered.label
            best, step = result.progress.best_score, result.progress.best_step
            console.print(
                f"Best validation {name}: {best:.2f} at step {step}. The model is in {directory}.",
                markup=False,
            )
        progress = result.progress
        results = {
            "stopped_after": result.reason,
            "signal": result.signal,
            "step": progress.step,
            "seconds": progress.seconds,
            "tokens": progress.tokens,
            "flops": progress.flops,
            "metric": settings.training.validation.metric,
            "best": progress.best_score,
            "best_step": progress.best_step,
        }
        write_json(json_file, results)
    if result.signal is not None:
        # Shells report a process that was ended by a signal with status 128 + signal number.
        raise typer.Exit(128 + result.signal)
