"""`regard tune`: choose the length and coverage penalties with the best BLEU on validation text."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from regard.cli.api_flags import COMPUTATION_FLAGS, ApiCall, from_api
from regard.cli.options import JsonOption
from regard.cli.output import open_output, write_json, write_table

__all__ = ["tune_command"]


@from_api(
    "regard.api.training:tune",
    ["model"],
    panels={"Search": "beam_size coverage_epsilon"} | COMPUTATION_FLAGS,
)
def tune_command(call: ApiCall, json_file: JsonOption = None) -> None:
    """Compare pairs of length penalty (alpha) and coverage penalty (beta) by BLEU on validation text.

    The score of a pair is that of beam search with this pair, not that of a rescored n-best list, so the
    text is translated once per pair. Other settings are those of the model. The last line of the output has
    the best pair. Do not use the test text.

    Example: regard tune runs/first --source valid.de --reference valid.en
    """
    with _progress() as on_progress:
        result = call(on_progress=on_progress)
    rows = [
        [f"{trial.length_penalty:g}", f"{trial.coverage_penalty:g}", f"{trial.bleu:.2f}"]
        for trial in result.trials
    ]
    best = result.best
    flags = f"--length-penalty {best.length_penalty:g} --coverage-penalty {best.coverage_penalty:g}"
    with open_output(None) as file:
        write_table(file, [["length_penalty", "coverage_penalty", "BLEU"], *rows])
        file.write(f"best: {flags} (BLEU {best.bleu:.2f})\n")
    write_json(json_file, result)


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
