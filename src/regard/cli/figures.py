"""`regard figures`: plot the figures of the papers from models, result files and training records."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.attention_options import HeadOption, LayerOption, ShiftOption

if TYPE_CHECKING:
    from regard.cli.plotting.figure import FigureInput, PlottedFigure

__all__ = ["figures"]

_ATTENTION_PANEL = "With difference, history, self-attention and translations"


@dataclass(frozen=True)
class _FigureKind:
    """A kind of figure.

    Attributes:
        description: Content of the figure and the paper that it comes from.
        inputs: Models or files that the figure is plotted from.
        function: Module in `regard.cli.plotting` and function that plot the figure. The module is imported
            only when it is needed.
    """

    description: str
    inputs: str
    function: tuple[str, str]

    def plot(self, inputs: "FigureInput") -> "PlottedFigure":
        from importlib import import_module

        module, function = self.function
        plot_figure: Callable[[FigureInput], PlottedFigure] = getattr(
            import_module(f"regard.cli.plotting.{module}"), function
        )
        return plot_figure(inputs)


_FIGURES = {
    "simplex": _FigureKind(
        "Malaviya et al. (2018), Figure 1; softmax and sparsemax in two and three dimensions",
        "nothing",
        ("simplex_figures", "plot_transformations"),
    ),
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


def figures(
    name: Annotated[
        str | None,
        typer.Argument(
            help=f"Name of the figure: {', '.join(_FIGURES)}. Without a name, the figures are listed.",
            show_default=False,
        ),
    ] = None,
    output_dir: Annotated[
        Path,
        typer.Option(
            "--output-dir", "-o", help="Directory for the image files. It is created if it does not exist."
        ),
    ] = Path("figures"),
    input_paths: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            help="Model directory or file that the figure is plotted from. The option may be repeated.",
            show_default=False,
        ),
    ] = None,
    names: Annotated[
        str | None, typer.Option(help="Display names of the inputs of --input, separated by commas.")
    ] = None,
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            help="File formats, separated by commas: svg, pdf, png (300 dots per inch).",
        ),
    ] = "svg",
    table: Annotated[bool, typer.Option("--table", help="Print the plotted values as a table.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the plotted values to this JSON file.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="Source text, plain or gzip.", rich_help_panel=_ATTENTION_PANEL)
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Reference translations, one line per source line.", rich_help_panel=_ATTENTION_PANEL
        ),
    ] = None,
    line: Annotated[
        int, typer.Option(help="Line number in the text, from 1.", min=1, rich_help_panel=_ATTENTION_PANEL)
    ] = 1,
    layer: LayerOption = None,
    head: HeadOption = None,
    shift: ShiftOption = None,
    prior: Annotated[
        bool,
        typer.Option(
            "--prior",
            help="Use the prior attention, before the target token is observed. Default: the posterior "
            "attention, given the target token.",
            rich_help_panel=_ATTENTION_PANEL,
        ),
    ] = False,
    token: Annotated[
        int | None,
        typer.Option(
            help="For self-attention: position of the token, from 0; -1 is the last. Default: the token in "
            "the middle.",
            show_default=False,
            rich_help_panel=_ATTENTION_PANEL,
            min=-1_000_000,
            max=1_000_000,
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            help="auto (a GPU if available), cpu, cuda or cuda:N.", rich_help_panel=_ATTENTION_PANEL
        ),
    ] = "auto",
) -> None:
    """Plot the figures of the papers as SVG, PDF or PNG files.

    Without a name, the command lists the figures and their input files.

    Example: regard figures simplex -o figures --table

    For print: regard figures translations --input runs/soft --source test.de --format svg,pdf
    """
    from regard.cli.output import open_output, render_figures, write_images, write_json, write_table
    from regard.cli.plotting.figure import AttentionSelection, FigureInput
    from regard.errors import UsageError
    from regard.plotting.figure import FORMATS

    if name is None:
        if input_paths:
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
    chosen = AttentionSelection(layer, head, shift, prior)
    inputs = FigureInput(input_paths or [], source, reference, line, names, chosen, token, device)
    figure = _FIGURES[name].plot(inputs)
    # Render everything before writing, so that an error leaves no files behind.
    write_images(output_dir, render_figures(figure.images, wanted))
    write_json(json_file, figure.values)
    if table:
        with open_output(None) as file:
            write_table(file, figure.rows)
