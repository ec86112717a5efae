"""`regard check`: omissions, additions and repetitions in translations of any system, without a reference."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from regard.cli.command import Writes, expand_groups, require_flag
from regard.cli.options import (
    CheckerOption,
    DetectorOption,
    JsonOption,
    NumBootstrapSamplesOption,
    NumSentencesOption,
    NumThreadsOption,
    ParallelSourceArgument,
    ParallelTargetArgument,
    ReverseTranslatorOption,
    SeedOption,
    SentenceScoresOption,
    TrainSourceOption,
    TrainTargetOption,
    TranslatorOption,
)
from regard.cli.output import Output, open_output, print_message, write_json, write_rows, write_table
from regard.errors import UsageError

if TYPE_CHECKING:
    from rich.text import Text

    from regard.extensions.check.api import CoverageModel
    from regard.extensions.check.base import CoverageError
    from regard.extensions.check.evaluation import CoverageEvaluation
    from regard.extensions.check.result import CheckedSentence, CoverageCheck

__all__ = ["check_command"]

_COLORS = {"omission": "bold red", "addition": "bold blue", "repetition": "bold magenta"}


@dataclass(frozen=True)
class DetectorOptions:
    """The detector, and the model of good translations."""

    panel: ClassVar[str] = "Detector"

    detector: DetectorOption = "combined"
    checker: CheckerOption = None
    train_source: TrainSourceOption = None
    train_target: TrainTargetOption = None
    save_checker: Annotated[
        Path | None,
        typer.Option(help="Directory in which to save the trained model.", show_default=False),
        Writes.DIRECTORY,
    ] = None
    translator: TranslatorOption = None
    reverse_translator: ReverseTranslatorOption = None
    num_threads: NumThreadsOption = None

    @property
    def translators(self) -> dict[str, Any]:
        """The directories of translators that are given."""
        directories = {"translator": self.translator, "reverse_translator": self.reverse_translator}
        return {name: path for name, path in directories.items() if path is not None}

    def check(self) -> None:
        """Check the combination of options before a text is read.

        Raises:
            UsageError: If there is no such detector, or options contradict each other.
        """
        from regard.extensions.check.base import DETECTORS
        from regard.extensions.check.model_files import check_model_dir

        if (self.train_source is None) != (self.train_target is None):
            raise UsageError("--train-source and --train-target need each other: give both files")
        trained = self.train_source is not None
        if trained and self.checker is not None:
            raise UsageError("give either --checker or --train-source and --train-target, not both")
        require_flag("--train-source", trained, {"save_checker": self.save_checker})
        if self.save_checker is not None:
            check_model_dir(self.save_checker)
        if DETECTORS.get(self.detector) is None:
            raise UsageError(f"--detector {self.detector!r}: expected one of {', '.join(DETECTORS.names())}")

    def load(self) -> "CoverageModel | None":
        """Return the model, trained or loaded; None without one."""
        from regard.extensions.check.api import CoverageModel

        threads = self.num_threads or 0
        if self.checker is not None:
            return CoverageModel.load(self.checker, threads)
        if self.train_source is None or self.train_target is None:
            return None
        start = time.monotonic()
        print_message(f"training on {self.train_source} and {self.train_target} ...")
        model = CoverageModel.train(self.train_source, self.train_target, num_threads=threads)
        if self.save_checker is None:
            suffix = "; with --save-checker DIR, the model is kept for other texts"
        else:
            model.save(self.save_checker)
            suffix = f" and saved in {self.save_checker}, for --checker"
        print_message(f"trained in {time.monotonic() - start:.0f} s{suffix}")
        return model


@dataclass(frozen=True)
class CheckOutput:
    """The output on the terminal and the files."""

    panel: ClassVar[str] = "Output"

    num_sentences: NumSentencesOption = 10
    error: Annotated[
        str | None,
        typer.Option(
            help="Sort by this error: omission, addition, repetition or unrelated. Default: the top-scoring "
            "error of each sentence.",
            show_default=False,
        ),
    ] = None
    threshold: Annotated[
        float,
        typer.Option(
            help="Probability from which sentences are counted and shown, and words are marked.", min=0, max=1
        ),
    ] = 0.5
    sentence_scores: SentenceScoresOption = None
    json_file: JsonOption = None
    report: Annotated[
        Path | None,
        typer.Option(
            help="Output file for an HTML page with all sentences, sorted by the probability of an error.",
            show_default=False,
        ),
        Writes.FILE,
    ] = None


@dataclass(frozen=True)
class LabelOptions:
    """Comparison with labels."""

    panel: ClassVar[str] = "Labels"

    labels: Annotated[
        Path | None,
        typer.Option(
            help="File with labels, which are compared with the probabilities: JSON lines of `regard "
            "corrupt`, or a tab-separated file with the columns line, omission, addition, repetition, "
            "unrelated (0 or 1).",
            show_default=False,
        ),
    ] = None
    num_bootstrap_samples: NumBootstrapSamplesOption = 1000
    seed: SeedOption = 0


@expand_groups
def check_command(
    source: ParallelSourceArgument,
    translation: ParallelTargetArgument,
    detector: DetectorOptions,
    output: CheckOutput,
    labels: LabelOptions,
) -> None:
    """Find omissions, additions and repetitions in translations of any system, without a reference.

    The highest probabilities come first. Omitted words stand in square brackets in the source, added words in
    braces and repeated words in angle brackets in the translation. A question mark follows a word that is
    only the top-scoring one. The probabilities of the detector `combined` are calibrated for text in which
    one sentence in ten has each error.

    Example: regard check test.de system.en --train-source train.de --train-target train.en
    --save-checker checker
    """
    from regard.extensions.check.api import check

    detector.check()
    _check_error(output.error)
    with ExitStack() as files:
        # Files are opened first, so that an unwritable one is reported before a model is trained.
        scores = output.sentence_scores
        table = None if scores is None else files.enter_context(open_output(scores))
        model = detector.load()
        result = check(
            source,
            translation,
            detector.detector,
            checker=model,
            num_threads=detector.num_threads or 0,
            **detector.translators,
        )
        for note in result.notes:
            print_message(note)
        if labels.labels is not None:
            evaluated = result.evaluate(
                labels.labels,
                threshold=output.threshold,
                num_bootstrap_samples=labels.num_bootstrap_samples,
                seed=labels.seed,
            )
            result = replace(result, evaluation=evaluated)
        if table is not None:
            rows = result.rows()
            cells = ([f"{v:.4f}" if isinstance(v, float) else v for v in row.values()] for row in rows)
            write_rows(table, [list(rows[0]) if rows else ["line"], *cells])
    # The files come before the text, whose reader may end early (`| head`).
    if output.json_file is not None:
        write_json(output.json_file, result)
    if output.report is not None:
        from regard.extensions.check.report import check_report  # needs PyTorch

        written = check_report(result, output.report, translation.name, threshold=output.threshold)
        print_message(f"wrote {written}")
    with open_output(None) as file:
        _show(file, result, output)
        if result.evaluation is not None:
            file.write("\n")
            write_table(file, _evaluation_rows(result.evaluation))


def _check_error(error: str | None) -> None:
    from typing import get_args

    from regard.extensions.check.base import SentenceError

    if error is not None and error not in get_args(SentenceError):
        raise UsageError(f"--error {error!r}: expected one of {', '.join(get_args(SentenceError))}")


def _show(file: Output, found: "CoverageCheck", output: CheckOutput) -> None:
    """Write the summary and the worst sentences."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    error: Any = output.error
    sentences = [
        sentence
        for sentence in found.worst(output.num_sentences or None, error)
        if (sentence.worst if error is None else sentence.probabilities[error]) >= output.threshold
    ]
    lines = [Text(found.summary(output.threshold), style="bold")]
    for sentence in sentences:
        lines += [Text(), *_sentence(sentence, output.threshold)]
    rest = sum(sentence.worst >= output.threshold for sentence in found.sentences) - len(sentences)
    if error is None and rest > 0 and output.num_sentences:
        lines += [
            Text(),
            Text(f"{rest:,} more: see --num-sentences, --sentence-scores and --json", style="dim"),
        ]
    console = Console(highlight=False, markup=False)
    for line in lines:
        if file.is_terminal:
            # A long line continues at its own indentation.
            indent = len(line.plain) - len(line.plain.lstrip())
            console.print(Padding(line[indent:], (0, 0, 0, indent)) if indent else line)
        else:
            # Without a terminal, a line is neither wrapped nor colored.
            file.write(f"{line.plain}\n")


