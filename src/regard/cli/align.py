"""`regard align`: word alignment of parallel text."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from regard.cli.command import Writes, expand_groups
from regard.cli.options import (
    AlignerOption,
    JsonOption,
    LowercaseOption,
    NumThreadsOption,
    OutputOption,
    SeedOption,
    SettingsOption,
)
from regard.cli.output import Output, open_output, write_json
from regard.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from regard.alignment import AlignerConfig, Corpus, IterationStats, TrainingSetup, WordAligner

__all__ = ["align_command"]

MAX_REPORTED_PASSES = 20  # with more passes than this, only the last one is reported


@dataclass(frozen=True)
class AlignmentText:
    """The text to align."""

    panel: ClassVar[str] = "Text"

    source: Annotated[
        Path | None,
        typer.Argument(
            help="Source text, or one file with lines of the form `source ||| target`. Default: lines of "
            "this form from standard input.",
            show_default=False,
        ),
    ] = None
    target: Annotated[
        Path | None,
        typer.Argument(help="Translations, one line per source line.", show_default=False),
    ] = None
    prepared_dir: Annotated[
        Path | None,
        typer.Option(
            help="Directory written by `regard prepare` (instead of files): align the tokens of its training "
            "text. The output has one line for each sentence pair that was kept. The text may be larger "
            "than memory.",
            show_default=False,
        ),
    ] = None
    lowercase: LowercaseOption = False
    allow_empty: Annotated[
        bool,
        typer.Option(
            "--allow-empty",
            help="With --aligner and two files: accept pairs with an empty side. They get no links.",
        ),
    ] = False

    def read(self, aligner: "WordAligner | None", lowercase: bool) -> "Corpus":
        """Read the text; with a trained aligner, words get the numbers that they have in its vocabulary."""
        from regard.alignment import Corpus
        from regard.text.corpus import decode_lines

        if self.prepared_dir is not None:
            from regard.data.dataset import PreparedData

            # Prepared text has its own token numbers, so `_check` excludes a trained aligner here.
            return Corpus.from_prepared(PreparedData.open(self.prepared_dir))
        words = None if aligner is None else aligner.words
        if self.source is not None and self.target is not None:
            return Corpus.read(self.source, self.target, words, lowercase, self.allow_empty)
        lines = self.source or decode_lines(sys.stdin.buffer, "standard input")
        return Corpus.read_joined(lines, words, lowercase)


@dataclass(frozen=True)
class AlignerOptions:
    """The aligner: a new one with its settings, or a trained one."""

    panel: ClassVar[str] = "Aligner"

    model: Annotated[
        str | None,
        typer.Option(
            help="Alignment model: ibm1, ibm2, hmm, bayes, ibm3 or ibm4 (extension `smt`), or one of a "
            "plugin. Default: bayes.",
            show_default=False,
        ),
    ] = None
    settings: SettingsOption = None
    aligner: AlignerOption = None
    save_aligner: Annotated[
        Path | None,
        typer.Option(help="Directory in which to save the trained aligner.", show_default=False),
        Writes.DIRECTORY,
    ] = None
    seed: SeedOption = 0
    num_threads: NumThreadsOption = None

    def config(self) -> "AlignerConfig | None":
        """Return the settings of the aligner to train, or None for a trained aligner.

        Raises:
            UsageError: If there is no such model or setting.
        """
        if self.aligner is not None:
            return None
        from regard.alignment.base import DEFAULT_ALIGNER
        from regard.api.alignment import aligner_config

        options = dict(_setting(text) for text in self.settings or [])
        return aligner_config(self.model or DEFAULT_ALIGNER, options, "--model", "--set")


@dataclass(frozen=True)
class LinkOutput:
    """The links that are written."""

    panel: ClassVar[str] = "Links"

    symmetrize: Annotated[
        str,
        typer.Option(
            help="Symmetrization of the two directions: intersection, union, grow-diag, grow-diag-final or "
            "grow-diag-final-and. With forward or backward, only one direction is used."
        ),
    ] = "grow-diag-final-and"
    output: OutputOption = None
    posteriors: Annotated[
        bool,
        typer.Option(
            "--posteriors",
            help="Write posterior probabilities of links as i-j:p: those of one direction, or the mean of "
            "both.",
        ),
    ] = False
    min_posterior: Annotated[
        float,
        typer.Option(
            help="With --posteriors: minimum probability; links below it are omitted.", min=0, max=1
        ),
    ] = 0.01

    def method(self) -> Any:
        """Return the method of symmetrization.

        Raises:
            UsageError: If there is no such method.
        """
        from regard.alignment.symmetrize import METHODS

        if self.symmetrize not in METHODS:
            raise UsageError(f"--symmetrize {self.symmetrize!r}: expected one of {', '.join(METHODS)}")
        return self.symmetrize

    def write(self, file: Output, aligner: "WordAligner", corpus: "Corpus", num_threads: int) -> None:
        """Align a text and write one line of links or of posterior probabilities per pair."""
        if self.posteriors:
            # A pair that is too long is empty here, which avoids a large matrix of zeros.
            for links in aligner.posteriors(aligner.alignable(corpus), self.method(), num_threads):
                _write_posteriors(file, links, self.min_posterior)
        else:
            for line in aligner.align(corpus, self.method(), num_threads).lines():
                file.write(line + "\n")


@expand_groups
def align_command(
    text: AlignmentText, aligner: AlignerOptions, links: LinkOutput, json_file: JsonOption = None
) -> None:
    """Align the words of parallel text. Words are separated by whitespace.

    The output has one line of links per sentence pair: `0-0 1-2` links source word 0 to target word 0 and
    source word 1 to target word 2. The perplexity of each pass is written to stderr. For the sampler `bayes`
    it is the perplexity of the words given the sampled links, followed by the number of links that changed.
    The settings of --set are those of the alignment model. Under `torchrun`, the processes share the
    sentence pairs of each pass and sum their counts.

    Example: regard align corpus.de corpus.en -o links.txt --save-aligner aligner
    """
    from regard.alignment import WordAligner
    from regard.alignment.word_aligner import DIRECTIONS
    from regard.api.alignment import Aligner, AlignmentStatistics

    # Wrong options are reported before the text is read.
    method = links.method()
    _check(text, aligner)
    config = aligner.config()
    # Check the target directory before training, which may take hours.
    if aligner.save_aligner is not None:
        WordAligner.check_output_dir(aligner.save_aligner)
    trained = None if aligner.aligner is None else Aligner.load(aligner.aligner)
    # An aligner that was trained on lowercased text has only lowercased words in its vocabulary.
    lowercase = text.lowercase or (trained is not None and trained.model.lowercase)
    corpus = text.read(None if trained is None else trained.model, lowercase)
    with _processes(aligner.num_threads or 0, aligner.seed) as setup, ExitStack() as opened:
        # Open the output before training, so that an unwritable file is reported at once.
        file = opened.enter_context(open_output(links.output)) if setup.rank == 0 else None
        if trained is None:
            assert config is not None
            # A saved aligner needs both directions, because it may later be symmetrized in another way.
            single = method in DIRECTIONS and aligner.save_aligner is None
            directions = (method,) if single else DIRECTIONS
            with _reporting(setup.rank == 0, len(directions)) as report:
                trained = Aligner.train_corpus(corpus, config, setup, lowercase, directions, report)
        # Only process 0 opened the output; the others have contributed their counts.
        if file is None:
            return
        if aligner.save_aligner is not None:
            trained.save(aligner.save_aligner)
        links.write(file, trained.model, corpus, setup.num_threads)
        write_json(json_file, AlignmentStatistics(len(corpus), trained.passes).to_dict())


def _check(text: AlignmentText, aligner: AlignerOptions) -> None:
    """Check that the options can be combined.

    Raises:
        UsageError: If they cannot.
    """
    new = aligner.model is not None or aligner.settings or aligner.save_aligner is not None
    if aligner.aligner is not None and new:
        raise UsageError(
            "--aligner uses a trained aligner, so it cannot be combined with --model, --set or --save-aligner"
        )
    if text.prepared_dir is not None and (
        text.source is not None or aligner.aligner is not None or text.lowercase
    ):
        raise UsageError(
            "--prepared-dir uses text that is already tokenized, so it cannot be combined with text files, "
            "--aligner or --lowercase"
        )
    if text.allow_empty and (aligner.aligner is None or text.target is None):
        raise UsageError(
            "--allow-empty needs --aligner and two text files: an aligner cannot be trained on empty lines"
        )
    if text.source is None and text.prepared_dir is None and _process_count() > 1:
        raise UsageError(
            "under torchrun several processes read the text, so it cannot come from standard input"
        )


def _setting(text: str) -> tuple[str, Any]:
    from regard.text.reading import InvalidJsonError, parse_json

    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--set {text!r}: expected key=value")
    try:
        return key, parse_json(value, object)
    except InvalidJsonError:
        # A word without quotes is not JSON and stands for itself.
        return key, value


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
        # `all_reduce` overwrites its argument; the copy protects the array of the caller.
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


@contextmanager
def _reporting(enabled: bool, directions: int) -> "Iterator[Callable[[str, IterationStats], None]]":
    """Yield a callback that reports each pass on stderr.

    On a terminal, progress bars are shown as well.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    with Progress(console=console, transient=True, disable=not (enabled and console.is_terminal)) as bar:
        tasks: dict[tuple[str, str], Any] = {}

        def report(direction: str, iteration: "IterationStats") -> None:
            name = f"{direction} {iteration.stage}" if directions > 1 else iteration.stage
            if (direction, iteration.stage) not in tasks:
                tasks[direction, iteration.stage] = bar.add_task(name, total=iteration.num_iterations)
            bar.update(tasks[direction, iteration.stage], completed=iteration.iteration)
            # A sampler makes hundreds of passes, so only its last one is printed.
            if enabled and (
                iteration.num_iterations <= MAX_REPORTED_PASSES
                or iteration.iteration == iteration.num_iterations
            ):
                statistics = ", ".join(f"{key} {value:.4g}" for key, value in iteration.values().items())
                console.print(f"{name} {iteration.iteration}/{iteration.num_iterations}: {statistics}")

        yield report


def _write_posteriors(file: Output, links: "np.ndarray", min_posterior: float) -> None:
    import numpy as np

    # Rows of `links` are target words. The transpose sorts the output by source words.
    sources, targets = np.nonzero(links.T >= min_posterior)
    values = links[targets, sources]
    fields = zip(sources.tolist(), targets.tolist(), values.tolist(), strict=True)
    file.write(" ".join(f"{i}-{j}:{p:.4f}" for i, j, p in fields) + "\n")
