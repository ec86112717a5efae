"""`regard corrupt`: synthetic coverage errors in good translations, with exact labels."""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.api_flags import ApiCall, from_api
from regard.cli.command import Writes
from regard.cli.options import OutputOption
from regard.cli.output import open_output, print_message

__all__ = ["corrupt_command"]


@from_api("regard.extensions.check.corrupt:corrupt", ["sources", "translations"])
def corrupt_command(
    call: ApiCall,
    output: OutputOption = None,
    labels_output: Annotated[
        Path | None,
        typer.Option(
            help="Output file for the labels of sentences and words (JSON lines), for `regard check "
            "--labels`.",
            show_default=False,
        ),
        Writes.FILE,
    ] = None,
) -> None:
    """Make synthetic omissions, additions and repetitions in good translations, with exact labels.

    Each translation gets one error or none. The source text stays as it is. Word links are those of
    --checker; without it, an aligner is trained on the text itself.

    Example: regard corrupt test.de test.en -o corrupted.en --labels-output labels.jsonl
    """
    from regard.extensions.check.corruptions import CORRUPTIONS
    from regard.extensions.check.labels import format_labels

    with ExitStack() as files:
        text = files.enter_context(open_output(output))
        labels = None if labels_output is None else files.enter_context(open_output(labels_output))
        corrupted = call()
        text.write("".join(f"{line}\n" for line in corrupted.translations))
        if labels is not None:
            labels.write(format_labels(corrupted.labels))
    counts: Counter[str | None] = Counter(corrupted.kinds)
    changes = ", ".join(f"{counts[kind]:,} {kind}" for kind in CORRUPTIONS if counts[kind])
    print_message(f"{len(corrupted):,} sentences: {changes}, {counts[None]:,} unchanged")
