"""`regard check`: errors in translations of any system, and `regard corrupt`: synthetic ones."""

import json
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.api_flags import ApiCall, ApiCommand
from regard.cli.command import Writes
from regard.cli.options import OutputOption
from regard.cli.output import Output, open_output, print_message, track, write_json, write_rows, write_table
from regard.errors import UsageError

if TYPE_CHECKING:
    from rich.text import Text

    from regard.extensions.check.base import CoverageError
    from regard.extensions.check.findings import Finding
    from regard.extensions.check.result import CoverageCheck
    from regard.extensions.check.sentences import CheckedSentence
    from regard.text.formats.base import FileOptions


@ApiCommand("regard.extensions.check.corrupt:corrupt", ["sources", "translations"])
def corrupt_command(
    call: ApiCall,
    output: OutputOption = None,
    labels_output: Annotated[
        Path | None,
        typer.Option(
            help="Output file for the labels of sentences and words (JSON lines), for `regard check "
            "--labels`.",
            show_default=False,
        ),
        Writes.FILE,
    ] = None,
) -> None:
    """Make synthetic omissions, additions and repetitions in good translations, with exact labels.

    Each translation gets one error or none. The source text stays as it is. Word links are those of
    --checker; without it, an aligner is trained on the text itself.

    Example: regard corrupt test.de test.en -o corrupted.en --labels-output labels.jsonl
    """
    from regard.extensions.check.corruptions import CORRUPTIONS

    with ExitStack() as files:
        text = files.enter_context(open_output(output))
        labels = None if labels_output is None else files.enter_context(open_output(labels_output))
        corrupted = call()
        text.write("".join(f"{line}\n" for line in corrupted.translations))
        if labels is not None:
            labels.write("".join(json.dumps(label.to_data()) + "\n" for label in corrupted.labels))
    counts: Counter[str | None] = Counter(corrupted.kinds)
    changes = ", ".join(f"{counts[kind]:,} {kind}" for kind in CORRUPTIONS if counts[kind])
    print_message(f"{len(corrupted):,} sentences: {changes}, {counts[None]:,} unchanged")


_COLORS = {"omission": "bold red", "addition": "bold blue", "repetition": "bold magenta"}


@dataclass(frozen=True)
class CheckOutput:
    """The output of `regard check`.

    Attributes:
        num_sentences: Number of sentences to show. 0 shows all.
        error: Sort by this error. Default: the top-scoring error of each sentence.
        threshold: Probability from 0 to 1 from which sentences are counted and shown, and words are marked.
        sentence_scores: Output file for the scores of each sentence, tab-separated.
        json: Also write the results to this JSON file.
        report: Output file for an HTML page with all sentences, in which a reader accepts findings.
        findings: Output file with one place per probable error, from `threshold` on: JSON lines, SARIF 2.1.0
            if its name ends in .sarif, or a copy of an XLIFF file with quality issues of ITS 2.0 if it ends
            in .xlf.
        annotate: Annotate the findings in the files of a pull request, by workflow commands on stderr.
        fail_on: Probability from which a finding lets the command end with exit status 3. Default: none does.
        accept: Output file for the findings of this check, which `ignore` then leaves out.
        ignore: File with accepted findings, which are neither shown nor written, and are no failure.
        filter: Only of pairs on standard input: write those whose errors are all less probable, as lines
            SOURCE<tab>TRANSLATION, instead of results.
        labels: File with labels, which are compared with the probabilities: JSON lines as of `regard corrupt
            --labels-output`.
    """

    num_sentences: int = 10
    error: (
        Literal["omission", "addition", "repetition", "unrelated", "number", "name", "negation", "markup"]
        | None
    ) = None
    threshold: float = 0.5
    sentence_scores: Path | None = None
    json: Path | None = None
    report: Path | None = None
    findings: Path | None = None
    annotate: Literal["github"] | None = None
    fail_on: float | None = None
    accept: Path | None = None
    ignore: Path | None = None
    filter: float | None = None
    labels: Path | None = None


