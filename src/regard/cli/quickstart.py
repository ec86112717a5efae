"""`regard quickstart` and `phrasebook`: train and evaluate on the built-in corpus, or write it to files."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from regard.cli.options import DirectoryArgument, JsonOption, OutputDirOption, SeedOption
from regard.cli.output import open_output, preparation_progress, print_message, write_json

if TYPE_CHECKING:
    from regard.experiment import LoadedModel
    from regard.generation.lines import LineResult

__all__ = ["phrasebook", "quickstart"]

CONFIG = """\
# The configuration of `regard quickstart`. After a change, train another model with:
# regard train {folder}/quickstart.toml --output-dir another-directory
# All options: regard config

seed = 1

[data]
cache_dir = "{folder}/prepared"
train = [{{ source = "{folder}/corpus/train.de", target = "{folder}/corpus/train.en" }}]
valid = {{ source = "{folder}/corpus/valid.de", target = "{folder}/corpus/valid.en" }}
source_tokenizer = {{ kind = "words" }}
target_tokenizer = {{ kind = "words" }}

[model]
kind = "rnn"
embedding_size = 192
encoder = {{ num_layers = 1, hidden_size = 256 }}
decoder = {{ num_layers = 1, hidden_size = 256 }}
attention = {{ kind = "soft", normalizer = "softmax", score_function = "bilinear" }}
dropout = 0.1
init_range = 0.1

[training]
batch_size = 64
batch_unit = "sentences"
optimizer = {{ kind = "adam", learning_rate = 3e-3, max_grad_norm = 1.0 }}
lr_scheduler = {{ kind = "plateau", patience = 1 }}
max_epochs = {epochs}

