"""`regard actions`: tables of inflection whose forms are written as actions."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.columns import column_numbers
from regard.errors import UsageError

__all__ = ["actions"]


def actions(
    tables: Annotated[
        list[Path], typer.Argument(help="Tab-separated tables, aligned together.", show_default=False)
    ],
    into: Annotated[Path, typer.Option(help="The folder for the new tables.", show_default=False)],
    columns: Annotated[
        str, typer.Option(help="Those of lemma, features (any number of columns) and form, from 1.")
    ] = "1,2,3",
    seed: Annotated[int, typer.Option(help="Of what the aligner draws.", min=0, max=4_294_967_295)] = 0,
    threads: Annotated[int | None, typer.Option(help="Threads of the aligner.", min=1, max=1_024)] = None,
) -> None:
    """Write forms as actions: characters to write, and arrows where a reader of the lemma steps on.

    What attention `pointer` learns from (Aharoni & Goldberg 2017). The characters of lemma and form are
    aligned, monotonically. The new tables have the columns lemma, features, actions.

    Example: regard actions train.tsv dev.tsv --into actions
    """
    from regard.alignment.actions import write_action_tables
    from regard.alignment.base import Setting
    from regard.config import from_dict
    from regard.data.corpus import CorpusConfig

    chosen = list(column_numbers(columns))
    corpora = [
        from_dict(CorpusConfig, {"tsv": str(table), "columns": chosen}, where="--columns") for table in tables
    ]
    paths = [into / path.name.removesuffix(".gz") for path in tables]
    for path, table in zip(paths, tables, strict=True):
        if paths.count(path) > 1:
            raise UsageError(f"{path}: would be written from two tables; give them different names")
        if path.exists() and any(path.samefile(one) for one in tables if one.exists()):
            raise UsageError(f"{path}: would overwrite the table {table}; give another folder with --into")
    counts = write_action_tables(corpora, paths, Setting(threads=threads or 0, seed=seed))
    for path, count in zip(paths, counts, strict=True):
        typer.echo(f"{path}: {count} forms as actions", err=True)
