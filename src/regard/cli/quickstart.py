"""`regard quickstart` and `phrasebook`: train and evaluate on the built-in corpus, or write it to files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from regard.cli.command import setting
from regard.cli.options import DirectoryArgument, JsonOption, OutputDirOption
from regard.cli.output import print_message, write_json

if TYPE_CHECKING:
    from regard.tour.quickstart import QuickstartResult

__all__ = ["phrasebook", "quickstart"]

CORPUS = "regard.phrasebook.corpus.PhrasebookConfig"
EXAMPLES = 5
# Maximum number of source tokens of an example, so that its attention map fits a terminal.
MAX_MAP_TOKENS = 14


def quickstart(output_dir: OutputDirOption = Path("quickstart"), json_file: JsonOption = None) -> None:
    """Train a small model on the built-in corpus, translate the test set and show scores and attention.

    The model translates from German to English. Training takes a few minutes on two CPU cores. Run the same
    command again to resume after an interruption.

    Example: regard quickstart --output-dir first
    """
    from regard.tour.quickstart import run_quickstart
    from regard.tour.runner import TrainingInterruptedError
    from regard.training.display import preparation_progress

    console = Console(stderr=True, highlight=False)
    try:
        result = run_quickstart(
            output_dir, preparation_progress, lambda title: console.rule(title, align="left")
        )
    except TrainingInterruptedError as stopped:
        console.print("The state is saved. Run the same command again to resume.")
        raise typer.Exit(128 + stopped.signal) from None
    _show(result, output_dir / "corpus" / "test.en")
    write_json(json_file, result.to_dict())
    _print_next_steps(console, output_dir)


def _show(result: "QuickstartResult", reference: Path) -> None:
    from regard.data.corpus import read_lines
    from regard.plotting.terminal import terminal_map

    console = Console(highlight=False)
    references = list(read_lines(reference))
    short = [
        row
        for row, found in enumerate(result.translations)
        # The map of a very short sentence shows little.
        if 6 <= len(found.source_tokens) <= MAX_MAP_TOKENS and found.text
    ]
    for row in short[:EXAMPLES]:
        found, best = result.translations[row], result.translations[row].translations[0]
        console.print()
        console.print("source     ", found.line.text, markup=False)
        console.print("reference  ", references[row], markup=False)
        console.print("translation", found.text, markup=False)
        console.print(terminal_map(best.weights, found.source_tokens, best.tokens, legend=row == short[0]))
    table = Table("score", "", "", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    table.add_row("BLEU", f"{result.bleu:.2f}", "500 sentences of the test set, tokenized; higher is better")
    table.add_row("chrF", f"{result.chrf:.2f}", "F-score of character n-grams; higher is better")
    table.add_row(
        "AER",
        f"{100 * result.aer:.2f} %",
        "alignment error of the highest attention against gold links; lower is better",
    )
    table.add_row(
        "time",
        f"{result.seconds:.0f} s",
        f"for this command; {result.training_seconds:.0f} s of training in total",
    )
    console.print()
    console.print(table)


def _print_next_steps(console: Console, directory: Path) -> None:
    model, corpus = directory / "model", directory / "corpus"
    console.rule("Next", align="left")
    for line in (
        f"echo 'Der Hund schläft .' | regard translate {model} --show-attention",
        f"head -3 {corpus}/test.de | regard translate {model} --svg map.svg        # map.svg, map-2.svg...",
        f"regard translate {model} --input {corpus}/test.de --links-output links.txt > out.en",
        f"regard evaluate out.en {corpus}/test.en --tokenize none",
        f"regard report {model} --test {corpus}/test.de {corpus}/test.en --gold-links {corpus}/test.talp "
        f"--tokenize none -o {directory}/report.html        # open this file in a browser",
        f"regard train {directory}/quickstart.toml model.attention.normalizer=sparsemax --output-dir "
        f"{directory}/sparse",
        "regard config          # all options; recipes/ has configurations for real data",
    ):
        console.print("  " + line, markup=False, soft_wrap=True)


def phrasebook(
    output_dir: DirectoryArgument,
    num_train: Annotated[int | None, setting(f"{CORPUS}:num_train")] = None,
    num_valid: Annotated[int | None, setting(f"{CORPUS}:num_valid")] = None,
    num_test: Annotated[int | None, setting(f"{CORPUS}:num_test")] = None,
    seed: Annotated[int | None, setting(f"{CORPUS}:seed")] = None,
) -> None:
    """Write the built-in German-English corpus to files, with gold word links and fertilities.

    The files of train, valid and test end in .de and .en (one sentence per line, words and punctuation
    separated by spaces), .talp (gold links `i-j` of German word i and English word j, counted from 0) and
    .fertility (number of English words linked to each German word). The three parts share no sentences. The
    corpus of a seed is the same on every machine.

    Example: regard phrasebook corpus --num-train 60000 --seed 7
    """
    from regard.config import from_dict
    from regard.phrasebook import PhrasebookConfig, write_splits

    chosen = {"num_train": num_train, "num_valid": num_valid, "num_test": num_test, "seed": seed}
    given = {name: value for name, value in chosen.items() if value is not None}
    config = from_dict(PhrasebookConfig, given, origin="phrasebook options")
    files = write_splits(output_dir, config.sizes, config.seed)
    counts = ", ".join(f"{size} {name}" for name, size in config.sizes.items())
    print_message(
        f"phrasebook: wrote pairs ({counts}; seed {config.seed}) to {output_dir}: {len(files)} files"
    )
