"""The commands of training: `regard init`, `config`, `prepare`, `train`, `average` and `tune`."""

import os
import shlex
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import regard
from regard.cli.api_flags import COMPUTATION_FLAGS, ApiCall, ApiCommand
from regard.cli.command import MAX_WIDTH, Writes
from regard.cli.options import JsonOption
from regard.cli.output import open_output, print_message, write_json, write_table

if TYPE_CHECKING:
    from regard.training.trainer import TrainingResult


@ApiCommand(
    "regard.api.init_run:init_run",
    arguments=["source", "target"],
    writes={"output": Writes.FILE, "output_dir": Writes.INTO},
)
def init_command(call: ApiCall, json_file: JsonOption = None) -> None:
    """Write a commented TOML file of a first run for your own text, and check the text.

    The tokenizer, the model and the length of training are chosen by the amount of text. By default, the last
    lines become the validation text, in the directory NAME-text next to the file NAME.toml.

    Example: regard init train.de train.en -o first.toml; then regard train first.toml
    """
    result = call()
    for line in result.findings:
        print_message(line)
    for line in result.warnings:
        print_message(f"Warning: {line}.")
    plan = result.plan
    print_message(
        f"{result.path}: {plan.kind}, layers: {plan.num_layers}, width: {plan.width}, {plan.vocab_size:,} "
        f"subword tokens, at most {plan.max_epochs} epochs of about {plan.steps_per_epoch:,} steps"
    )
    print_message("Next:")
    print_message(f"  regard train {shlex.quote(str(result.path))}")
    write_json(json_file, result)


@ApiCommand("regard.api.training:prepare", arguments=["config", "overrides"])
def prepare_command(call: ApiCall) -> None:
    """Tokenize the text of a run and store it as binary arrays.

    If the text and the settings of the data have not changed, existing files are reused.

    Example: regard prepare first.toml data.cache_dir=prepared/first
    """
    prepared = call()
    text = prepared.text
    print_message(
        f"{prepared.directory}: {len(prepared.split('train')):,} training pairs, vocabularies of "
        f"{len(text.source.vocabulary):,} and {len(text.target.vocabulary):,} tokens"
    )


@ApiCommand(
    "regard.api.training:train",
    arguments=["config", "overrides"],
    skip=["pairs", "callbacks", "progress"],
    writes={"output_dir": Writes.INTO},
)
def train_command(call: ApiCall, json_file: JsonOption = None) -> None:
    """Train a model. Its text is prepared first if necessary.

    Run the same command again to resume a run that was stopped or killed; the resulting weights are
    identical to those of an uninterrupted run. Ctrl-C and SIGTERM save the state, then exit with status 130
    or 143. A second Ctrl-C stops at once. Under `torchrun`, each process computes a share of every batch.

    Example: regard train first.toml training.max_minutes=60; before,
    regard init train.de train.en -o first.toml
    """
    if json_file is not None:
        from regard.api.training import check_training_output

        check_training_output(call.values["config"], call.values.get("overrides", ()), json_file)
    result = call(progress=True)
    if is_main_process():
        metric = "BLEU" if result.metric == "bleu" else result.metric.replace("_", " ")
        best = f"Best validation {metric}: {result.progress.best_score or 0:.2f}"
        print_training_result(
            result, f"{best} at step {result.progress.best_step}. The model is in {result.output_dir}."
        )
        if result.signal is None and result.output_dir is not None:
            _print_next_commands(result.output_dir)
        write_json(json_file, result)
    exit_if_interrupted(result)


def is_main_process() -> bool:
    """Return whether this process reports; under `torchrun`, only one does."""
    return os.environ.get("RANK", "0") == "0"


def print_training_result(result: "TrainingResult", best: str) -> None:
    """Print why training stopped and, if it was validated, its best score."""
    progress = result.progress
    duration = timedelta(seconds=round(progress.seconds))
    rate = progress.tokens / progress.seconds if progress.seconds else 0
    speed = f", {rate:,.0f} target tokens/s" if rate else ""
    steps = f"step {progress.step:,}, after {duration} of training"
    print_message(f"Stopped after {result.reason} at {steps}{speed}.")
    if result.signal is not None:
        print_message("The state is saved. Run the same command again to resume.")
    elif result.progress.best_score is not None:
        print_message(best)


def exit_if_interrupted(result: "TrainingResult") -> None:
    """Exit after an interruption: shells report a signal as status 128 + signal number."""
    if result.signal is not None:
        raise typer.Exit(128 + result.signal)


def _print_next_commands(model_dir: Path) -> None:
    """Print commands that translate with a new model and show its attention, as they can be typed."""
    config = regard.load_config(model_dir)
    plugins = "".join(f" --plugin {shlex.quote(name)}" for name in config.plugins)
    model, source = shlex.quote(str(model_dir)), config.data.valid.source
    print_message("Next:")
    if source is not None:
        print_message(f"  regard translate {model}{plugins} --input {shlex.quote(source)}")
    print_message(f"  regard report {model}{plugins} --config-test -o {shlex.quote(f'{model_dir}.html')}")


@ApiCommand(
    "regard.api.training:average_models",
    arguments=["output_dir", "paths"],
    writes={"output_dir": Writes.DIRECTORY},
)
def average(call: ApiCall) -> None:
    """Average the weights of models with the same model configuration and text processing.

    The average of the last epochs of a run often translates better than any single epoch.

    Example: regard average runs/averaged runs/first --last-epochs 5
    """
    files = call()
    print_message(f"{call.values['output_dir']}: averaged the weights of {len(files)} checkpoints")


@ApiCommand("regard.api.training:describe_options", arguments=["what", "overrides"], skip=["width"])
def config(call: ApiCall) -> None:
    """Print the options with their defaults, or check a run's file and print all its settings.

    Example: regard config model.attention
    """
    from rich.console import Console

    typer.echo(call(width=min(Console().width, MAX_WIDTH)), nl=False)


@ApiCommand(
    "regard.api.training:tune",
    ["model"],
    panels={"Search": "beam_size coverage_epsilon"} | COMPUTATION_FLAGS,
)
def tune_command(call: ApiCall, json_file: JsonOption = None) -> None:
    """Compare pairs of length penalty (alpha) and coverage penalty (beta) by BLEU on validation text.

    The score of a pair is that of beam search with this pair, not that of a rescored n-best list, so the
    text is translated once per pair. Other settings are those of the model. The last line of the output has
    the best pair. Do not use the test text.

    Example: regard tune runs/first --source valid.de --reference valid.en
    """
    result = call()
    rows = [
        [f"{trial.length_penalty:g}", f"{trial.coverage_penalty:g}", f"{trial.bleu:.2f}"]
        for trial in result.trials
    ]
    best = result.best
    flags = f"--length-penalty {best.length_penalty:g} --coverage-penalty {best.coverage_penalty:g}"
    with open_output(None) as file:
        write_table(file, [["length_penalty", "coverage_penalty", "BLEU"], *rows])
        file.write(f"best: {flags} (BLEU {best.bleu:.2f})\n")
    write_json(json_file, result)
