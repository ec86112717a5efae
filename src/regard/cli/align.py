"""`regard align`, `regard fertility`, and `regard actions` for inflection tables."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.api_flags import ApiCall, ApiCommand
from regard.cli.command import Writes
from regard.cli.options import JsonOption, OutputOption
from regard.cli.output import open_output, print_message, write_json, write_rows

if TYPE_CHECKING:
    from regard.alignment import IterationStats

MAX_REPORTED_PASSES = 2


@ApiCommand(
    "regard.api.alignment:align_files",
    arguments=["source", "target"],
    writes={"save_aligner": Writes.DIRECTORY},
)
def align_command(call: ApiCall, output: OutputOption = None, json_file: JsonOption = None) -> None:
    """Align the words of parallel text. Words are separated by whitespace.

    The output has one line of links per sentence pair: `0-0 1-2` links source word 0 to target word 0 and
    source word 1 to target word 2. The perplexity halfway through and at the end of each stage of training
    is written to stderr; for the sampler `bayes`, the share of the links that changed. The settings of --set
    are those of the alignment model.

    Example: regard align corpus.de corpus.en -o links.txt --save-aligner aligner
    """
    # Open the output before training, so that an unwritable file is reported at once.
    with open_output(output) as file:
        result = call(on_pass=_report_pass)
        for line in result.lines:
            file.write(line + "\n")
        write_json(json_file, result)


def _report_pass(direction: str, iteration: "IterationStats") -> None:
    """Print the pass halfway through a stage of training, and its last."""
    interval = math.ceil(iteration.num_iterations / MAX_REPORTED_PASSES)
    if iteration.iteration % interval == 0 or iteration.iteration == iteration.num_iterations:
        statistics = ", ".join(f"{key} {value:.4g}" for key, value in iteration.values().items())
        passes = f"{iteration.iteration}/{iteration.num_iterations}"
        print_message(f"{direction} {iteration.stage} {passes}: {statistics}")


@ApiCommand(
    "regard.api.alignment:convert_tables",
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


@dataclass(frozen=True)
class FertilityOutput:
    """The output of `regard fertility`.

    Attributes:
        output: Output file, compressed if its name ends in .gz, .bz2, .xz or .zst. Default: standard output.
        per_word: Whether to write one line per word instead of one per sentence: WORD, maximum, mean, count.
        slack: Value that is added to each fertility. 1 is that of Malaviya et al. (2018).
        json: Also write the results to this JSON file.
        seed: Random seed of the aligner.
        num_threads: Number of CPU threads. Default: all available processors.
    """

    output: Path | None = None
    per_word: bool = False
    slack: float = 0.0
    json: Path | None = None
    seed: int = 1
    num_threads: int | None = None


@ApiCommand(
    "regard.api.fertility:fertilities",
    ["sources", "targets"],
    skip=["kind"],
    panels={
        "Output": "output per_word slack json",
        "Computation": "seed num_threads",
    },
    parts={"files": "regard.cli.align:FertilityOutput"},
    writes={"output": Writes.FILE, "json": Writes.FILE},
)
def fertility(call: ApiCall) -> None:
    """Count the target words that are linked to each source word; a word without links gets fertility 1.

    The output has the fertilities of one sentence per line, in the format of --fertilities of `regard
    translate`. The links are those of the forward direction, which links each target word to at most one
    source word. For text without translations, --predictor gives the fertilities that the predictor of a
    model expects. Use --model for a model with subword tokens or with a tokenizer that separates punctuation:
    fertilities then refer to the tokens of this model.

    Example: regard fertility train.de train.en --per-word -o fertility.tsv
    """
    files: FertilityOutput = call.take("files")
    aligner = {"seed": files.seed, "num_threads": files.num_threads or 0}
    result = call(**aligner if "targets" in call.values else {})
    with open_output(files.output) as file:
        if files.per_word:
            cells = (
                (row["word"], f"{row['maximum'] + files.slack:g}", f"{row['mean']:.3f}", row["count"])
                for row in result.rows()
            )
            write_rows(file, cells)
        else:
            file.write("".join(f"{line}\n" for line in result.lines(files.slack)))
    if (counts := result.frequencies) is not None:
        shares = (f"{value}: {100 * count / sum(counts.values()):.1f} %" for value, count in counts.items())
        print_message("fertilities " + ", ".join(shares))
    write_json(files.json, result)
