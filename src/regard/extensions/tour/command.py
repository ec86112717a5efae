"""`regard quickstart` and `regard tour`: train and compare systems on the built-in corpus."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.cli.command import Writes
from regard.cli.options import JsonOption
from regard.cli.output import track, write_json
from regard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from regard.extensions.tour.report import TourResults
    from regard.reporting.systems import SentenceResult

OutputDirOption = Annotated[
    Path,
    typer.Option("--output-dir", "-o", help="Output directory. It is created if it does not exist."),
    Writes.INTO,
]


def quickstart(
    output_dir: OutputDirOption = Path("quickstart"),
    seed: Annotated[int, typer.Option(help="Random seed of the text and of the models.", min=0)] = 1,
    json_file: JsonOption = None,
) -> None:
    """Train two small models on the built-in corpus, and compare their translations, scores and attention.

    Both translate from German to English: one with soft attention, the other with attention bounded by
    fertilities, which limits how often each word is translated. The command takes about
    two and a half minutes of processor time. Run the same command again to resume after an interruption.

    Example: regard quickstart --output-dir first
    """
    from regard.extensions.tour.report import run_quickstart
    from regard.training.display import preparation_progress

    console = Console(stderr=True, highlight=False)
    results = run_quickstart(
        output_dir, preparation_progress, lambda title: console.rule(title, align="left"), track, seed
    )
    if results.example is not None:
        _show_example(results.example, [system["name"] for system in results.systems])
    _show_scores(results)
    Console(highlight=False).print(
        "500 sentences of the test set. REP: repeated words, DROP: dropped words, AER: alignment error of "
        "the attention, all in percent.",
        style="dim",
    )
    write_json(json_file, results)
    _print_next_steps(console, output_dir, results.page)


def _show_example(example: "tuple[SentenceResult, SentenceResult]", names: list[str]) -> None:
    """Print the translations of a sentence by both models, with the errors and the bounded attention."""
    from regard.plot.terminal import terminal_map

    console = Console(highlight=False)
    first, second = example
    width = max(len(name) for name in (*names, "reference")) + 2
    console.print()
    brackets = not console.is_terminal
    rows = {
        "source": _marked(first.sentence.source, first.sentence.dropped, brackets),
        "reference": _marked(first.sentence.reference),
        names[0]: _marked(first.sentence.output, first.sentence.repeated, brackets),
        names[1]: _marked(second.sentence.output),
    }
    marked = r"\[in brackets]" if brackets else "in [bold red]red[/]"
    for name, text in rows.items():
        console.print(Text(name.ljust(width)).append_text(text))
    console.print(
        f"Line {first.sentence.line} of the test set, with words that {names[0]} attention drops or repeats "
        f"{marked}. The attention with bounds ({names[1]}):",
        style="dim",
    )
    if second.own_map is not None:
        attention_map = second.own_map
        console.print(terminal_map(attention_map.weights / 255, attention_map.columns, attention_map.rows))


def _marked(words: "Sequence[str]", positions: "Collection[int]" = (), brackets: bool = False) -> Text:
    """Return the words with some of them in color, or in brackets."""
    text = Text()
    for position, word in enumerate(words):
        marked = position in positions
        text.append(f"[{word}]" if marked and brackets else word, style="bold red" if marked else "")
        text.append(" ")
    return text


def _print_next_steps(console: Console, directory: Path, report: Path) -> None:
    model, corpus = directory / "models" / "constrained", directory / "corpus"
    console.rule("Next", align="left")
    for line in (
        f"{report}        # open this page in a browser: both models on the same sentences",
        f"echo 'Der Hund schläft.' | regard translate {model} --show-attention",
        f"regard serve {model}        # translate and drag bounds in a browser; needs the extra serve",
        f"regard check {corpus}/test.de {corpus}/test.en --checker {model}/checker        # any text",
        f"regard train {model}/config.toml model.attention.normalizer=softmax --output-dir {directory}/mine",
        "regard config        # all options; recipes/ has configurations for real data",
    ):
        console.print("  " + line, markup=False, soft_wrap=True)


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
    num_train: Annotated[
        int, typer.Option(help="Number of training pairs.", min=100, max=1_000_000)
    ] = 15_000,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Setting, as key=value (see above). The option may be repeated.",
            show_default=False,
        ),
    ] = None,
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
    from regard.extensions.tour.report import write_report
    from regard.extensions.tour.runner import CORPUS_SIZES, SYSTEMS, Tour
    from regard.training.display import preparation_progress

    known = [system.name for system in SYSTEMS]
    names = known if systems is None else systems.split(",")
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"--systems {unknown[0]!r}: expected one or more of {', '.join(known)}")
    # The table has the order of SYSTEMS, not that of the option.
    chosen = [system for system in SYSTEMS if system.name in names]
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    runner = Tour(output_dir, {**CORPUS_SIZES, "train": num_train}, overrides=tuple(settings or []))
    runner.write_corpus()
    costs = {}
    for number, system in enumerate(chosen, 1):
        console.rule(f"{number}. {system.label.capitalize()}, {system.citation}", align="left")
        console.print(system.summary)
        costs[system] = runner.train(system, preparation_progress)
    console.rule("Comparison", align="left")
    results = write_report(runner, costs, track)
    _show_scores(results)
    write_json(json_file, results)
    model = output_dir / "models" / chosen[-1].name
    console.print(f"To see the attention of all systems, open {results.page} in a browser.")
    console.print(f"To try a system: echo 'Der Hund schläft .' | regard translate {model} --show-attention")


def _show_scores(results: "TourResults") -> None:
    """Print the table of all systems."""
    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for head in ("BLEU ↑", "REP % ↓", "DROP % ↓", "AER % ↓", "MB", "min", "sent/s"):
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
