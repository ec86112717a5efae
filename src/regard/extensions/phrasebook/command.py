"""`regard phrasebook`: write the built-in corpus to files."""

from typing import Annotated

from regard.cli.command import setting
from regard.cli.options import DirectoryArgument
from regard.cli.output import print_message

__all__ = ["phrasebook"]

_CORPUS = "regard.extensions.phrasebook.corpus.PhrasebookConfig"


def phrasebook(
    output_dir: DirectoryArgument,
    num_train: Annotated[int | None, setting(f"{_CORPUS}:num_train")] = None,
    num_valid: Annotated[int | None, setting(f"{_CORPUS}:num_valid")] = None,
    num_test: Annotated[int | None, setting(f"{_CORPUS}:num_test")] = None,
    seed: Annotated[int | None, setting(f"{_CORPUS}:seed")] = None,
) -> None:
    """Write the built-in German-English corpus to files, with gold word links and fertilities.

    The files of train, valid and test end in .de and .en (one sentence per line, words and punctuation
    separated by spaces), .talp (gold links `i-j` of German word i and English word j, counted from 0) and
    .fertility (number of English words linked to each German word). The three parts share no sentences. The
    corpus of a seed is the same on every machine.

    Example: regard phrasebook corpus --num-train 60000 --seed 7
    """
    from regard.config import from_dict
    from regard.extensions.phrasebook.corpus import PhrasebookConfig, write_splits

    chosen = {"num_train": num_train, "num_valid": num_valid, "num_test": num_test, "seed": seed}
    options = {name: value for name, value in chosen.items() if value is not None}
    config = from_dict(PhrasebookConfig, options, origin="phrasebook options")
    files = write_splits(output_dir, config.sizes, config.seed)
    counts = ", ".join(f"{size} {name}" for name, size in config.sizes.items())
    print_message(
        f"phrasebook: wrote pairs ({counts}; seed {config.seed}) to {output_dir}: {len(files)} files"
    )