@ApiCommand(
    "regard.extensions.check.api:check",
    ["sources", "translations"],
    panels={
        "Detector": "detector checker training training_file save_checker encoder num_threads",
        "File format": "file_options",
        "Output": "num_sentences error threshold sentence_scores json report filter labels",
        "Findings": "findings annotate fail_on accept ignore",
    },
    parts={"output": "regard.extensions.check.command:CheckOutput"},
    writes={
        "save_checker": Writes.DIRECTORY,
        **dict.fromkeys(["sentence_scores", "json", "report", "findings", "accept"], Writes.FILE),
    },
)
def check_command(call: ApiCall) -> None:
    """Find what translations of any system omit, add, repeat or alter, without a reference.

    The highest probabilities come first. Omitted words stand in square brackets in the source, added words in
    braces and repeated words in angle brackets in the translation. A question mark follows a word that is
    only the top-scoring one. Numbers, names, negations and markup without a counterpart have the brackets of
    omissions in the source and of additions in the translation. The probabilities of omissions, additions,
    repetitions and unrelated translations by the detector `combined` are calibrated for text in which one
    sentence in twenty has each error.

    `regard check -` checks a text of any size on standard input, by default lines SOURCE<tab>TRANSLATION, and
    writes a table with a row per sentence, or JSON lines with --json -. The flags of findings apply to it,
    without SARIF and XLIFF.

    Example: regard check test.de system.en --train train.de train.en --save-checker checker
    """
    if call.values["sources"] == Path("-"):
        _check_stream(call)
        return
    output: CheckOutput = call.take("output")
    if output.filter is not None:
        raise UsageError(
            "--filter needs pairs on standard input: paste SOURCE TRANSLATION | regard check - --filter ..."
        )
    with ExitStack() as files:
        # Files are opened first, so that an unwritable one is reported before a model is trained.
        findings = _FindingsOutput(output, files, call)
        table = _open(output.sentence_scores, files)
        result: CoverageCheck = call(on_message=print_message, progress=track)
        for note in result.notes:
            print_message(note)
        if output.labels is not None:
            result = replace(result, evaluation=result.evaluate(output.labels))
        if table is not None:
            for number, row in enumerate(result.rows()):
                _write_row(table, row, with_header=not number)
        accepted_segments = findings.write(result.sentences, result.findings(output.threshold))
    # The files come before the text, whose reader may end early (`| head`).
    write_json(output.json, result)
    if output.report is not None:
        from regard.extensions.check.page import check_report

        name = Path(call.values.get("translations") or call.values["sources"]).name
        written = check_report(result, output.report, name, threshold=output.threshold, ignore=output.ignore)
        print_message(f"wrote {written}")
    with open_output(None) as file:
        _show(file, result, output, accepted_segments)
        if result.evaluation is not None:
            file.write("\n")
            measures = result.evaluation.rows()
            write_table(file, [list(measures[0]), *map(_cells, measures)])
    findings.end()


_STREAM_FLAGS = {"json", "filter", "threshold", "findings", "annotate", "fail_on", "accept", "ignore"}


def _check_stream(call: ApiCall) -> None:
    """Check the pairs on standard input in constant memory; write a row per sentence and its findings."""
    from regard.api.arguments import open_segments
    from regard.extensions.check.api import check_blocks, prepare_detector
    from regard.extensions.check.findings import file_form, find_errors

    flags = set(call.options.get("output", {}))
    output: CheckOutput = call.take("output")
    options: FileOptions = call.take("file_options")
    options = replace(options, format=options.format or "tsv")
    values = {name: value for name, value in call.values.items() if name != "sources"}
    whole_text = flags - _STREAM_FLAGS or file_form(output.findings) or output.json not in (None, Path("-"))
    if output.filter is not None and output.json is not None:
        raise UsageError("--filter writes pairs, and --json results: give one of them")
    if whole_text or "translations" in values:
        raise UsageError(
            "regard check - reads both sides from standard input (--format) and writes a table, or JSON "
            "lines with --json -, and findings as JSON lines: remove the second file and the other flags of "
            "outputs, or give files"
        )
    with ExitStack() as files:
        findings = _FindingsOutput(output, files, call)
        file = files.enter_context(open_output(None))
        detector = prepare_detector(**values, on_message=print_message, progress=track)
        for sentence in check_blocks(open_segments("-", options=options), detector):
            if output.filter is not None:
                if sentence.worst < output.filter:
                    file.write(f"{sentence.source}\t{sentence.translation}\n")
            elif output.json is not None:
                file.write(json.dumps(sentence.to_data(), ensure_ascii=False) + "\n")
            else:
                _write_row(file, sentence.row(), with_header=sentence.line == 1)
            # A line has both sides, so that the columns of a sentence are not those of the line.
            places = [replace(each, column=None) for each in find_errors(sentence, output.threshold)]
            findings.write([sentence], places)
    findings.end()


def _write_row(file: Output, row: Mapping[str, Any], with_header: bool) -> None:
    """Write the row of a sentence, and the names of the columns before it."""
    write_rows(file, [list(row), _cells(row)] if with_header else [_cells(row)])


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [f"{value:.4f}" if isinstance(value, float) else str(value) for value in row.values()]


def _open(path: Path | None, files: ExitStack) -> Output | None:
    return None if path is None else files.enter_context(open_output(path))


