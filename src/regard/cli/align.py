"""`regard align`: word alignment of parallel text, and `regard actions` for inflection tables."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.api_flags import ApiCall, from_api
from regard.cli.command import Writes
from regard.cli.options import JsonOption, OutputOption
from regard.cli.output import open_output, print_message, write_json

if TYPE_CHECKING:
    from regard.alignment import IterationStats

__all__ = ["actions", "align_command"]

MAX_REPORTED_PASSES = 20  # with more passes than this, only the last one is reported


@from_api(
    "regard.api.alignment_files:align_files",
    arguments=["source", "target"],
    writes={"save_aligner": Writes.DIRECTORY},
)
def align_command(call: ApiCall, output: OutputOption = None, json_file: JsonOption = None) -> None:
    """Align the words of parallel text. Words are separated by whitespace.

    The output has one line of links per sentence pair: `0-0 1-2` links source word 0 to target word 0 and
    source word 1 to target word 2. The perplexity of each pass is written to stderr; for the sampler `bayes`,
    the share of the links that changed.
    The settings of --set are those of the alignment model.

    Example: regard align corpus.de corpus.en -o links.txt --save-aligner aligner
    """
    # Open the output before training, so that an unwritable file is reported at once.
    with open_output(output) as file:
        with _reporting() as report:
            result = call(on_pass=report)
        for line in result.lines:
            file.write(line + "\n")
        write_json(json_file, result.statistics)


@contextmanager
def _reporting() -> "Iterator[Callable[[str, IterationStats], None]]":
    """Yield a callback that reports each pass on stderr.

    On a terminal, progress bars are shown as well.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[tuple[str, str], Any] = {}

        def report(direction: str, iteration: "IterationStats") -> None:
            name = f"{direction} {iteration.stage}"
            if (direction, iteration.stage) not in tasks:
                tasks[direction, iteration.stage] = bar.add_task(name, total=iteration.num_iterations)
            bar.update(tasks[direction, iteration.stage], completed=iteration.iteration)
            # A sampler makes hundreds of passes, so only its last one is printed.
            if (
                iteration.num_iterations <= MAX_REPORTED_PASSES
                or iteration.iteration == iteration.num_iterations
            ):
                statistics = ", ".join(f"{key} {value:.4g}" for key, value in iteration.values().items())
                console.print(f"{name} {iteration.iteration}/{iteration.num_iterations}: {statistics}")

        yield report


@from_api(
    "regard.api.alignment_files:convert_tables",
    arguments=["tables"],
    writes={"output_dir": Writes.INTO},
)
def actions(call: ApiCall) -> None:
    """Convert the forms of inflection tables to sequences of edit actions.

    An action either writes a character or moves the attention to the next character of the lemma. Models with
    the attention mechanism `pointer` are trained on these tables (Aharoni & Goldberg 2017). The characters of
    each lemma are aligned with those of its form, monotonically. The new tables have the columns lemma,
    features and actions.

    Example: regard actions train.tsv dev.tsv --output-dir actions
    """
    counts: dict[Path, int] = call()
    for path, count in counts.items():
        print_message(f"{path}: converted {count} forms to actions")
