"""Findings written into XLIFF files as localization quality issues of ITS 2.0 (W3C 2013, section 8.17).

The text of an issue is in an element `mrk` with the local attributes of ITS, as in the ITS module of XLIFF
2.1, and in the mapping of ITS to XLIFF 1.2, where it has the type `x-its`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lxml.etree as etree

from regard.extensions.check.findings import Finding, Severity
from regard.text.formats.base import FileContent, FileOptions
from regard.text.formats.xml import segment_text, text_nodes, xliff_segments
from regard.text.reading import open_regular_file
from regard.text.words import split_whitespace

_ITS = "http://www.w3.org/2005/11/its"
_ANNOTATORS, _ANNOTATOR = f"{{{_ITS}}}annotatorsRef", "localization-quality-issue|regard"
_SEVERITIES: Mapping[Severity, int] = {"critical": 100, "major": 50, "minor": 25}
_OLD_MARK = "old-mark"


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
