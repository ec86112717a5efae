"""The page of a check: all segments by decreasing risk, with findings that a reader can accept."""

from datetime import date
from pathlib import Path
from typing import Any

from regard.errors import DataError, UsageError
from regard.extensions.check.detectors import NOTES
from regard.extensions.check.findings import HEADER, TYPES, find_errors, read_accepted
from regard.extensions.check.result import CoverageCheck
from regard.extensions.check.sentences import THRESHOLD, CheckedSentence
from regard.reporting.html import render_html
from regard.text.files import open_atomic

_KINDS = {(mqm, its): kind for kind, (mqm, its, _) in TYPES.items()}


def check_report(
    result: CoverageCheck,
    output: Path | str = "check.html",
    name: str = "translation",
    title: str | None = None,
    threshold: float = THRESHOLD,
    ignore: Path | str | None = None,
) -> Path:
    """Write an HTML page with the findings of a check, in decreasing order of their probability.

    Args:
        result: The check.
        output: File of the page.
        name: Name of the system, or of the file of its translations.
        title: Title of the page. Default: `Check of NAME`.
        threshold: Probability from 0 to 1 from which an error is a finding.
        ignore: File of accepted findings, which start as accepted.

    Returns:
        The file of the page.

    Raises:
        DataError: if the check has no sentences, a file cannot be read or written, or the accepted findings
            have another form.
        UsageError: if the threshold is no probability.
    """
    if not result.sentences:
        raise DataError("the check has no sentences: a page needs at least one")
    if not 0 <= threshold <= 1:
        raise UsageError(f"threshold={threshold}: expected a probability from 0 to 1")
    data = {
        "title": title or f"Check of {name}",
        "date": date.today().isoformat(),
        "detector": result.detector,
        "threshold": threshold,
        "summary": result.summary(threshold),
        "text_notes": list(result.notes),
        "notes": NOTES,
        "kinds": {kind: message for kind, (_, _, message) in TYPES.items()},
        "header": HEADER,
        "accepted": [] if ignore is None else sorted(read_accepted(ignore)),
        # `line` is the number of the sentence in the text, from 1.
        "by_risk": [sentence.line - 1 for sentence in result.worst()],
        "sentences": [_sentence(sentence, threshold, result.files) for sentence in result.sentences],
    }
    page = render_html(
        "check.html.j2",
        data["title"],
        data,
        ["base.css", "report.css", "check.css"],
        ["shared.js", "marks.js", "check.js"],
        "regard.extensions.check",
    )
    with open_atomic(Path(output)) as file:
        file.write(page.encode())
    return Path(output)


def _sentence(
    sentence: CheckedSentence, threshold: float, files: tuple[str | None, str | None]
) -> dict[str, Any]:
    """Return a sentence for the page; `key` is the line of a finding in a file of accepted ones."""
    findings = [
        {
            "kind": _KINDS[finding.type, finding.its_type],
            "key": finding.key,
            "severity": finding.severity,
            "side": finding.side,
            "span": [finding.start, finding.end],
            "probability": finding.probability,
        }
        for finding in find_errors(sentence, threshold, files)
    ]
    return {
        "line": sentence.shown_line,
        "id": sentence.id,
        "note": sentence.note,
        "source": sentence.source,
        "target": sentence.translation,
        "risk": round(sentence.worst, 4),
        "findings": findings,
    }
