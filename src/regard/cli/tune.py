"""`regard tune`: choose the length and coverage penalties with the best BLEU on validation text."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from regard.cli.command import expand_groups, given, setting
from regard.cli.options import (
    GENERATION,
    CoverageEpsilonOption,
    JsonOption,
    LowercaseOption,
    ModelDirsArgument,
    ReferenceOption,
    RuntimeOptions,
    SourceOption,
    TokenizeOption,
)
from regard.cli.output import write_json
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.generation.tune_penalties import PenaltyTuningResult

__all__ = ["tune_command"]

_DEFAULT_PENALTIES = "0,0.2,0.4,0.6,0.8,1.0"


@dataclass(frozen=True)
class PenaltyGrid:
    """The penalties that are compared, and the settings of BLEU."""

    panel: ClassVar[str] = "Penalties and scores"

    length_penalties: Annotated[
        str, typer.Option(help="Values of the length penalty, separated by commas.")
    ] = _DEFAULT_PENALTIES
    coverage_penalties: Annotated[
        str, typer.Option(help="Values of the coverage penalty, separated by commas.")
    ] = _DEFAULT_PENALTIES
    tokenize: TokenizeOption = "13a"
    lowercase: LowercaseOption = False


@dataclass(frozen=True)
class TuningSearch:
    """The other settings of the search."""

    panel: ClassVar[str] = "Search"

    beam_size: Annotated[int | None, setting(f"{GENERATION}:beam_size")] = None
    coverage_epsilon: CoverageEpsilonOption = None


@expand_groups
def tune_command(
    models: ModelDirsArgument,
    source: SourceOption,
    reference: ReferenceOption,
    grid: PenaltyGrid,
    search: TuningSearch,
    runtime: RuntimeOptions,
    json_file: JsonOption = None,
) -> None:
    """Compare pairs of length penalty (alpha) and coverage penalty (beta) by BLEU on validation text.

    The score of a pair is that of beam search with this pair, not that of a rescored n-best list, so the
    text is translated once per pair. Other settings are those of the model. The last line of the output has
    the best pair. Do not use the test text.

    Example: regard tune runs/first --source valid.de --reference valid.en
    """
    alphas = _numbers("--length-penalties", grid.length_penalties)
    betas = _numbers("--coverage-penalties", grid.coverage_penalties)

    from regard.api.training import tune
    from regard.generation.tune_penalties import PenaltyTuningOptions
    from regard.training.device import set_num_threads

    set_num_threads(runtime.num_threads)
    with _progress() as on_progress:
        result = tune(
            models,
            source,
            reference,
            options=PenaltyTuningOptions(alphas, betas, grid.tokenize, grid.lowercase),
            on_progress=on_progress,
            **given(search),
            **given(runtime),
        )
    _show(result)
    write_json(json_file, result.to_dict())


def _numbers(option: str, text: str) -> list[float]:
    """Return the different values of a list such as `0,0.2`."""
    try:
        penalties = [float(field) for field in text.split(",")]
        # `float` accepts NaN and infinity, which this condition rejects.
        if not all(0 <= value < float("inf") for value in penalties):
            raise ValueError
    except ValueError:
        raise UsageError(
            f"{option} {text!r}: expected numbers of 0 or more, separated by commas, for example "
            f"{_DEFAULT_PENALTIES}"
        ) from None
    return list(dict.fromkeys(penalties))


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
        # The trials of one alpha are consecutive, one for each beta.
        for start in range(0, len(trials), len(betas)):
            row = trials[start : start + len(betas)]
            table.add_row(f"{row[0].length_penalty:g}", *(f"{trial.bleu:.2f}" for trial in row))
        console.print(table)
    flags = f"--length-penalty {best.length_penalty:g} --coverage-penalty {best.coverage_penalty:g}"
    print(f"best: {flags} (BLEU {best.bleu:.2f})")
