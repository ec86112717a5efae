"""`regard figures`: plot models, result files and training records, as in the figures of the papers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import typer

from regard.cli.command import expand_groups
from regard.cli.options import (
    DeviceOption,
    JsonOption,
    LinkOptions,
    NamesOption,
    OutputDirOption,
    PriorOption,
    ReferenceFileOption,
    SourceFileOption,
    split_names,
)
from regard.cli.output import open_output, render_figures, write_images, write_json, write_table
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.plot.figure import PlottedFigure

__all__ = [
    "FigureInput",
    "figures",
    "format_value",
    "read_results",
]

_T = TypeVar("_T")


@dataclass(frozen=True)
class FigureInput(LinkOptions):
    """The models or files of a figure, and the attention that it shows."""

    panel: ClassVar[str] = "With difference, history, self-attention and translations"

    prior: PriorOption = False
    files: Annotated[
        list[Path],
        typer.Option(
            "--input",
            help="Model directory or file that the figure is plotted from. The option may be repeated.",
            show_default=False,
            rich_help_panel="Options",
        ),
    ] = field(default_factory=list)
    names: NamesOption = None
    source: SourceFileOption = None
    reference: ReferenceFileOption = None
    line: Annotated[int, typer.Option(help="Line number in the text, from 1.", min=1)] = 1
    token: Annotated[
        int | None,
        typer.Option(
            help="For self-attention: position of the token, from 0; -1 is the last. Default: the token in "
            "the middle.",
            show_default=False,
            min=-1_000_000,
            max=1_000_000,
        ),
    ] = None
    device: DeviceOption = "auto"

    @property
    def link_settings(self) -> dict[str, Any]:
        """Return map, layer, head and shift as arguments of `search_settings`."""
        return {"map": self.map, "layer": self.layer, "head": self.head, "shift": self.shift}

    def named_files(self) -> dict[str, Path]:
        """Return the files by display name.

        Raises:
            UsageError: If the number of names differs from the number of files, or a name is empty or occurs
                twice.
        """
        from regard.analysis.inputs import check_names

        names = check_names(split_names(self.names), display_names(self.files), "systems")
        return dict(zip(names, self.files, strict=True))

    def read_line(self) -> tuple[str, str | None]:
        """Return the chosen source line and its reference, which is None without a reference file.

        Raises:
            UsageError: If no source is given, or a file has fewer lines.
            DataError: If a file cannot be read.
        """
        from regard.text.corpus import read_lines

        if self.source is None:
            raise UsageError("model directories need a source text: give --source")
        chosen_lines: list[str] = []
        for path in (self.source, *(() if self.reference is None else (self.reference,))):
            lines = list(read_lines(path))
            if self.line > len(lines):
                raise UsageError(f"--line {self.line}: {path} has only {len(lines)} lines")
            chosen_lines.append(lines[self.line - 1])
        return chosen_lines[0], chosen_lines[1] if self.reference is not None else None


@dataclass(frozen=True)
class _FigureKind:
    """A kind of figure.

    Attributes:
        description: Content of the figure and the paper that it comes from.
        inputs: Models or files that the figure is plotted from.
        function: Module in `regard.cli` and function that plot the figure. The module is imported
            only when it is needed.
    """

    description: str
    inputs: str
    function: tuple[str, str]

    def plot(self, inputs: FigureInput) -> "PlottedFigure":
        from importlib import import_module

        module, function = self.function
        plot_figure: "Callable[[FigureInput], PlottedFigure]" = getattr(
            import_module(f"regard.cli.{module}"), function
        )
        return plot_figure(inputs)


_FIGURES = {
    "translations": _FigureKind(
        "Malaviya et al. (2018), Figure 2: attention maps of translations, with repeated words marked",
        "model directories and --source, or files of `regard translate --attention-output`",
        ("attention_figures", "plot_translations"),
    ),
    "difference": _FigureKind(
        "Shankar & Sarawagi (2019), Figures 2 and 5: attention maps of a reference, and their difference",
        "model directories, --source and --reference",
        ("attention_figures", "plot_differences"),
    ),
    "attention": _FigureKind(
        "Shankar & Sarawagi (2019), Figures 3 and 4: accuracy by entropy, and coverage",
        "files of `regard analyze attention --json`",
        ("result_figures", "plot_statistics"),
    ),
    "length": _FigureKind(
        "Indurthi et al. (2019), Figure 2: scores by source length",
        "files of `regard analyze length --json` or `regard reproduce indurthi2019-figure2 --json`",
        ("result_figures", "plot_scores_by_length"),
    ),
    "history": _FigureKind(
        "Martins (2020): attention history of a translation, one step per target word",
        "as for translations",
        ("attention_figures", "plot_histories"),
    ),
    "self-attention": _FigureKind(
        "Martins (2020): self-attention of one word, for all heads of an encoder layer",
        "the directory of a Transformer and --source",
        ("attention_figures", "plot_encoder_attention"),
    ),
    "training": _FigureKind(
        "training curves of one or more runs",
        "model directories, or their record.jsonl files",
        ("result_figures", "plot_training_curves"),
    ),
}


@expand_groups
def figures(
    inputs: FigureInput,
    name: Annotated[
        str | None,
        typer.Argument(
            help=f"Name of the figure: {', '.join(_FIGURES)}. Without a name, the figures are listed.",
            show_default=False,
        ),
    ] = None,
    output_dir: OutputDirOption = Path("figures"),
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            help="File formats, separated by commas: svg, pdf, png (300 dots per inch).",
        ),
    ] = "svg",
    table: Annotated[bool, typer.Option("--table", help="Print the plotted values as a table.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Plot models, results and training records as in the figures of the papers: SVG, PDF or PNG files.

    Without a name, the command lists the figures and their input files.

    Example: regard figures training --input runs/soft --table

    For print: regard figures translations --input runs/soft --source test.de --format svg,pdf
    """
    from regard.plot.figure import FORMATS

    if name is None:
        if inputs.files:
            raise UsageError(f"--input needs the name of a figure: give one of {', '.join(_FIGURES)}")
        with open_output(None) as file:
            rows = [[key, kind.description, kind.inputs] for key, kind in _FIGURES.items()]
            write_table(file, [["figure", "shows", "input files"], *rows])
        return
    if name not in _FIGURES:
        raise UsageError(f"unknown figure {name!r}: expected one of {', '.join(_FIGURES)}")
    wanted = [each.strip() for each in formats.split(",")]
    if not set(wanted) <= set(FORMATS):
        raise UsageError(f"--format {formats}: expected one or more of {', '.join(FORMATS)}")
    figure = _FIGURES[name].plot(inputs)
    # Render everything before writing, so that an error leaves no files behind.
    write_images(output_dir, render_figures(figure.images, wanted))
    write_json(json_file, figure.to_dict())
    if table:
        with open_output(None) as file:
            write_table(file, figure.table)


