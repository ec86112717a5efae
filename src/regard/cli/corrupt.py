"""`regard corrupt`: synthetic coverage errors in good translations, with exact labels."""

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from regard.cli.command import expand_groups
from regard.cli.options import OutputOption, ParallelSourceArgument, ParallelTargetArgument, SeedOption
from regard.cli.output import open_output, print_message

__all__ = ["corrupt_command"]


@dataclass(frozen=True)
class CorruptionOptions:
    """The synthetic errors."""

    panel: ClassVar[str] = "Errors"

    kinds: Annotated[
        str,
        typer.Option(
            help="Kinds of errors, separated by commas: deletion (the counterpart of a span of the source), "
            "truncation (the end of the translation), insertion (a span of another translation), repetition, "
            "unrelated (the translation of another sentence)."
        ),
    ] = "deletion,truncation,insertion,repetition,unrelated"
    rate: Annotated[float, typer.Option(help="Share of the sentences that get one error.", min=0, max=1)] = (
        0.5
    )
    max_span: Annotated[int, typer.Option(help="Maximum number of words in a span.", min=1, max=1_000)] = 5
    seed: SeedOption = 1
    model: Annotated[
        Path | None,
        typer.Option(
            help="Directory of a model written by `regard check --save-model`, for word links. By default, "
            "an aligner is trained on the text itself.",
            show_default=False,
        ),
    ] = None


@expand_groups
def corrupt_command(
    source: ParallelSourceArgument,
    translation: ParallelTargetArgument,
    errors: CorruptionOptions,
    output: OutputOption = None,
    labels_output: Annotated[
        Path | None,
        typer.Option(
            help="Output file for the labels of sentences and words (JSON lines), for `regard check "
            "--labels`.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make synthetic omissions, additions and repetitions in good translations, with exact labels.

    Each translation gets one error or none. The source text stays as it is.

    Example: regard corrupt test.de test.en -o corrupted.en --labels-output labels.jsonl
    """
    from regard.analysis.coverage.labels import format_labels
    from regard.api.corrupt import corrupt

    kinds = [kind.strip() for kind in errors.kinds.split(",") if kind.strip()]
    with ExitStack() as files:
        text = files.enter_context(open_output(output))
        labels = None if labels_output is None else files.enter_context(open_output(labels_output))
        made = corrupt(
            source,
            translation,
            kinds,
            rate=errors.rate,
            max_span=errors.max_span,
            seed=errors.seed,
            model=errors.model,
        )
        text.write("".join(f"{line}\n" for line in made.translations))
        if labels is not None:
            labels.write(format_labels(made.labels))
    counts: Counter[str | None] = Counter(made.kinds)
    shown = ", ".join(f"{counts[kind]:,} {kind}" for kind in kinds)
    print_message(f"{len(made):,} sentences: {shown}, {counts[None]:,} unchanged")
