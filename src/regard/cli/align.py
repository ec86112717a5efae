"""`regard align`: word alignment of parallel text."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from regard.alignment import AlignerConfig, Corpus, IterationStats, TrainingSetup, WordAligner
    from regard.cli.output import Output

__all__ = ["align_command"]

MAX_REPORTED_PASSES = 20  # with more passes than this, only the last one is reported


def align_command(
    source: Annotated[
        Path | None,
        typer.Argument(
            help="Source text, or one file with lines of the form `source ||| target`. Default: lines of "
            "this form from standard input.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Argument(help="Translations, one line per source line.", show_default=False),
    ] = None,
    prepared_dir: Annotated[
        Path | None,
        typer.Option(
            help="Directory written by `regard prepare` (instead of files): align the tokens of its training "
            "text. The output has one line for each sentence pair that was kept. The text may be larger "
            "than memory.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Alignment model: ibm1, ibm2, ibm3, hmm or bayes. Default: bayes.", show_default=False
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Setting of the alignment model, as key=value.", show_default=False),
    ] = None,
    symmetrize: Annotated[
        str,
        typer.Option(
            help="Symmetrization of the two directions: intersection, union, grow-diag, grow-diag-final or "
            "grow-diag-final-and. With forward or backward, only one direction is used."
        ),
    ] = "grow-diag-final-and",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Output file for the links. Default: standard output.", show_default=False
        ),
    ] = None,
    posteriors: Annotated[
        bool,
        typer.Option(
            "--posteriors",
            help="Write posterior probabilities of links as i-j:p: those of one direction, or the mean of "
            "both.",
        ),
    ] = False,
    min_posterior: Annotated[
        float,
        typer.Option(
            help="With --posteriors: minimum probability; links below it are omitted.", min=0, max=1
        ),
    ] = 0.01,
    save_dir: Annotated[
        Path | None,
        typer.Option(
            "--save-aligner", help="Directory in which to save the trained aligner.", show_default=False
        ),
    ] = None,
    aligner_dir: Annotated[
        Path | None,
        typer.Option(
            "--aligner",
            help="Directory with a trained aligner, which is used instead of training one.",
            show_default=False,
        ),
    ] = None,
    allow_empty: Annotated[
        bool,
        typer.Option(
            "--allow-empty",
            help="With --aligner and two files: accept pairs with an empty side. They get no links.",
        ),
    ] = False,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0, max=4_294_967_295)] = 0,
    num_threads: Annotated[
        int | None,
        typer.Option(help="Number of threads. Default: the number of processors.", min=1, max=1_024),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the results of each pass to this JSON file.", show_default=False),
    ] = None,
) -> None:
    """Align the words of parallel text. Words are separated by whitespace.

    The output has one line of links per sentence pair: `0-0 1-2` links source word 0 to target word 0 and
    source word 1 to target word 2. The perplexity of each pass is written to stderr. For the sampler `bayes`
    it is the perplexity of the words given the sampled links, followed by the number of links that changed.
    Under `torchrun`, the processes share the sentence pairs of each pass and sum their counts.

    Example: regard align corpus.de corpus.en -o links.txt --save-aligner aligner
    """
    from regard.alignment import WordAligner
    from regard.cli.output import open_output, write_json

    method: Any = _method(symmetrize)
    if aligner_dir is not None and (model is not None or settings or save_dir is not None):
        raise UsageError(
            "--aligner uses a trained aligner, so it cannot be combined with --model, --set or --save-aligner"
        )
    if prepared_dir is not None and (source is not None or aligner_dir is not None or lowercase):
        raise UsageError(
            "--prepared-dir uses text that is already tokenized, so it cannot be combined with text files, "
            "--aligner or --lowercase"
        )
    if allow_empty and (aligner_dir is None or target is None):
        raise UsageError(
            "--allow-empty needs --aligner and two text files: an aligner cannot be trained on empty lines"
        )
    if source is None and prepared_dir is None and _process_count() > 1:
        raise UsageError(
            "under torchrun several processes read the text, so it cannot come from standard input"
        )
    config = None if aligner_dir is not None else _config(model, settings or [])
    # Check the target directory before training, which may take hours.
    if save_dir is not None:
        WordAligner.check_output_dir(save_dir)
    for text in (source, target):
        if text is not None and output is not None and output.is_file() and output.samefile(text):
            raise UsageError(
                f"-o {output}: the output would overwrite the text to align. Choose another output file."
            )
    loaded = None if aligner_dir is None else WordAligner.load(aligner_dir)
    # An aligner that was trained on lowercased text has only lowercased words in its vocabulary.
    lowercase = lowercase or (loaded is not None and loaded.lowercase)
    corpus = _read(source, target, prepared_dir, loaded, lowercase, allow_empty)
    passes: list[dict[str, Any]] = []
    with _processes(num_threads or 0, seed) as setup, ExitStack() as opened:
        # Open the output before training, so that an unwritable file is reported at once.
        file = opened.enter_context(open_output(output)) if setup.rank == 0 else None
        aligner = loaded
        if aligner is None:
            assert config is not None
            aligner = _train(corpus, config, setup, lowercase, symmetrize, save_dir, passes)
        # Only process 0 opened the output; the others have contributed their counts.
        if file is None:
            return
        if save_dir is not None:
            aligner.save(save_dir)
        if posteriors:
            for links in aligner.posteriors(corpus, method, setup.num_threads):
                _write_posteriors(file, links, min_posterior)
        else:
            for line in aligner.align(corpus, method, setup.num_threads).lines():
                file.write(line + "\n")
        write_json(json_file, {"pairs": len(corpus), "passes": passes})


def _method(name: str) -> str:
    from regard.alignment.symmetrize import METHODS

    if name not in METHODS:
        raise UsageError(f"--symmetrize {name!r}: expected one of {', '.join(METHODS)}")
    return name


def _config(model: str | None, settings: list[str]) -> "AlignerConfig":
    from regard.alignment.word_aligner import DEFAULT_ALIGNER, TRAINERS, aligner_kinds
    from regard.config import from_dict

    name = model or DEFAULT_ALIGNER
    if name not in aligner_kinds():
        raise UsageError(f"--model {name!r}: expected one of {', '.join(aligner_kinds())}")
    cls = list(TRAINERS)[aligner_kinds().index(name)]
    return from_dict(cls, dict(_setting(text) for text in settings), origin="--set")


def _setting(text: str) -> tuple[str, Any]:
    from regard.data.reading import InvalidJsonError, parse_json

    key, found, value = text.partition("=")
    if not found or not key:
        raise UsageError(f"--set {text!r}: expected key=value")
    try:
        return key, parse_json(value, object)
    except InvalidJsonError:
        return key, value


def _read(
    source: Path | None,
    target: Path | None,
    prepared: Path | None,
    loaded: "WordAligner | None",
    lowercase: bool,
    allow_empty: bool,
) -> "Corpus":
    from regard.alignment import Corpus
    from regard.data.corpus import decode_lines

    if prepared is not None:
        from regard.data.dataset import PreparedData

        return Corpus.from_prepared(PreparedData.open(prepared))

    words = None if loaded is None else loaded.words
    if source is not None and target is not None:
        return Corpus.read(source, target, words, lowercase, allow_empty)
    if source is not None:
        return Corpus.read_joined(source, words, lowercase)
    return Corpus.read_joined(decode_lines(sys.stdin.buffer, "standard input"), words, lowercase)


def _process_count() -> int:
    """Return the number of processes that `torchrun` started, or 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def _processes(threads: int, seed: int) -> "Iterator[TrainingSetup]":
    """Yield the training environment: a single process, or one of the processes that `torchrun` started."""
    from regard.alignment import TrainingSetup

    if _process_count() == 1:
        yield TrainingSetup(num_threads=threads, seed=seed)
        return
    import torch
    import torch.distributed as dist

    from regard.training.device import init_process_group

    def sum_over_processes(array: "np.ndarray") -> "np.ndarray":
        tensor = torch.from_numpy(array.copy())
        dist.all_reduce(tensor)
        return tensor.numpy()

    with init_process_group(torch.device("cpu")) as processes:
        yield TrainingSetup(
            num_threads=threads,
            seed=seed,
            rank=processes.rank,
            world_size=processes.world_size,
            reduce=sum_over_processes,
        )