def display_names(files: list[Path]) -> list[str]:
    """Return display names of files and directories.

    These are the last parts of the paths, or the whole paths if the last parts are not unique.
    """
    # `resolve` gives the directory "." a name. Only files have an ending to remove.
    short = [path.resolve().name if path.is_dir() else path.stem for path in files]
    return short if len(set(short)) == len(short) else [str(path) for path in files]


def read_results(path: Path, command: str, *schemas: type[_T]) -> _T:
    """Read a JSON file that was written by a command.

    Args:
        path: The file.
        command: Command that writes such files, for error messages.
        *schemas: Pydantic models of the possible formats, which are tried in this order.

    Raises:
        DataError: If the file cannot be read or has none of the formats.
    """
    from regard.text.reading import InvalidJsonError, read_json

    reason = ""
    for model in schemas:
        try:
            return read_json(path, model)
        except InvalidJsonError as error:
            # Report the error of the first format, which is the expected one.
            reason = reason or str(error)
    raise DataError(f"{path}: the file was not written by `{command}`: {reason}")


def format_value(value: float | None) -> str:
    """Return a number with four decimal places, "0" for an exact zero, or an empty text for None."""
    # An exact zero of sparse attention must differ from a small weight, which is printed as 0.0000.
    return "" if value is None else f"{value:.4f}" if value else "0"
