"""`regard actions`: tables of inflection whose forms are written as actions."""

from pathlib import Path
from typing import Annotated

import typer

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
    seed: Annotated[int, typer.Option(help="Of what the aligner draws.", min=0)] = 0,
    threads: Annotated[int | None, typer.Option(help="Threads of the aligner.", min=1)] = None,
) -> None:
    """Write forms as actions: characters to write, and arrows where a reader of the lemma steps on.

    What attention `pointer` learns from (Aharoni & Goldberg 2017). The characters of lemma and form are
    aligned, monotonically. The new tables have the columns lemma, features, actions.

    Example: regard actions train.tsv dev.tsv --into actions
    """
    from regard.alignment.actions import align_actions
    from regard.alignment.base import Setting
    from regard.config import from_dict
    from regard.data.corpus import CorpusConfig, read_pairs
    from regard.data.files import write_atomic

    if not columns.replace(",", "").isdecimal():
        raise UsageError(f"--columns {columns!r}: expected numbers from 1 with commas between them")
    chosen = [int(column) for column in columns.split(",") if column]
    rows = [
        list(read_pairs(from_dict(CorpusConfig, {"tsv": str(table), "columns": chosen}, where="--columns")))
        for table in tables
    ]
    pairs = [(source.partition("\t")[0], form) for table in rows for source, form in table]
    found = iter(align_actions(pairs, setting=Setting(threads=threads or 0, seed=seed)))
    into.mkdir(parents=True, exist_ok=True)
    for path, table in zip(tables, rows, strict=True):
        text = "".join(f"{source}\t{next(found)}\n" for source, _ in table)
        write_atomic(into / path.name.removesuffix(".gz"), text.encode())
        typer.echo(f"{into / path.name.removesuffix('.gz')}: {len(table)} forms as actions", err=True)
