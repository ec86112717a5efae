"""`regard figures`: the papers' figures, drawn anew from what the code computes and what runs left."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.alignment_options import HeadOption, LayerOption, ShiftOption

if TYPE_CHECKING:
    from regard.cli.drawing.figure import Figure, Given

__all__ = ["figures"]

_LOOKING = "With difference, history, self-attention and translations"


@dataclass(frozen=True)
class _Kind:
    """A figure that can be drawn.

    Attributes:
        shows: What it shows, and of which paper it is.
        needs: What it is drawn from.
        maker: The module and the function that make it.
    """

    shows: str
    needs: str
    maker: tuple[str, str]

    def make(self, given: "Given") -> "Figure":
        from importlib import import_module

        module, function = self.maker
        make: Callable[[Given], Figure] = getattr(import_module(f"regard.cli.drawing.{module}"), function)
        return make(given)


_KINDS = {
    "simplex": _Kind(
        "Malaviya et al. (2018), Figure 1; the lecture's maps in two and three dimensions",
        "nothing",
        ("simplex", "draw_simplex"),
    ),
    "translations": _Kind(
        "Malaviya et al. (2018), Figure 2: maps of systems' own translations, what is said again marked",
        "model folders and --source, or files of `regard translate --attention`",
        ("looked", "draw_translations"),
    ),
    "difference": _Kind(
        "Shankar & Sarawagi (2019), Figures 2 and 5: maps of a given translation, and their difference",
        "model folders, --source and --reference",
        ("looked", "draw_difference"),
    ),
    "attention": _Kind(
        "Shankar & Sarawagi (2019), Figures 3 and 4: accuracy against entropy, coverage",
        "files of `regard analyse --attention --json`",
        ("recorded", "draw_attention"),
    ),
    "by-length": _Kind(
        "Indurthi et al. (2019), Figure 2: scores by the length of the source",
        "files of `regard analyse --by-length --json` or `regard reproduce indurthi2019-figure2 --json`",
        ("recorded", "draw_by_length"),
    ),
    "history": _Kind(
        "Martins (2020): attention of a translation, word by word",
        "as for translations",
        ("looked", "draw_history"),
    ),
    "self-attention": _Kind(
        "Martins (2020): what a word looks at in its own sentence, all heads of a layer",
        "the folder of a Transformer and --source",
        ("looked", "draw_self_attention"),
    ),
    "training": _Kind(
        "training curves of runs side by side",
        "model folders, or the record.jsonl in them",
        ("recorded", "draw_training"),
    ),
}


def figures(
    name: Annotated[
        str | None,
        typer.Argument(help=f"Which figure: {', '.join(_KINDS)}. None: list them.", show_default=False),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the pictures; made if it is not there.")
    ] = Path("figures"),
    source_files: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            help="What it is drawn from: a file or a model folder; may be repeated.",
            show_default=False,
        ),
    ] = None,
    names: Annotated[
        str | None, typer.Option(help="What to call what it is drawn from, separated by commas.")
    ] = None,
    png: Annotated[
        bool, typer.Option("--png", help="Write each picture as PNG for print too, 300 dots an inch.")
    ] = False,
    table: Annotated[bool, typer.Option("--table", help="Print the numbers drawn, as a table.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the numbers drawn to this file.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="The text, plain or gzip.", rich_help_panel=_LOOKING)
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(help="Reference translations, one line per source line.", rich_help_panel=_LOOKING),
    ] = None,
    line: Annotated[int, typer.Option(help="Which line of it.", min=1, rich_help_panel=_LOOKING)] = 1,
    layer: LayerOption = None,
    head: HeadOption = None,
    shift: ShiftOption = None,
    prior: Annotated[
        bool,
        typer.Option(
            "--prior",
            help="The attention before each token was known. Default: the posterior, once it is.",
            rich_help_panel=_LOOKING,
        ),
    ] = False,
    word: Annotated[
        int | None,
        typer.Option(
            help="self-attention: which token, from 0; -1 is the last. Default: the one in the middle.",
            show_default=False,
            rich_help_panel=_LOOKING,
            min=-1_000_000,
            max=1_000_000,
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(help="auto (a GPU if available), cpu, cuda or cuda:N.", rich_help_panel=_LOOKING)
    ] = "auto",
) -> None:
    """Draw the figures of the papers as SVG pictures, and as PNG for print.

    Without a name it lists the figures, with what each is drawn from.

    Example: regard figures simplex -o figures --table

    Two systems: regard figures translations --from runs/soft --from runs/sparse --source test.de --png
    """
    from regard.cli.drawing.figure import Chosen, Given
    from regard.cli.output import open_output, write_json, write_pictures, write_table
    from regard.errors import UsageError

    if name is None:
        if source_files:
            raise UsageError(f"--from is of a figure: give its name; there is: {', '.join(_KINDS)}")
        with open_output(None) as file:
            rows = [[key, kind.shows, kind.needs] for key, kind in _KINDS.items()]
            write_table(file, [["figure", "shows", "is drawn from"], *rows])
        return
    if name not in _KINDS:
        raise UsageError(f"no figure is called {name!r}; there is: {', '.join(_KINDS)}")
    chosen = Chosen(layer, head, shift, prior)
    given = Given(source_files or [], source, reference, line, names, chosen, word, device)
    made = _KINDS[name].make(given)
    # Drawn before anything is written: what cannot be drawn leaves nothing behind.
    printed = _printed(made.pictures) if png else {}
    write_pictures(output, made.pictures)
    _write(output, printed)
    write_json(json_file, made.numbers)
    if table:
        with open_output(None) as file:
            write_table(file, made.rows)


def _printed(pictures: dict[str, str]) -> dict[str, bytes]:
    """The pictures as PNG, by their files' names."""
    from regard.report.picture import png

    return {f"{Path(name).stem}.png": png(svg) for name, svg in pictures.items()}


def _write(folder: Path, files: dict[str, bytes]) -> None:
    from regard.cli.progress import say
    from regard.data.files import write_atomic

    for name, content in files.items():
        path = folder / name.replace("/", "-")
        write_atomic(path, content)
        say(f"wrote {path}")
