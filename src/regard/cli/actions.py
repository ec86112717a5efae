"""`regard actions`: convert inflection tables to edit actions."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.command import check_paths
from regard.cli.options import (
    ColumnsOption,
    NumThreadsOption,
    OutputDirOption,
    SeedOption,
    column_numbers,
)
from regard.cli.output import print_message
from regard.errors import UsageError

__all__ = ["actions"]


@check_paths
def actions(
    tables: Annotated[
        list[Path],
        typer.Argument(
            help="Tab-separated tables. One aligner is trained on all of them.", show_default=False
        ),
    ],
    output_dir: OutputDirOption,
    columns: ColumnsOption = "1,2,3",
    seed: SeedOption = 0,
    num_threads: NumThreadsOption = None,
) -> None:
    """Convert the forms of inflection tables to sequences of edit actions.

    An action either writes a character or moves the attention to the next character of the lemma. Models with
    the attention mechanism `pointer` are trained on these tables (Aharoni & Goldberg 2017). The characters of
    each lemma are aligned with those of its form, monotonically. The new tables have the columns lemma,
    features and actions.

    Example: regard actions train.tsv dev.tsv --output-dir actions
    """
    from dataclasses import replace

    from regard.alignment.base import TrainingSetup
    from regard.alignment.pointer_actions import write_action_tables
    from regard.config import from_dict
    from regard.text.compression import remove_suffix
    from regard.text.corpus import CorpusConfig
    from regard.text.paths import check_outputs

    chosen = list(column_numbers(columns))
    settings = from_dict(CorpusConfig, {"tsv": "table", "columns": chosen}, origin="--columns")
    corpora = [replace(settings, tsv=str(table)) for table in tables]
    # The new tables are plain text, also those of compressed tables.
    paths = [output_dir / remove_suffix(path.name) for path in tables]
    # All names are checked before the aligner is trained.
    for path in paths:
        if paths.count(path) > 1:
            raise UsageError(f"{path}: two tables have this output file. Rename one of the tables.")
    check_outputs(tables, paths)
    counts = write_action_tables(corpora, paths, TrainingSetup(num_threads=num_threads or 0, seed=seed))
    for path, count in zip(paths, counts, strict=True):
        print_message(f"{path}: converted {count} forms to actions")
