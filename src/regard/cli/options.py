"""Arguments and options that several commands share, each declared once, and the groups of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import typer

from regard.cli.command import Writes, setting
from regard.errors import UsageError

__all__ = [
    "BatchSizeOption",
    "CheckerOption",
    "ColumnsOption",
    "DetectorOption",
    "DeviceOption",
    "DirectoryArgument",
    "FiguresDirOption",
    "JsonOption",
    "LinkOptions",
    "LinksOutputOption",
    "ModelDirArgument",
    "ModelDirsArgument",
    "ModelSettingsOption",
    "NewOutputDirOption",
    "NumBootstrapSamplesOption",
    "NumSentencesOption",
    "NumThreadsOption",
    "OpenOption",
    "OptionalDetectorOption",
    "OutputDirOption",
    "OutputOption",
    "OverwriteOption",
    "ParallelSourceArgument",
    "ParallelTargetArgument",
    "PrecisionOption",
    "ReverseTranslatorOption",
    "RunDirOption",
    "RuntimeOptions",
    "SearchOptions",
    "SeedOption",
    "SentenceScoresOption",
    "SettingsOption",
    "TokenizedOption",
    "TrainSourceOption",
    "TrainTargetOption",
    "TranslatorOption",
    "column_numbers",
]

GENERATION = "regard.generation.config.GenerationConfig"

# Arguments

ModelDirArgument = Annotated[Path, typer.Argument(help="Model directory.", show_default=False)]
ModelDirsArgument = Annotated[
    list[Path],
    typer.Argument(help="Model directory. Several directories form an ensemble.", show_default=False),
]
ParallelSourceArgument = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="Source text, plain or compressed.", show_default=False)
]
ParallelTargetArgument = Annotated[
    Path,
    typer.Argument(metavar="TRANSLATION", help="Translations, one line per source line.", show_default=False),
]
_DIRECTORY = typer.Argument(help="Output directory. It is created if it does not exist.", show_default=False)
DirectoryArgument = Annotated[Path, _DIRECTORY, Writes.INTO]

# Files

OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Output file, compressed if its name ends in .gz, .bz2, .xz or .zst. Default: standard output.",
        show_default=False,
    ),
    Writes.FILE,
]
JsonOption = Annotated[
    Path | None,
    typer.Option("--json", help="Also write the results to this JSON file.", show_default=False),
    Writes.FILE,
]
OpenOption = Annotated[
    bool, typer.Option("--open", help="Open the page in the web browser when it is finished.")
]
_OUTPUT_DIR = typer.Option("--output-dir", "-o", help="Output directory. It is created if it does not exist.")
OutputDirOption = Annotated[Path, _OUTPUT_DIR, Writes.INTO]
NewOutputDirOption = Annotated[Path, _OUTPUT_DIR, Writes.DIRECTORY]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Overwrite existing output.")]
RunDirOption = Annotated[
    Path | None,
    typer.Option(
        "--output-dir",
        help="Output directory. Default: that of the configuration, or `runs/NAME` for a file `NAME.toml`.",
        show_default=False,
    ),
    Writes.INTO,
]
FiguresDirOption = Annotated[
    Path | None,
    typer.Option(
        help="Directory for the figures (SVG). It is created if it does not exist. Default: no figures.",
        show_default=False,
    ),
    Writes.INTO,
]

LinksOutputOption = Annotated[
    Path | None,
    typer.Option(
        help="Output file for the word links of each line (0-0 1-2), derived from attention. In translation, "
        "- appends them to the translations.",
        show_default=False,
    ),
    Writes.FILE,
]

# Text

TokenizedOption = Annotated[
    bool,
    typer.Option(
        "--tokenized",
        help="The text is already tokenized in the same way as the training text. By default, punctuation is "
        "separated from words if the training text is tokenized.",
    ),
]
ColumnsOption = Annotated[
    str,
    typer.Option(
        help="For inflection tables: column numbers (from 1) of the lemma, the features (any number of "
        "columns) and the form. Tables of SIGMORPHON need 1,3,2."
    ),
]

# Checks of translations

_DETECTOR = typer.Option(
    help="Detector: combined (calibrated probabilities of all errors), alignment, length, repetition, "
    "contrastive, or one of a plugin. length and repetition need no model."
)
DetectorOption = Annotated[str, _DETECTOR]
OptionalDetectorOption = Annotated[str | None, _DETECTOR]
CheckerOption = Annotated[
    Path | None,
    typer.Option(
        "--checker",
        help="Directory of a model of good translations (`regard check --save-checker`), with which "
        "translations are checked for omissions, additions and repetitions.",
        show_default=False,
    ),
]
TrainSourceOption = Annotated[
    Path | None,
    typer.Option(
        help="Source text of good translations, on which a model is trained: any parallel text of the "
        "languages, best several thousand lines of a similar kind.",
        show_default=False,
    ),
]
TrainTargetOption = Annotated[
    Path | None, typer.Option(help="The translations of --train-source.", show_default=False)
]

TranslatorOption = Annotated[
    Path | None,
    typer.Option(
        help="Model directory of a translator from the source to the target language, with which "
        "contrastive finds omissions.",
        show_default=False,
    ),
]
ReverseTranslatorOption = Annotated[
    Path | None,
    typer.Option(
        help="Model directory of a translator from the target to the source language, with which they find "
        "additions.",
        show_default=False,
    ),
]

# Computation

SettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Setting, as key=value (see above). The option may be repeated.", show_default=False
    ),
]
ModelSettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Override a setting of the model, as key=value, for example model.attention.top_k=0. The "
        "weights of the model must still fit.",
        show_default=False,
    ),
]
SeedOption = Annotated[int, typer.Option(help="Random seed.", min=0, max=4_294_967_295)]
BatchSizeOption = Annotated[int | None, setting(f"{GENERATION}:batch_size")]
PrecisionOption = Annotated[
    Literal["float32", "bfloat16"],
    typer.Option(help="Number format of matrix multiplications; bfloat16 is faster on recent GPUs."),
]
DeviceOption = Annotated[str, typer.Option(help="auto (a GPU if available), cpu, cuda or cuda:N.")]
NumThreadsOption = Annotated[
    int | None,
    typer.Option(
        help="Number of CPU threads. Default: all available processors.",
        min=1,
        max=1_024,
        show_default=False,
    ),
]

# Output

NumSentencesOption = Annotated[
    int,
    typer.Option(
        "--num-sentences", "-n", help="Number of sentences to show. 0 shows all.", min=0, max=1_000_000_000
    ),
]
SentenceScoresOption = Annotated[
    Path | None,
    typer.Option(help="Output file for the scores of each sentence, tab-separated.", show_default=False),
    Writes.FILE,
]
NumBootstrapSamplesOption = Annotated[
    int, typer.Option(help="Number of bootstrap samples.", min=2, max=1_000_000)
]


@dataclass(frozen=True)
class RuntimeOptions:
    """The options of the computation with a model."""

    panel: ClassVar[str] = "Computation"

    batch_size: BatchSizeOption = None
    precision: PrecisionOption = "float32"
    device: DeviceOption = "auto"
    num_threads: NumThreadsOption = None


@dataclass(frozen=True)
class SearchOptions:
    """Settings of beam search. None keeps the setting of the model."""

    panel: ClassVar[str] = "Search"

    beam_size: Annotated[int | None, setting(f"{GENERATION}:beam_size")] = None
    length_penalty: Annotated[float | None, setting(f"{GENERATION}:length_penalty")] = None
    coverage_penalty: Annotated[float | None, setting(f"{GENERATION}:coverage_penalty.weight")] = None


CoverageEpsilonOption = Annotated[float | None, setting(f"{GENERATION}:coverage_penalty.epsilon")]


@dataclass(frozen=True)
class LinkOptions:
    """The attention that is shown, and from which word links are derived. None keeps the model's setting."""

    panel: ClassVar[str] = "Attention"

    map: Annotated[str | None, setting(f"{GENERATION}:alignment.map")] = None
    layer: Annotated[int | None, setting(f"{GENERATION}:alignment.layer")] = None
    head: Annotated[
        int | None,
        typer.Option(
            help="Head of that layer, from 0; -1 is the last. Default: the mean of the heads that the model "
            "uses for word links (generation.alignment.heads), or of all heads with --layer.",
            show_default=False,
        ),
    ] = None
    shift: Annotated[bool | None, setting(f"{GENERATION}:alignment.shift")] = None


def column_numbers(text: str) -> tuple[int, ...]:
    """Return the column numbers of a text such as `1,2,3`. The last one is the column of the form.

    Raises:
        UsageError: If a field is not a number from 1 up, a number occurs twice, or there are fewer than two.
    """
    fields = text.split(",")
    # A field that is not a number is left out, so the comparison of the lengths finds it.
    numbers = tuple(int(field) for field in fields if field.isdecimal())
    if len(numbers) < max(2, len(fields)) or min(numbers) < 1 or len(set(numbers)) < len(numbers):
        raise UsageError(
            f"--columns {text!r}: expected at least two different column numbers, counted from 1 and "
            "separated by commas"
        )
    return numbers
