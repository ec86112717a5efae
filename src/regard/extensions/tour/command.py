"""`regard tour`: train and compare ten systems on the built-in corpus."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.command import setting
from regard.cli.options import JsonOption, OutputDirOption, SettingsOption
from regard.cli.output import track, write_json
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.extensions.tour.report import TourResults

__all__ = ["tour"]

_CORPUS = "regard.extensions.phrasebook.corpus.PhrasebookConfig"


def tour(
    output_dir: OutputDirOption = Path("tour"),
    systems: Annotated[
        str | None,
        typer.Option(
            help="Systems to train, separated by commas: word, phrase, none, soft, sparse, constrained, "
            "posterior, conv, transformer, hard. Default: all.",
            show_default=False,
        ),
    ] = None,
    num_train: Annotated[int, setting(f"{_CORPUS}:num_train", min=100, max=1_000_000)] = 15_000,
    settings: SettingsOption = None,
    json_file: JsonOption = None,
) -> None:
    """Train ten systems on the built-in corpus, from IBM Model 1 to hard attention, and compare them.

    The systems translate from German to English. Training takes a few minutes per system on two CPU cores.
    The table shows BLEU, repeated and dropped words, alignment error, model size, training cost and speed.
    The HTML page shows the attention of all systems on the same sentences. Run the same command again to
    resume after an interruption; trained systems are reused. The settings of --set apply to all
    neural models.

    Example: regard tour

    Example: regard tour --systems soft,sparse,constrained --output-dir three
    """
    from rich.console import Console

    from regard.extensions.tour.report import load_report, write_report
    from regard.extensions.tour.runner import CORPUS_SIZES, SYSTEMS, Tour, TrainingInterruptedError
    from regard.training.display import preparation_progress

    known = [system.name for system in SYSTEMS]
    names = known if systems is None else systems.split(",")
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"--systems {unknown[0]!r}: expected one or more of {', '.join(known)}")
    # The table has the order of SYSTEMS, not that of the option.
    chosen = [system for system in SYSTEMS if system.name in names]
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    runner = Tour(output_dir, {**CORPUS_SIZES, "train": num_train}, tuple(settings or []))
    runner.write_corpus()
    costs = {}
    for number, system in enumerate(chosen, 1):
        console.rule(f"{number}. {system.label.capitalize()}, {system.citation}", align="left")
        console.print(system.summary)
        try:
            costs[system] = runner.train(system, preparation_progress)
        except TrainingInterruptedError as stopped:
            console.print("The state is saved. Run the same command again to resume.")
            raise typer.Exit(128 + stopped.signal) from None
    console.rule("Comparison", align="left")
    results = load_report(runner, costs) or write_report(runner, costs, track)
    _show(results)
    write_json(json_file, results.to_dict())
    model = output_dir / "models" / chosen[-1].name
    console.print(f"To see the attention of all systems, open {output_dir / 'tour.html'} in a browser.")
    console.print(f"To try a system: echo 'Der Hund schläft .' | regard translate {model} --show-attention")


def _show(results: "TourResults") -> None:
    """Print the table of all systems."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    heads = ("BLEU ↑", "REP % ↓", "DROP % ↓", "AER % ↓", "MB", "min", "sent/s")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for system in results.systems:
        scores = (system["scores"][metric] for metric in ("bleu", "rep", "drop", "aer"))
        costs = system["costs"]
        table.add_row(
            system["label"],
            *("–" if score is None else f"{score['value']:.1f}" for score in scores),
            f"{costs['megabytes']:.1f}",
            "–" if costs["training_seconds"] is None else f"{costs['training_seconds'] / 60:.1f}",
            f"{costs['sentences_per_second']:.0f}",
        )
    Console(highlight=False).print(table)