def _sentence(one: "CheckedSentence", threshold: float) -> "list[Text]":
    """Return the lines that show a sentence: its probable errors, source and translation."""
    from rich.text import Text

    from regard.extensions.check.notes import NOTES

    head = Text(f"line {one.line}", style="bold")
    ranked = sorted(one.probabilities.items(), key=lambda item: -item[1])
    for error, value in ranked:
        if value >= threshold:
            head.append(f"  {error} {value:.2f}", style=_COLORS.get(error, "bold yellow"))
    if one.note is not None:
        head.append(f"  ({NOTES[one.note]})", style="dim")
    source = _marked(one, ("omission",), one.source, threshold)
    translation = _marked(one, ("addition", "repetition"), one.translation, threshold)
    return [head, Text("  ", style="").append_text(source), Text("  ").append_text(translation)]


def _marked(one: "CheckedSentence", errors: "Sequence[CoverageError]", text: str, threshold: float) -> "Text":
    """Return a text with brackets around the affected words."""
    from rich.text import Text

    from regard.extensions.check.result import MARKS, marked_spans

    # The brackets are inserted from the end, so that places stay valid.
    spans: list[tuple[int, int, CoverageError, bool]] = sorted(
        (
            (first, last, error, certain)
            for error in errors
            for first, last, certain in marked_spans(one, error, threshold)
        ),
        reverse=True,
    )
    if not text.strip():
        return Text("(empty)", style="dim")
    # Spans of two errors may overlap: of nested ones, the outer is shown; others are cut at a word.
    spans = [span for span in spans if not any(_contains(other, span) for other in spans)]
    parts, end = [], len(text)
    for first, last, error, certain in spans:
        last = first + len(text[first : min(last, end)].rstrip())
        if first >= last:
            continue
        opening, closing = MARKS[error]
        parts.append(Text(text[last:end]))
        mark = f"{opening}{text[first:last]}{'' if certain else '?'}{closing}"
        parts.append(Text(mark, style=_COLORS[error]))
        end = first
    parts.append(Text(text[:end]))
    return Text("").join(reversed(parts))


def _contains(outer: tuple[Any, ...], inner: tuple[Any, ...]) -> bool:
    """Return whether a span (first, last, ...) contains another, smaller one."""
    return outer[0] <= inner[0] and inner[1] <= outer[1] and outer[:2] != inner[:2]


def _evaluation_rows(evaluated: "CoverageEvaluation") -> list[list[str]]:
    """Return the table of measures, with a header."""
    rows = evaluated.rows()
    cells = [[f"{v:.4f}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    return [list(rows[0]), *cells]