[generation]
beam_size = 5
"""

SIZES: dict[Literal["train", "valid", "test"], int] = {"train": 30_000, "valid": 500, "test": 500}
EPOCHS = 5
EXAMPLES = 5
# Maximum number of source tokens of an example, so that its attention map fits a terminal.
MAX_MAP_TOKENS = 14


def quickstart(output_dir: OutputDirOption = Path("quickstart"), json_file: JsonOption = None) -> None:
    """Train a small model on the built-in corpus, translate the test set and show scores and attention.

    The model translates from German to English. Training takes a few minutes on two CPU cores. Run the same
    command again to resume after an interruption.

    Example: regard quickstart --output-dir first
    """
    from regard.config import read_config
    from regard.data.files import write_atomic
    from regard.experiment import load_model
    from regard.experiment import run_training as train
    from regard.phrasebook import write_splits
    from regard.run_config import RunConfig

    console = Console(stderr=True, highlight=False)
    start = time.monotonic()
    console.rule("1. Corpus: German-English sentence pairs with gold word links", align="left")
    # The seed is fixed, so a resumed run has the same corpus.
    write_splits(output_dir / "corpus", SIZES, seed=1)
    path = output_dir / "quickstart.toml"
    # The user may have changed the file, so a second run keeps it.
    if not path.exists():
        # In TOML, the backslash of a Windows path would be an escape character.
        write_atomic(path, CONFIG.format(folder=output_dir.as_posix(), epochs=EPOCHS).encode())
    console.rule(f"2. Training: {SIZES['train']:,} pairs, {EPOCHS} epochs", align="left")
    result = train(read_config(RunConfig, path), output_dir / "model", preparation_progress)
    if result.signal is not None:
        console.print("The state is saved. Run the same command again to resume.")
        raise typer.Exit(128 + result.signal)
    console.rule("3. Translation and evaluation of the test set", align="left")
    loaded = load_model(output_dir / "model")
    test = output_dir / "corpus" / "test"
    results = _translate(loaded, test.with_suffix(".de"), output_dir / "test.en")
    summary: dict[str, Any] = {
        **_scores(results, test.with_suffix(".en")),
        "aer": _alignment_error(loaded, test),
        "training_seconds": round(result.progress.seconds, 1),
        "seconds": round(time.monotonic() - start, 1),
    }
    _show(results, test.with_suffix(".en"), summary)
    write_json(json_file, summary)
    _print_next_steps(console, output_dir)


def _translate(loaded: "LoadedModel", source: Path, output: Path) -> "list[LineResult]":
    from regard.data.corpus import read_lines
    from regard.generation.lines import enumerate_lines
    from regard.generation.translator import Translator

    translator = Translator(loaded.model, loaded.text, loaded.config.generation)
    results = list(translator.translate(enumerate_lines(read_lines(source))))
    with open_output(output) as file:
        file.write("".join(result.text + "\n" for result in results))
    return results


def _scores(results: "Sequence[LineResult]", reference: Path) -> dict[str, Any]:
    from regard.data.corpus import read_lines
    from regard.metrics.translation import bleu, chrf

    outputs, references = [result.text for result in results], [list(read_lines(reference))]
    # The words and the punctuation of the corpus are already separated.
    scores = bleu(outputs, references, tokenize="none"), chrf(outputs, references)
    return {
        "bleu": round(scores[0].score, 2),
        "chrf": round(scores[1].score, 2),
        "signatures": {score.name.lower(): score.signature for score in scores},
    }


def _alignment_error(loaded: "LoadedModel", test: Path) -> float:
    """Return the AER of links to the word with the highest attention, under forced decoding."""
    from regard.data.corpus import read_lines
    from regard.data.links import read_gold_links
    from regard.generation.forced import score_lines
    from regard.metrics.alignment import alignment_score

    pairs = zip(*(read_lines(test.with_suffix(suffix)) for suffix in (".de", ".en")), strict=True)
    scored = score_lines(loaded.model, loaded.text, pairs, loaded.config.generation)
    links = [line.links for line in scored]
    return round(alignment_score(links, list(read_gold_links(test.with_suffix(".talp")))).aer, 4)


def _show(results: "Sequence[LineResult]", reference: Path, summary: dict[str, Any]) -> None:
    from regard.data.corpus import read_lines
    from regard.plotting.terminal import terminal_map

    console = Console(highlight=False)
    references = list(read_lines(reference))
    short = [
        row
        for row, result in enumerate(results)
        # The map of a very short sentence shows little.
        if 6 <= len(result.source_tokens) <= MAX_MAP_TOKENS and result.text
    ]
    for row in short[:EXAMPLES]:
        result, best = results[row], results[row].translations[0]
        console.print()
        console.print("source     ", result.line.text, markup=False)
        console.print("reference  ", references[row], markup=False)
        console.print("translation", result.text, markup=False)
        console.print(terminal_map(best.weights, result.source_tokens, best.tokens, legend=row == short[0]))
    table = Table("score", "", "", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    table.add_row(
        "BLEU", f"{summary['bleu']:.2f}", "500 sentences of the test set, tokenized; higher is better"
    )
    table.add_row("chrF", f"{summary['chrf']:.2f}", "F-score of character n-grams; higher is better")
    table.add_row(
        "AER",
        f"{100 * summary['aer']:.2f} %",
        "alignment error of the highest attention against gold links; lower is better",
    )
    table.add_row(
        "time",
        f"{summary['seconds']:.0f} s",
        f"for this command; {summary['training_seconds']:.0f} s of training in total",
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
    num_train: Annotated[
        int, typer.Option(min=0, help="Number of training pairs.", max=100_000_000)
    ] = 30_000,
    num_valid: Annotated[
        int, typer.Option(min=0, help="Number of validation pairs.", max=100_000_000)
    ] = 1_000,
    num_test: Annotated[int, typer.Option(min=0, help="Number of test pairs.", max=100_000_000)] = 1_000,
    seed: SeedOption = 1,
) -> None:
    """Write the built-in German-English corpus to files, with gold word links and fertilities.

    The files of train, valid and test end in .de and .en (one sentence per line, words and punctuation
    separated by spaces), .talp (gold links `i-j` of German word i and English word j, counted from 0) and
    .fertility (number of English words linked to each German word). The three parts share no sentences. The
    corpus of a seed is the same on every machine.

    Example: regard phrasebook corpus --num-train 60000 --seed 7
    """
    from regard.phrasebook import write_splits

    files = write_splits(output_dir, {"train": num_train, "valid": num_valid, "test": num_test}, seed)
    counts = f"{num_train} training, {num_valid} validation and {num_test} test pairs"
    print_message(f"phrasebook: wrote {counts} (seed {seed}) to {output_dir}: {len(files)} files")
