"""The commands of training: `regard config`, `prepare`, `train`, `pretrain` and `average`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.command import check_paths
from regard.cli.options import (
    ConfigArgument,
    JsonOption,
    NewDirectoryArgument,
    OverridesArgument,
    RunDirOption,
)
from regard.cli.output import print_message, write_json

if TYPE_CHECKING:
    from regard.training.trainer import TrainingResult

__all__ = ["average", "config", "prepare", "pretrain_command", "train_command"]


def prepare(config: ConfigArgument, overrides: OverridesArgument = None) -> None:
    """Tokenize the text of a run and store it as binary arrays.

    If the text and the settings of the data have not changed, existing files are reused.

    Example: regard prepare recipes/multi30k-lstm.toml data.cache_dir=prepared/multi30k
    """
    from regard.data.dataset import prepare_data
    from regard.data.swapped_sides import warn_if_swapped
    from regard.runs.config import read_run_config
    from regard.training.display import preparation_progress

    settings = read_run_config(config, overrides or [])
    with preparation_progress() as progress:
        prepared = prepare_data(settings.data, progress=progress)
    warn_if_swapped(prepared)
    text = prepared.text
    print_message(
        f"{settings.data.cache_dir}: {len(prepared.split('train')):,} training pairs, vocabularies of "
        f"{len(text.source.vocabulary):,} and {len(text.target.vocabulary):,} tokens"
    )


@check_paths
def train_command(
    config: ConfigArgument,
    overrides: OverridesArgument = None,
    init_from: Annotated[
        str | None,
        typer.Option(
            help="Model directory whose weights initialize the model (training.init_from).",
            show_default=False,
        ),
    ] = None,
    json_file: JsonOption = None,
    output_dir: RunDirOption = None,
) -> None:
    """Train a model. Its text is prepared first if necessary.

    Run the same command again to resume a run that was stopped or killed; the resulting weights are
    identical to those of an uninterrupted run. Ctrl-C and SIGTERM save the state, then exit with status 130
    or 143. A second Ctrl-C stops at once. Under `torchrun`, each process computes a share of every batch.

    Example: regard train recipes/multi30k-lstm.toml training.max_minutes=60 --output-dir runs/first
    """
    from regard.api.training import train
    from regard.data.manifest import input_files
    from regard.runs.config import read_run_config
    from regard.text.paths import check_outputs
    from regard.training.device import process_rank

    changes = list(overrides or [])
    if init_from is not None:
        # The value is parsed as TOML, whose basic strings have the escapes of JSON.
        changes.append(f"training.init_from={json.dumps(init_from, ensure_ascii=False)}")
    if json_file is not None:
        check_outputs([path for _, path in input_files(read_run_config(config, changes).data)], [json_file])
    result = train(config, output_dir, overrides=changes, progress=True)
    # Under torchrun, only one process reports.
    if process_rank() == 0:
        best = f"Best validation {_metric_label(result.metric)}: {result.progress.best_score or 0:.2f}"
        _report(result, f"{best} at step {result.progress.best_step}. The model is in {result.output_dir}.")
        if result.signal is None and result.output_dir is not None:
            _print_next_commands(result.output_dir)
        write_json(json_file, result.to_dict())
    if result.signal is not None:
        # Shells report a process that was ended by a signal with status 128 + signal number.
        raise typer.Exit(128 + result.signal)


def pretrain_command(
    config: ConfigArgument, overrides: OverridesArgument = None, output_dir: RunDirOption = None
) -> None:
    """Pretrain an encoder (model.kind = "masked") or a decoder ("causal") on monolingual text.

    The output directory has the Hugging Face format. It can be loaded by `transformers`, and by `regard
    train` with model.kind = "pretrained" or "hf". Run the same command again to resume a run that was
    stopped. The command needs the package transformers (extra: hf).

    Example: regard pretrain encoder.toml 'text.train=["mono.de"]' text.valid=valid.de --output-dir
        encoders/de
    """
    from regard.runs.pretraining import pretrain as run
    from regard.runs.pretraining import read_pretrain_config
    from regard.training.device import process_rank

    settings = read_pretrain_config(config, list(overrides or []))
    directory = Path(output_dir or settings.output_dir or "")
    result = run(settings, directory)
    if process_rank() == 0:
        best = f"Best validation perplexity: {result.progress.best_score or 0:.2f}."
        _report(result, f"{best} The model is in {directory}.")
    if result.signal is not None:
        raise typer.Exit(128 + result.signal)


def _report(result: "TrainingResult", best: str) -> None:
    """Print why training stopped and, if it was validated, its best score."""
    from regard.training.display import format_duration

    progress = result.progress
    speed = (
        f", {progress.tokens / progress.seconds:,.0f} target tokens/s"
        if progress.tokens and progress.seconds
        else ""
    )
    print_message(
        f"Stopped after {result.reason} at step {progress.step:,}, after {format_duration(progress.seconds)} "
        f"of training{speed}."
    )
    if result.signal is not None:
        print_message("The state is saved. Run the same command again to resume.")
    elif result.progress.best_score is not None:
        print_message(best)


def _print_next_commands(model_dir: Path) -> None:
    """Print commands that translate with a new model and show its attention, as they can be typed."""
    import shlex

    from regard.models.registry import MODELS
    from regard.runs.config import load_config
    from regard.text.compression import format_of

    config = load_config(model_dir)
    show = " --show-attention" if MODELS.part_of(config.model).has_attention else ""
    plugins = "".join(f" --plugin {shlex.quote(name)}" for name in config.plugins)
    model, valid = shlex.quote(str(model_dir)), config.data.valid
    print_message("Next:")
    if valid.source is not None:
        text = shlex.quote(valid.source)
        program = format_of(valid.source)
        head = f"head -3 {text}" if program is None else f"{program} -dc {text} | head -3"
        print_message(f"  {head} | regard translate {model}{plugins}{show}")
    print_message(f"  regard report {model}{plugins} --config-test -o {shlex.quote(f'{model_dir}.html')}")


def _metric_label(name: str) -> str:
    from regard.metrics.base import METRICS

    metric = METRICS.get(name)
    return name if metric is None else metric.label


@check_paths
def average(
    output_dir: NewDirectoryArgument,
    model_paths: Annotated[
        list[Path],
        typer.Argument(
            help="Model directories, or checkpoint files in their `training/` directories.",
            show_default=False,
        ),
    ],
    last_epochs: Annotated[
        int,
        typer.Option(
            help="Number of most recent epoch checkpoints to average from each model directory; "
            "training.checkpoint.keep_last_epochs determines how long they are kept. 0 averages the models "
            "themselves.",
            min=0,
            max=1_000_000,
        ),
    ] = 0,
) -> None:
    """Average the weights of models with the same model configuration and text processing.

    The average of the last epochs of a run often translates better than any single epoch.

    Example: regard average runs/averaged runs/first --last-epochs 5
    """
    from regard.runs.averaging import average_models

    files = average_models(output_dir, model_paths, last_epochs)
    print_message(f"{output_dir}: averaged the weights of {len(files)} checkpoints")


def config(
    what: Annotated[
        str | None,
        typer.Argument(
            help="A TOML file, whose settings are checked and printed in full, or the path of a table or "
            "option, such as model.attention. Default: all options.",
            show_default=False,
        ),
    ] = None,
    overrides: OverridesArgument = None,
    find: Annotated[
        str, typer.Option(help="Print only the options whose path or description contains this text.")
    ] = "",
    format: Annotated[
        Literal["text", "toml"],
        typer.Option(help="text: one line per option. toml: a commented template for a run."),
    ] = "text",
) -> None:
    """Print the options with their defaults, or check a run's file and print all its settings.

    Example: regard config model.attention
    """
    from rich.console import Console

    from regard.config import dump_toml
    from regard.config.reference import reference, select_tables
    from regard.config.rendering import render_text, render_toml
    from regard.errors import ConfigError
    from regard.runs.config import RunConfig, read_run_config

    # Overrides apply only to a file. With them, a missing file must not pass as the name of a table.
    if what is not None and (what.endswith(".toml") or overrides or Path(what).is_file()):
        typer.echo(dump_toml(read_run_config(Path(what), overrides or [])), nl=False)
        return
    tables = reference(RunConfig)
    if what is not None:
        tables = select_tables(tables, what)
    if find:
        tables = [table.matching(find) for table in tables]
        tables = [table for table in tables if table.options]
        if not tables:
            raise ConfigError(f"no option contains {find!r} in its path or its description")
    if format == "toml":
        typer.echo(render_toml(tables), nl=False)
        return
    console = Console()
    lines = render_text(tables, width=console.width if console.is_terminal else None)
    typer.echo("\n".join(lines))
