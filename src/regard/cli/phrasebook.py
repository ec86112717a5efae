"""`regard phrasebook`: the built-in corpus as files."""

import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["phrasebook"]


def phrasebook(
    out: Annotated[
        Path, typer.Argument(help="Folder for the files; made if it is not there.", show_default=False)
    ],
    train: Annotated[int, typer.Option(min=0, help="Pairs to train on.", max=100_000_000)] = 30_000,
    valid: Annotated[int, typer.Option(min=0, help="Pairs to validate on.", max=100_000_000)] = 1_000,
    test: Annotated[int, typer.Option(min=0, help="Pairs to test on.", max=100_000_000)] = 1_000,
    seed: Annotated[
        int, typer.Option(min=0, help="Same seed, same corpus, on any machine.", max=4_294_967_295)
    ] = 1,
) -> None:
    """Write the built-in German-English corpus as text, with gold alignments and fertilities.

    For each of train, valid and test: .de and .en (one sentence a line, words and punctuation separated by
    spaces), .talp (gold links, `i-j`: German word i means English word j, from 0) and .fertility (of each
    German word, how many English words it is linked to). The three share no sentence.

    Example: regard phrasebook corpus --train 60000 --seed 7
    """
    from regard.data.phrasebook import write

    files = write(out, {"train": train, "valid": valid, "test": test}, seed)
    counts = f"{train} training, {valid} validation and {test} test pairs"
    print(f"phrasebook: wrote {counts} (seed {seed}) to {out}: {len(files)} files", file=sys.stderr)
