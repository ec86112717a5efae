"""Labels of coverage errors, of sentences and of words, and their files.

A file of JSON lines has one object per labeled sentence, in which every key but `line` is optional. The
spans are the first character of the affected text and the one after its last, counted from 0:

    {"line": 3, "omission": true, "omitted": [[4, 11]], "addition": false, "added": []}

A tab-separated file has labels of sentences only: a header with `line` and the names of errors, then one row
of 0 and 1 per sentence. An error without a label in a line is unknown there, and the line does not count for
it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from regard.errors import DataError
from regard.extensions.check.base import CoverageError, SentenceError
from regard.text.corpus import read_lines
from regard.text.reading import InvalidJsonError, parse_json

__all__ = ["WORD_KEYS", "LineLabels", "check_labels", "format_labels", "labeled_words", "read_labels"]

Span = tuple[int, int]

WORD_KEYS: Mapping[CoverageError, str] = {
    "omission": "omitted",
    "addition": "added",
    "repetition": "repeated",
}
"""The key of the affected words of each error. Omitted words are in the source, the others in the
translation."""
_CELLS = {"": None, "0": False, "1": True}
_SENTENCE_ERRORS: tuple[SentenceError, ...] = get_args(SentenceError)


@dataclass(frozen=True)
class LineLabels:
    """The labels of one sentence.

    Attributes:
        line: Number of the line, from 1.
        errors: For each labeled error, whether the sentence has it.
        spans: For each error with labeled words, the affected text: spans of characters in the source for
            omissions, in the translation for additions and repetitions.
    """

    line: int
    errors: Mapping[SentenceError, bool] = field(default_factory=dict)
    spans: Mapping[CoverageError, tuple[Span, ...]] = field(default_factory=dict)

    def to_data(self) -> dict[str, Any]:
        """Return the labels as JSON values, as in a file."""
        spans = {
            WORD_KEYS[error]: [list(span) for span in error_spans]
            for error, error_spans in self.spans.items()
        }
        return {"line": self.line, **self.errors, **spans}


_Span = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2, max_length=2)]


class _Line(BaseModel):
    """One line of a file of JSON lines."""

    model_config = ConfigDict(strict=True, extra="forbid")

    line: Annotated[int, Field(ge=1)]
    omission: bool | None = None
    addition: bool | None = None
    repetition: bool | None = None
    unrelated: bool | None = None
    omitted: list[_Span] | None = None
    added: list[_Span] | None = None
    repeated: list[_Span] | None = None

    def labels(self) -> LineLabels:
        """Return the labels that are given."""
        errors: dict[SentenceError, bool | None] = {error: getattr(self, error) for error in _SENTENCE_ERRORS}
        spans: dict[CoverageError, Any] = {error: getattr(self, key) for error, key in WORD_KEYS.items()}
        return LineLabels(
            self.line,
            {error: value for error, value in errors.items() if value is not None},
            {
                error: tuple((first, last) for first, last in error_spans)
                for error, error_spans in spans.items()
                if error_spans is not None
            },
        )


def format_labels(labels: Iterable[LineLabels]) -> str:
    """Return the labels as JSON lines."""
    return "".join(json.dumps(label.to_data()) + "\n" for label in labels)


def read_labels(path: Path | str) -> list[LineLabels]:
    """Read a file of labels, JSON lines or tab-separated.

    Raises:
        DataError: if the file cannot be read or a line has another form; names the line.
    """
    lines = list(read_lines(Path(path)))
    first = next((line for line in lines if line.strip()), "")
    if not first:
        raise DataError(f"{path}: the file contains no labels")
    if not first.lstrip().startswith("{"):
        return _read_table(path, lines)
    labels = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            labels.append(parse_json(line, _Line).labels())
        except InvalidJsonError as error:
            raise DataError(f"{path}:{number}: not the labels of a line: {error}") from None
    return labels


def _read_table(path: Path | str, lines: Sequence[str]) -> list[LineLabels]:
    """Return the labels of a tab-separated file."""
    header = lines[0].split("\t")
    unknown = set(header) - {"line", *_SENTENCE_ERRORS}
    if "line" not in header or unknown or len(header) < 2 or len(set(header)) < len(header):
        raise DataError(
            f"{path}:1: expected JSON lines, or a tab-separated header with `line` and some of "
            f"{', '.join(_SENTENCE_ERRORS)}"
        )
    labels = []
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        values = line.split("\t")
        # An empty cell is an unknown label.
        cells: dict[str, Any] = {
            name: _CELLS.get(value, value) for name, value in zip(header, values, strict=False)
        }
        try:
            if len(values) != len(header):
                raise ValueError
            place = int(values[header.index("line")][:12])
            labels.append(_Line.model_validate(cells | {"line": place}).labels())
        except ValueError:
            raise DataError(
                f"{path}:{number}: expected {len(header)} columns: a line number, and labels 0 or 1"
            ) from None
    return labels


def check_labels(labels: Sequence[LineLabels], lengths: Sequence[tuple[int, int]], name: str) -> None:
    """Check that labels are those of a text.

    Args:
        labels: The labels.
        lengths: Numbers of characters of each source sentence and of its translation.
        name: Name of the labels in messages.

    Raises:
        DataError: if a line or span is out of range, or a line is labeled twice; names the line.
    """
    seen: set[int] = set()
    for label in labels:
        if not 1 <= label.line <= len(lengths):
            raise DataError(f"{name}: line {label.line} is labeled, but the text has {len(lengths)} lines")
        if label.line in seen:
            raise DataError(f"{name}: line {label.line} is labeled twice")
        seen.add(label.line)
        for error, spans in label.spans.items():
            side = "source" if error == "omission" else "translation"
            length = lengths[label.line - 1][side == "translation"]
            for first, last in spans:
                if not 0 <= first < last <= length:
                    raise DataError(
                        f"{name}: line {label.line}: the span [{first}, {last}] of {WORD_KEYS[error]!r} is "
                        f"not within the {length} characters of the {side}"
                    )


def labeled_words(words: Sequence[Span], spans: Iterable[Span]) -> np.ndarray:
    """Return for each word, given by its span, whether labeled spans of characters overlap with it."""
    labeled = np.zeros(len(words), dtype=bool)
    if not len(words):
        return labeled
    starts, ends = np.array(words, dtype=np.int64).T
    for first, last in spans:
        labeled |= (starts < last) & (ends > first)
    return labeled