class _FindingsOutput:
    """The files and annotations of findings, which are written sentence by sentence, and the exit status."""

    def __init__(self, output: CheckOutput, files: ExitStack, call: ApiCall) -> None:
        """Read the accepted findings and open the files.

        Raises:
            DataError: if a file cannot be read or written.
            UsageError: if --fail-on is below --threshold, or the findings of two files are to be XLIFF.
        """
        from regard.extensions.check import findings as forms
        from regard.text.formats.base import FileOptions

        if output.fail_on is not None and output.fail_on < output.threshold:
            raise UsageError(
                f"--fail-on {output.fail_on} is below --threshold {output.threshold}, from which findings "
                f"are listed: set --threshold {output.fail_on}"
            )
        self.source, self.form = call.values["sources"], forms.file_form(output.findings)
        self.file_options = FileOptions(**call.options.get("file_options", {}))
        if self.form == "xliff" and "translations" in call.values:
            raise UsageError(
                f"--findings {output.findings} is for one XLIFF file with both sides: choose another suffix"
            )
        self.output, self.forms, self.num_failing = output, forms, 0
        self.accepted = frozenset() if output.ignore is None else forms.read_accepted(output.ignore)
        self.segments = {line[:16] for line in self.accepted}
        self.is_other_text = bool(self.segments)
        self.findings_file, self.accept_file = (
            _open(path, files) for path in (output.findings, output.accept)
        )
        if self.accept_file is not None:
            self.accept_file.write(forms.HEADER)

    def write(self, sentences: "Sequence[CheckedSentence]", findings: "Sequence[Finding]") -> set[str]:
        """Write the findings of sentences, and return the hashes of segments in which all are accepted."""
        forms, segments = self.forms, {each.segment for each in findings}
        if self.accept_file is not None:
            self.accept_file.write("".join(f"{key}\n" for key in sorted({each.key for each in findings})))
        findings = forms.without_accepted(findings, self.accepted)
        if self.findings_file is not None:
            if self.form == "xliff":
                errors = (forms.find_errors(sentence, self.output.threshold) for sentence in sentences)
                rows = [forms.without_accepted(each, self.accepted) for each in errors]
                text = forms.annotate_xliff(self.source, self.file_options, rows)
            else:
                text = (forms.format_sarif if self.form == "sarif" else forms.format_lines)(findings)
            self.findings_file.write(text)
        if self.output.annotate is not None:
            for finding in findings:
                print(forms.workflow_command(finding), file=sys.stderr)
        if self.is_other_text:
            self.is_other_text = self.segments.isdisjoint(map(forms.segment_hash, sentences))
        least = self.output.fail_on
        self.num_failing += 0 if least is None else sum(each.probability >= least for each in findings)
        return segments - {each.segment for each in findings}

    def end(self) -> None:
        """Report accepted findings of another text, and end with status 3 if a finding is a failure."""
        output, failing = self.output, self.num_failing
        if self.is_other_text:
            print_message(
                f"{output.ignore}: none of its {len(self.segments):,} segments is in this text: was it "
                "written for another one?"
            )
        if failing:
            print_message(
                f"{failing:,} finding{'s' * (failing > 1)} of at least {output.fail_on} (--fail-on)"
            )
            raise typer.Exit(3)


def _show(file: Output, result: "CoverageCheck", output: CheckOutput, accepted: Collection[str]) -> None:
    """Write the summary and the worst sentences, without the accepted segments."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from regard.extensions.check.findings import segment_hash

    error, threshold, num_sentences = output.error, output.threshold, output.num_sentences
    probable = [
        sentence
        for sentence in result.worst(error=error)
        if (sentence.worst if error is None else sentence.probabilities[error]) >= threshold
    ]
    num_probable = len(probable)
    probable = [sentence for sentence in probable if segment_hash(sentence) not in accepted]
    sentences = probable[: num_sentences or None]
    lines = [Text(result.summary(threshold), style="bold")]
    if num_hidden := num_probable - len(probable):
        lines.append(Text(f"The findings in {num_hidden:,} of them are accepted (--ignore)."))
    for sentence in sentences:
        lines += [Text(), *_sentence(sentence, threshold)]
    if more := len(probable) - len(sentences):
        lines += [
            Text(),
            Text(f"{more:,} more: see --num-sentences, --sentence-scores and --json", style="dim"),
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

    from regard.extensions.check.detectors import NOTES

    head = Text(f"line {one.shown_line}", style="bold")
    if one.id is not None:
        head.append(f"  {one.id}")
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

    from regard.extensions.check.sentences import MARKS, marked_spans

    spans: list[tuple[int, int, CoverageError, bool]] = [
        (first, -last, error, certain)
        for error in errors
        for first, last, certain in marked_spans(one, error, threshold)
    ]
    # A word without a counterpart is marked as one that is omitted or added.
    for _, side, start, end, probability in one.mismatches:
        if (side == "source") == (errors[0] == "omission") and probability >= threshold:
            spans.append((start, -end, errors[0], True))
    spans.sort()
    if not text.strip():
        return Text("(empty)", style="dim")
    marked, end = Text(), 0
    for first, last, error, certain in spans:
        # Spans of two errors may overlap: the second one starts where the first one ends.
        first, last = max(first, end), -last
        first += len(text[first:last]) - len(text[first:last].lstrip())
        if first >= last:
            continue
        opening, closing = MARKS[error]
        marked.append(text[end:first])
        marked.append(f"{opening}{text[first:last]}{'' if certain else '?'}{closing}", style=_COLORS[error])
        end = last
    return marked.append(text[end:])
