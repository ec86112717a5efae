"""`regard init`: write a commented run from two text files, and describe the text."""

from pathlib import Path
from typing import Annotated

from regard.cli.command import Writes, check_paths, setting
from regard.cli.options import (
    JsonOption,
    OverwriteOption,
    ParallelSourceArgument,
    ParallelTargetArgument,
    RunDirOption,
)
from regard.cli.output import print_message, write_json

__all__ = ["init_command"]

INIT = "regard.api.init_run.InitConfig"


@check_paths
def init_command(
    source: ParallelSourceArgument,
    translation: ParallelTargetArgument,
    output: Annotated[Path | None, setting(f"{INIT}:output", "--output", "-o"), Writes.FILE] = None,
    valid: Annotated[tuple[Path, Path] | None, setting(f"{INIT}:valid", metavar="SOURCE TARGET")] = None,
    num_valid: Annotated[int | None, setting(f"{INIT}:num_valid")] = None,
    output_dir: RunDirOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Write a commented TOML file of a first run for your own text, and check the text.

    The tokenizer, the model and the length of training are chosen by the amount of text. By default, the last
    lines become the validation text, in the directory NAME-text next to the file NAME.toml.

    Example: regard init train.de train.en -o first.toml; then regard train first.toml
    """
    import shlex

    from regard.api.init_run import InitConfig, init_run

    result = init_run(
        source,
        translation,
        InitConfig().output if output is None else output,
        valid=valid,
        num_valid=num_valid,
        output_dir=output_dir,
        overwrite=overwrite,
    )
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
    write_json(json_file, result.to_dict())
