"""`regard tune`: choose the length and coverage penalties with the best BLEU on validation text."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.common_options import (
    BatchSizeOption,
    BeamSizeOption,
    DeviceOption,
    NumThreadsOption,
    PrecisionOption,
)
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.generation.tune_penalties import PenaltyTuningResult

__all__ = ["tune_command"]

_DEFAULT_PENALTIES = "0,0.2,0.4,0.6,0.8,1.0"


def tune_command(
    models: Annotated[
        list[Path],
        typer.Argument(help="Model directory. Several directories form an ensemble.", show_default=False),
    ],
    source: Annotated[
        Path,
        typer.Option(
            help="Source text for validation, plain or gzip. Do not use the test text.", show_default=False
        ),
    ],
    reference: Annotated[
        Path, typer.Option(help="Reference translations, one line per source line.", show_default=False)
    ],
    length_penalties: Annotated[
        str, typer.Option(help="Values of the length penalty, separated by commas.")
    ] = _DEFAULT_PENALTIES,
    coverage_penalties: Annotated[
        str, typer.Option(help="Values of the coverage penalty, separated by commas.")
    ] = _DEFAULT_PENALTIES,
    coverage_epsilon: Annotated[
        float | None,
        typer.Option(help="Epsilon of the coverage penalty: lower bound of the attention of a source word."),
    ] = None,
    beam_size: BeamSizeOption = None,
    tokenize: Annotated[
        str,
        typer.Option(
            help="Tokenizer for BLEU: 13a, none (the text is already tokenized), intl, char, zh, ja-mecab or "
            "ko-mecab."
        ),
    ] = "13a",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case in BLEU.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the results to this JSON file.")
    ] = None,
    batch_size: BatchSizeOption = None,
    precision: PrecisionOption = "float32",
    device: DeviceOption = "auto",
    num_threads: NumThreadsOption = None,
) -> None:
    """Compare pairs of length penalty (alpha) and coverage penalty (beta) by BLEU on validation text.

    The score of a pair is that of beam search with this pair, not that of a rescored n-best list. A single
    search suffices for all pairs, unless the coverage penalty applies to unfinished hypotheses. Other
    settings are those of the model. The last line of the output has the best pair.

    Example: regard tune runs/first --source valid.de --reference valid.en
    """
    grid = [
        _numbers("--length-penalties", length_penalties),
        _numbers("--coverage-penalties", coverage_penalties),
    ]

    from regard.api.training import tune
    from regard.cli.output import write_json
    from regard.generation.tune_penalties import PenaltyTuningOptions
    from regard.training.device import set_num_threads

    set_num_threads(num_threads)
    with _progress() as on_progress:
        result = tune(
            models,
            source,
            reference,
            options=PenaltyTuningOptions(*grid, tokenize, lowercase),
            on_progress=on_progress,
            coverage_epsilon=coverage_epsilon,
            beam_size=beam_size,
            batch_size=batch_size,
            precision=precision,
            device=device,
            num_threads=num_threads,
        )
    _show(result)
    write_json(json_file, result.to_dict())


def _numbers(option: str, text: str) -> list[float]:
    """Return the different values of a list such as `0,0.2`."""
    try:
        found = [float(field) for field in text.split(",")]
        if not all(0 <= value < float("inf") for value in found):
            raise ValueError
    except ValueError:
        raise UsageError(
            f"{option} {text!r}: expected numbers of 0 or more, separated by commas, for example "
            f"{_DEFAULT_PENALTIES}"
        ) from None
    return list(dict.fromkeys(found))


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar if stderr is a terminal, and yield a callback that moves it."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("tune", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(result: "PenaltyTuningResult") -> None:
    """Print a table of BLEU by alpha and beta (without a terminal: one line per pair), and the best pair."""
    from rich.console import Console
    from rich.table import Table

    trials, best = result.trials, result.best
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        print("length_penalty\tcoverage_penalty\tBLEU")
        for trial in trials:
            print(f"{trial.length_penalty:g}\t{trial.coverage_penalty:g}\t{trial.bleu:.2f}")
    else:
        betas = list(dict.fromkeys(trial.coverage_penalty for trial in trials))
        table = Table(box=None, pad_edge=False, title="BLEU by length penalty (rows) and coverage penalty")
        for name in ("", *(f"{beta:g}" for beta in betas)):
            table.add_column(name, justify="right", no_wrap=True)
        for start in range(0, len(trials), len(betas)):
            row = trials[start : start + len(betas)]
            table.add_row(f"{row[0].length_penalty:g}", *(f"{trial.bleu:.2f}" for trial in row))
        console.print(table)
    found = f"--length-penalty {best.length_penalty:g} --coverage-penalty {best.coverage_penalty:g}"
    print(f"best: {found} (BLEU {best.bleu:.2f})")