def _train(
    corpus: "Corpus",
    config: "AlignerConfig",
    setup: "TrainingSetup",
    lowercase: bool,
    method: str,
    save: Path | None,
    passes: list[dict[str, Any]],
) -> "WordAligner":
    """Train the directions that are needed and report the progress."""
    from regard.alignment import train_both
    from regard.alignment.word_aligner import DIRECTIONS

    # A saved aligner needs both directions, because it may later be symmetrized in another way.
    directions = (method,) if method in DIRECTIONS and save is None else DIRECTIONS
    with _reporting(setup.rank == 0, len(directions), passes) as report:
        return train_both(corpus, config, setup, lowercase, directions, report)


@contextmanager
def _reporting(
    enabled: bool, directions: int, passes: list[dict[str, Any]]
) -> "Iterator[Callable[[str, IterationStats], None]]":
    """Yield a callback that reports each pass on stderr and appends its results to `passes`.

    On a terminal, progress bars are shown as well.
    """
    import math

    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    with Progress(console=console, transient=True, disable=not (enabled and console.is_terminal)) as bar:
        tasks: dict[tuple[str, str], Any] = {}

        def report(direction: str, iteration: "IterationStats") -> None:
            metrics = {name: float(value) for name, value in iteration.metrics.items()}
            has_perplexity = math.isfinite(iteration.log_likelihood)
            found = {"perplexity": iteration.perplexity} if has_perplexity else {}
            position = {"direction": direction, "stage": iteration.stage, "pass": iteration.iteration}
            passes.append(position | found | metrics)
            name = f"{direction} {iteration.stage}" if directions > 1 else iteration.stage
            if (direction, iteration.stage) not in tasks:
                tasks[direction, iteration.stage] = bar.add_task(name, total=iteration.num_iterations)
            bar.update(tasks[direction, iteration.stage], completed=iteration.iteration)
            # A sampler makes hundreds of passes, so only its last one is printed.
            if enabled and (
                iteration.num_iterations <= MAX_REPORTED_PASSES
                or iteration.iteration == iteration.num_iterations
            ):
                shown = ", ".join(f"{key} {value:.4g}" for key, value in (found | metrics).items())
                console.print(f"{name} {iteration.iteration}/{iteration.num_iterations}: {shown}")

        yield report


def _write_posteriors(file: "Output", links: "np.ndarray", min_posterior: float) -> None:
    import numpy as np

    # Rows of `links` are target words. The transpose sorts the output by source words.
    sources, targets = np.nonzero(links.T >= min_posterior)
    values = links[targets, sources]
    fields = zip(sources.tolist(), targets.tolist(), values.tolist(), strict=True)
    file.write(" ".join(f"{i}-{j}:{p:.4f}" for i, j, p in fields) + "\n")
