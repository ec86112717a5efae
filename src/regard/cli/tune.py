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
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.generation.tune_penalties import Trial

__all__ = ["tune"]

_DEFAULT_PENALTIES = "0,0.2,0.4,0.6,0.8,1.0"


def tune(
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
    grid = {
        "alpha": _numbers("--length-penalties", length_penalties),
        "beta": _numbers("--coverage-penalties", coverage_penalties),
    }

    from dataclasses import asdict

    from regard.api.loading import load_translator
    from regard.cli.output import write_json
    from regard.config import from_dict
    from regard.data.corpus import CorpusConfig, read_pairs
    from regard.generation.tune_penalties import best_trial, tune_penalties
    from regard.metrics.translation import check_tokenizer
    from regard.training.device import set_num_threads

    tokenizer = check_tokenizer(tokenize)
    set_num_threads(num_threads)
    pairs = list(read_pairs(from_dict(CorpusConfig, {"source": str(source), "target": str(reference)})))
    loaded = load_translator(models, device, precision)
    loaded.require("tune", "regard tune")
    options = {
        "beam_size": beam_size,
        "num_return": 1,
        "coverage_epsilon": coverage_epsilon,
        "batch_size": batch_size,
    }
    translator = loaded.with_search(options)
    search = translator.search
    sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
    if not any(line.strip() for line in sources):
        raise DataError(f"{source}: the file contains no text to translate")
    # If the penalty ranks unfinished hypotheses, it changes the search, and each pair needs its own.
    times = len(grid["alpha"]) * len(grid["beta"]) if not search.coverage_penalty.rescore_only else 1
    with _progress(len(pairs) * times) as tick:
        trials = tune_penalties(
            translator,
            sources,
            references,
            grid["alpha"],
            grid["beta"],
            tokenizer,
            lowercase,
            tick,
        )
    best = best_trial(trials)
    _show(trials, best)
    results = {
        "models": [str(path) for path in models],
        "source": str(source),
        "reference": str(reference),
        "sentences": len(pairs),
        "beam_size": search.beam_size,
        "tokenize": tokenize,
        "lowercase": lowercase,
        "trials": [asdict(trial) for trial in trials],
        "best": asdict(best),
    }
    write_json(json_file, results)


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
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar if stderr is a terminal, and yield a callback that advances it."""
    if not sys.stderr.isatty():
        yield lambda lines: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("tune", total=total)
        yield lambda lines: bar.update(task, advance=lines)


def _show(trials: "list[Trial]", best: "Trial") -> None:
    """Print a table of BLEU by alpha and beta (without a terminal: one line per pair), and the best pair."""
    from rich.console import Console
    from rich.table import Table

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
