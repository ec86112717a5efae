"""`regard phrasebook`: write the built-in parallel corpus to files."""

from typing import Annotated

import typer

from regard.cli.options import DirectoryArgument, SeedOption
from regard.cli.output import print_message

__all__ = ["phrasebook"]


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
