"""`regard tour`: train and compare ten systems on the built-in corpus."""

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.errors import UsageError

__all__ = ["tour"]


def tour(
    output_dir: Annotated[
        Path, typer.Option(help="Directory for all files. It is created if it does not exist.")
    ] = Path("tour"),
    systems: Annotated[
        str | None,
        typer.Option(
            help="Systems to train, separated by commas: word, phrase, none, soft, sparse, constrained, "
            "posterior, conv, transformer, hard. Default: all.",
            show_default=False,
        ),
    ] = None,
    num_train: Annotated[
        int, typer.Option(help="Number of training pairs.", min=100, max=1_000_000)
    ] = 15_000,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Setting of all neural models, as key=value.", show_default=False),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Also write the results to this JSON file.", show_default=False),
    ] = None,
) -> None:
    """Train ten systems on the built-in corpus, from IBM Model 1 to hard attention, and compare them.

    The systems translate from German to English. Training takes a few minutes per system on two CPU cores.
    The table shows BLEU, repeated and dropped words, alignment error, model size, training cost and speed.
    The HTML page shows the attention of all systems on the same sentences. Run the same command again to
    resume after an interruption; trained systems are reused.

    Example: regard tour

    Example: regard tour --systems soft,sparse,constrained --output-dir three
    """
    from rich.console import Console

    from regard.cli.output import write_json
    from regard.cli.progress import preparation_progress, track
    from regard.tour.report import load_report, write_report
    from regard.tour.runner import CORPUS_SIZES, Tour, TrainingInterruptedError
    from regard.tour.systems import SYSTEMS

    names = [stop.name for stop in SYSTEMS] if systems is None else systems.split(",")
    known = {stop.name: stop for stop in SYSTEMS}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"--systems {unknown[0]!r}: expected one or more of {', '.join(known)}")
    chosen = [stop for stop in SYSTEMS if stop.name in names]
    talk = Console(stderr=True, highlight=False)
    walked = Tour(output_dir, {**CORPUS_SIZES, "train": num_train}, tuple(settings or []))
    walked.write_corpus()
    costs = {}
    for number, stop in enumerate(chosen, 1):
        talk.rule(f"{number}. {stop.label.capitalize()}, {stop.citation}", align="left")
        talk.print(stop.summary, soft_wrap=True)
        try:
            costs[stop] = walked.train(stop, preparation_progress)
        except TrainingInterruptedError as stopped:
            talk.print("The state is saved. Run the same command again to resume.")
            raise typer.Exit(128 + stopped.signal) from None
    talk.rule("Comparison", align="left")
    figures = load_report(walked, costs) or write_report(walked, costs, track)
    _show(figures)
    write_json(json_file, figures)
    talk.print(
        f"To see the attention of all systems, open {output_dir / 'tour.html'} in a browser.", soft_wrap=True
    )
    talk.print(
        f"To try a system: echo 'Der Hund schläft .' | regard translate "
        f"{output_dir}/models/{chosen[-1].name} --show-attention",
        soft_wrap=True,
    )


def _show(figures: dict[str, Any]) -> None:
    """Print the table of all systems."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    heads = ("BLEU ↑", "REP % ↓", "DROP % ↓", "AER % ↓", "MB", "min", "FLOPs", "sent/s")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for stop in figures["stops"]:
        scores = (stop["scores"][metric] for metric in ("bleu", "rep", "drop", "aer"))
        costs = stop["costs"]
        table.add_row(
            stop["label"],
            *("–" if score is None else f"{score['value']:.1f}" for score in scores),
            f"{costs['megabytes']:.1f}",
            "–" if costs["training_seconds"] is None else f"{costs['training_seconds'] / 60:.1f}",
            "–" if costs["flops"] is None else f"{costs['flops']:.1e}",
            f"{costs['sentences_per_second']:.0f}",
        )
    Console(highlight=False).print(table)
