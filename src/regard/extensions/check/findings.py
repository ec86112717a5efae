"""Findings: the probable errors of a check as places in files, for build systems, editors and reviewers.

The types are those of Multidimensional Quality Metrics (Lommel et al. 2014) and, for other tools, the values
of `locQualityIssueType` in the Internationalization Tag Set 2.0 (W3C 2013, section 8.17). Findings are
written as JSON lines, as SARIF 2.1.0 (OASIS 2020), as workflow commands of GitHub Actions and into XLIFF.

In XLIFF, the text of a quality issue is in an element `mrk` with the local attributes of ITS, as in the ITS
module of XLIFF 2.1, and in the mapping of ITS to XLIFF 1.2, where it has the type `x-its`.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from regard.errors import DataError
from regard.extensions.check.base import CRITICAL, SentenceError
from regard.extensions.check.evaluation import WORD_KEYS
from regard.extensions.check.sentences import THRESHOLD, CheckedSentence, marked_spans
from regard.text.compression import remove_suffix
from regard.text.corpus import read_lines
from regard.text.files import format_json
from regard.text.formats.base import FileContent, FileOptions
from regard.text.reading import open_regular_file
from regard.text.words import split_whitespace
from regard.version import __version__

Severity = Literal["minor", "major", "critical"]
FindingKind = SentenceError | Literal["copied"]
TYPES: Mapping[FindingKind, tuple[str, str, str]] = {
    "omission": ("accuracy/omission", "omission", "Probably not translated"),
    "addition": ("accuracy/addition", "addition", "Probably added by the translation"),
    "repetition": ("fluency/duplication", "duplication", "Probably repeated"),
    "unrelated": ("accuracy/mistranslation", "mistranslation", "Probably unrelated to the source"),
    "number": ("accuracy/mistranslation/number", "numbers", "Number without a counterpart"),
    "name": ("accuracy/mistranslation/entity", "mistranslation", "Name without a counterpart"),
    "negation": ("accuracy/mistranslation/negation", "mistranslation", "Negation without a counterpart"),
    "markup": ("markup/mismatch", "markup", "Address, placeholder or tag without a counterpart"),
    "copied": ("accuracy/untranslated", "untranslated", "Probably a copy of the source"),
}
"""The types of findings by MQM and by ITS, and the beginning of their message."""
_MAJOR_PROBABILITY, _MAJOR_WORDS = 0.8, 3
_CRITICAL_SHARE = 0.5
_MAX_QUOTED = 80  # characters of the text in a message
_LEVELS: Mapping[Severity, tuple[str, str]] = {
    "critical": ("error", "error"),
    "major": ("warning", "warning"),
    "minor": ("note", "notice"),
}
"""The levels of the severities in SARIF and in GitHub Actions."""
HEADER = "# Findings accepted with `regard check --accept`: hash of the segment, type\n"
"""The first line of a file of accepted findings."""
_ACCEPTED = re.compile("[0-9a-f]{16} [a-z]+(?:/[a-z]+)+")
_ITS = "http://www.w3.org/2005/11/its"
_ANNOTATORS, _ANNOTATOR = f"{{{_ITS}}}annotatorsRef", "localization-quality-issue|regard"
_SEVERITIES: Mapping[Severity, int] = {"critical": 100, "major": 50, "minor": 25}
_OLD_MARK = "old-mark"


@dataclass(frozen=True)
class Finding:
    """A probable error in one place.

    Attributes:
        file: The file of the side; None for a list of sentences.
        id: The identifier of the segment in its file, if it has one.
        line: Number of the line, from 1.
        side: The side of the affected text: the source for omissions, the target for additions and
            repetitions, either for words without a counterpart.
        start: First character of the affected text in its sentence, from 0, in code points.
        end: The character after its last.
        column: First column of the affected text in its line, from 1. None in a file with both sides, whose
            lines contain more than the sentence.
        text: The affected text. The whole sentence if the detector judges sentences only.
        message: The probable error in words.
        type: The type of the error by MQM, such as `accuracy/omission`.
        its_type: Its `locQualityIssueType`, such as `omission`.
        severity: critical for a translation that is unrelated, empty or copied, and for an omission or
            addition of at least half of the words; otherwise major from a probability of 0.8 or from three
            words on, and for a number, name, negation or markup; otherwise minor.
        probability: The probability that the sentence has such an error, or of that word without a
            counterpart.
        segment: The first 16 hexadecimal digits of the SHA-256 of both sides, the same in every file.
    """

    file: str | None
    id: str | None
    line: int
    side: Literal["source", "target"]
    start: int
    end: int
    column: int | None
    text: str
    message: str
    type: str
    its_type: str
    severity: Severity
    probability: float
    segment: str

    @property
    def key(self) -> str:
        """The line of the finding in a file of accepted ones; the same for all places in a segment."""
        return f"{self.segment} {self.type}"


def segment_hash(sentence: CheckedSentence) -> str:
    """Return the hash by which accepted findings are recognized."""
    return sha256(f"{sentence.source}\n{sentence.translation}".encode()).hexdigest()[:16]


def find_errors(
    sentence: CheckedSentence,
    threshold: float = THRESHOLD,
    files: tuple[str | None, str | None] = (None, None),
) -> Iterator[Finding]:
    """Yield the findings of a sentence: the errors whose probability reaches a threshold, once per place.

    Args:
        sentence: The sentence.
        threshold: The threshold, from 0 to 1.
        files: The files of the source and of the translation.
    """
    probable = {error: value for error, value in sentence.probabilities.items() if value >= threshold}
    # A copied or unrelated translation omits and adds everything, which is one error.
    if sentence.note == "copied" and "omission" in probable:
        yield _finding(sentence, files, "copied", None, probable["omission"])
        probable = {}
    elif "unrelated" in probable:
        yield _finding(sentence, files, "unrelated", None, probable["unrelated"])
        probable = {error: value for error, value in probable.items() if error == "repetition"}
    for error in WORD_KEYS:
        if error in probable:
            spans = [(first, last) for first, last, _ in marked_spans(sentence, error, threshold)]
            for span in spans or [None]:
                yield _finding(sentence, files, error, span, probable[error])
    for error, side, start, end, probability in sentence.mismatches:
        if error in probable and probability >= threshold:
            yield _finding(sentence, files, error, (start, end), probability, side == "source")


def _finding(
    sentence: CheckedSentence,
    files: tuple[str | None, str | None],
    kind: FindingKind,
    span: tuple[int, int] | None,
    probability: float,
    is_source: bool | None = None,
) -> Finding:
    """Return a finding in a span of characters; in the whole sentence if the affected words are unknown."""
    is_source = kind == "omission" if is_source is None else is_source
    text = sentence.source if is_source else sentence.translation
    words = sentence.source_words if is_source else sentence.target_words
    start, end = span or (0, len(text))
    size = 0 if span is None else sum(start <= first < end for first, _ in words)
    is_whole = kind in ("copied", "unrelated") or sentence.note in ("empty_source", "empty_translation")
    severity: Severity = "minor"
    if is_whole or (kind in ("omission", "addition") and size and size >= _CRITICAL_SHARE * len(words)):
        severity = "critical"
    elif kind in CRITICAL or probability >= _MAJOR_PROBABILITY or size >= _MAJOR_WORDS:
        severity = "major"
    mqm, its, message = TYPES[kind]
    is_bilingual = files[0] is not None and files[0] == files[1]
    quoted = text[start:end] if end - start <= _MAX_QUOTED else f"{text[start : start + _MAX_QUOTED]}..."
    return Finding(
        files[not is_source],
        sentence.id,
        sentence.shown_line,
        "source" if is_source else "target",
        *(start, end, None if is_bilingual else start + 1, text[start:end]),
        f"{message}{'' if span or is_whole else ', in part'}: {quoted or '(empty)'}",
        *(mqm, its, severity),
        round(probability, 4),
        segment_hash(sentence),
    )


def read_accepted(path: Path | str) -> frozenset[str]:
    """Read a file of accepted findings.

    Raises:
        DataError: if the file cannot be read, or a line has another form; names the line.
    """
    accepted = set()
    for number, line in enumerate(read_lines(path), 1):
        if line.startswith("#") or not line.strip():
            continue
        if not _ACCEPTED.fullmatch(line):
            raise DataError(
                f"{path}:{number}: not a finding as `regard check --accept` writes it: 16 hexadecimal digits "
                "and a type such as accuracy/omission"
            )
        accepted.add(line)
    return frozenset(accepted)


def without_accepted(findings: Iterable[Finding], accepted: Collection[str]) -> list[Finding]:
    """Return the findings that are not among the accepted ones of `read_accepted`."""
    return [finding for finding in findings if finding.key not in accepted]


def file_form(path: Path | None) -> Literal["sarif", "xliff"] | None:
    """Return the form of a file of findings, by its name; None for JSON lines, or without a file."""
    suffix = "" if path is None else Path(remove_suffix(path.name)).suffix.lower()
    return "xliff" if suffix.endswith((".xlf", "xliff")) else "sarif" if suffix == ".sarif" else None


def format_lines(findings: Iterable[Finding]) -> str:
    """Return findings as JSON lines."""
    return "".join(f"{format_json(asdict(finding))}\n" for finding in findings)


def format_sarif(findings: Iterable[Finding]) -> str:
    """Return findings as a SARIF 2.1.0 log.

    Columns count code points. A finding without a file has no location, and one in a file with both sides has
    no columns.
    """
    rules = [
        {"id": mqm, "shortDescription": {"text": message}, "properties": {"locQualityIssueType": its}}
        for mqm, its, message in TYPES.values()
    ]
    driver = {"name": "regard check", "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(each) for each in findings],
    }
    return f"{format_json({'version': '2.1.0', 'runs': [run]}, 2)}\n"


def _sarif_result(finding: Finding) -> dict[str, Any]:
    """Return a finding as a SARIF result; its rank is the probability in percent."""
    locations = []
    if finding.file is not None:
        path = Path(finding.file)
        uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
        region: dict[str, Any] = {"startLine": finding.line}
        if finding.column is not None:
            end = finding.column + finding.end - finding.start
            region |= {"startColumn": finding.column, "endColumn": end, "snippet": {"text": finding.text}}
        locations = [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}]
    return {
        "ruleId": finding.type,
        "level": _LEVELS[finding.severity][0],
        "message": {"text": finding.message},
        "locations": locations,
        "rank": round(100 * finding.probability, 2),
        "partialFingerprints": {"segment/v1": finding.segment},
        "properties": {"severity": finding.severity, "side": finding.side, "id": finding.id},
    }


def workflow_command(finding: Finding) -> str:
    """Return the workflow command of GitHub Actions that annotates the place of a finding, as one line."""
    title = f"{finding.type} {finding.probability:.2f}"
    place = "" if finding.file is None else f"file={_escape(finding.file)},"
    place += f"line={finding.line}"
    if finding.column is not None:
        last = finding.column + max(finding.end - finding.start - 1, 0)
        place += f",col={finding.column},endColumn={last}"
    message = _escape(finding.message, ":,")
    return f"::{_LEVELS[finding.severity][1]} {place},title={_escape(title)}::{message}"


def _escape(text: str, allowed: str = "") -> str:
    """Return a text with the escapes of the toolkit of GitHub Actions; a message may contain : and ,."""
    for mark in "%\r\n:,":
        if mark not in allowed:
            text = text.replace(mark, f"%{ord(mark):02X}")
    return text


def annotate_xliff(path: Path | str, options: FileOptions, findings: Iterable[Sequence[Finding]]) -> str:
    """Return the document of an XLIFF file with findings instead of those that were written into it before.

    All other content stays as it is. A finding whose text has inline tags within it, or overlaps another
    one, is that of the whole side.

    Args:
        path: The file.
        options: The format and the parts of the file that are read.
        findings: The findings of each segment that `regard.check` reads from the file.

    Raises:
        DataError: if the file cannot be read, or is not XLIFF.
    """
    import lxml.etree as etree

    from regard.text.formats.xml import xliff_segments

    with open_regular_file(path) as file:
        content = FileContent(file, str(path), options, Counter())
        elements = [element for element, _ in xliff_segments(content, keep=True)]
    root = elements[0].getroottree().getroot()
    for mark in list(root.iter("{*}mrk")):
        if mark.get(_ANNOTATORS) == _ANNOTATOR:
            mark.tag = _OLD_MARK
    etree.strip_tags(root, _OLD_MARK)
    prefixes = {prefix for element in root.iter("*") for prefix in element.nsmap if prefix}
    is_old, number = not root.get("version", "").startswith("2"), 0
    for element, segment_findings in zip(elements, findings, strict=True):
        for finding in segment_findings:
            number += 1
            side = element.find(f"{{*}}{finding.side}")
            issue = {
                "Type": finding.its_type,
                "Comment": f"{finding.message} ({finding.probability:.2f})",
                "Severity": str(_SEVERITIES[finding.severity]),
            }
            attributes = {"mtype": "x-its"} if is_old else {"id": f"regard-{number}", "type": "its:generic"}
            attributes |= {f"{{{_ITS}}}locQualityIssue{name}": value for name, value in issue.items()}
            tag = f"{side.tag.removesuffix(finding.side)}mrk"
            mark = side.makeelement(tag, {**attributes, _ANNOTATORS: _ANNOTATOR}, side.nsmap | {"its": _ITS})
            _insert(mark, side, (finding.start, finding.end), content)
    if number:
        etree.cleanup_namespaces(root, top_nsmap={"its": _ITS}, keep_ns_prefixes=list(prefixes))
        root.set(f"{{{_ITS}}}version", "2.0")
    document = etree.tostring(root.getroottree(), encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{document}\n'


def _insert(mark: Any, side: Any, span: tuple[int, int], content: FileContent) -> None:
    """Insert an element around a span of the text of a segment."""
    from regard.text.formats.xml import segment_text, text_nodes

    # White space is normalized in segments, so that the positions are those among all other characters.
    text = segment_text(side, content)
    first, last = (len("".join(split_whitespace(text[:end]))) for end in span)
    for node, place, part in list(text_nodes(side, content)):
        positions = [position for position, character in enumerate(part) if split_whitespace(character)]
        if place and 0 <= first < last <= len(positions):
            start, end = positions[first], positions[last - 1] + 1
            mark.text, mark.tail = part[start:end], part[end:]
            setattr(node, place, part[:start])
            parent = node if place == "text" else node.getparent()
            parent.insert(0 if place == "text" else parent.index(node) + 1, mark)
            return
        first, last = first - len(positions), last - len(positions)
    mark.text, side.text = side.text, None
    mark.extend(list(side))
    side.append(mark)
