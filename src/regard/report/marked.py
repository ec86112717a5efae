"""A translation with its faults marked, for a terminal or as plain text.

Under each source word stands the attention it got and, behind a slash, its fertility. Brackets stand around
what was dropped or said again, so that it reads without colours too.
"""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from regard.report.grid import clip_label, printable
from regard.report.worst import NEGLECTED, Received, Sentence

__all__ = ["LEGEND", "marked_lines"]

LEGEND = (
    f"[word]: dropped, or said again; attention/fertility, !: hardly any (below {NEGLECTED:g}), "
    "+: more than its share"
)

_LABEL = 11  # cells
_HEAD, _QUIET = Style(bold=True), Style(dim=True)
_DROPPED, _REPEATED = Style(color="red", bold=True), Style(color="magenta", bold=True)
_NEGLECTED, _EXCESSIVE = Style(color="red"), Style(color="yellow")

Column = tuple[Text, ...]


def marked_lines(sentence: Sentence, width: int | None = None) -> Iterator[Text]:
    """Draw a sentence.

    Args:
        sentence: The sentence.
        width: Cells a line may take; what is longer goes on below. Without it lines are as long as they are.

    Yields:
        Its lines; `.plain` is what they are without colours.
    """
    yield _head(sentence)
    source = ("source", "attention") if sentence.received else ("source",)
    # Words with nothing below them stand as in text.
    yield from _rows(_source(sentence), source, len(source), width)
    yield from _rows(_words(sentence.reference, frozenset(), Style()), ("reference",), 1, width)
    yield from _rows(_words(sentence.output, sentence.repeated, _REPEATED), ("output",), 1, width)
    said = [f"{ngram} (+{times})" for ngram, times in sentence.ngrams.items()]
    said += [f"{word} doubled (+{times})" for word, times in sentence.doubles.items()]
    if said:
        yield from _rows([(Text(printable(part)),) for part in said], ("repeated",), 2, width)


def _head(sentence: Sentence) -> Text:
    parts = []
    if sentence.dropped:
        parts.append(f"{len(sentence.dropped)} dropped")
    if sentence.sigma:
        parts.append(f"{sentence.sigma:g} for repetitions")
    score = f"line {sentence.line}: {sentence.badness:g}"
    return Text.assemble((score, _HEAD), f" = {' + '.join(parts)}" if parts else "", no_wrap=True)


def _source(sentence: Sentence) -> list[Column]:
    columns = _words(sentence.source, frozenset(sentence.dropped), _DROPPED)
    received = sentence.received
    if received is None:
        return columns
    columns = [(*column, _attention(received, place)) for place, column in enumerate(columns)]
    if received.sink is not None:
        columns.append((Text("<sink>", _QUIET), Text(f"{received.sink:.2f}", _QUIET)))
    return columns


def _words(words: Sequence[str], marked: frozenset[int], style: Style) -> list[Column]:
    return [
        (Text(f"[{printable(word)}]", style) if place in marked else Text(printable(word)),)
        for place, word in enumerate(words)
    ]


def _attention(received: Received, place: int) -> Text:
    """Such as `0.03/2!`."""
    shown = f"{received.attention[place]:.2f}"
    if received.fertility is not None:
        shown += f"/{received.fertility[place]:.3g}"
    if place in received.neglected:
        return Text(f"{shown}!", _NEGLECTED)
    return Text(f"{shown}+", _EXCESSIVE) if place in received.excessive else Text(shown, _QUIET)


def _rows(columns: Sequence[Column], labels: Sequence[str], gap: int, width: int | None) -> Iterator[Text]:
    """Columns side by side, as many as fit; the others in rows below."""
    room = None if width is None else max(width - _LABEL, 1)
    names = labels
    for block in _blocks(columns, room, gap):
        for row, name in enumerate(names):
            line = Text.assemble((f"{name:<{_LABEL}}", _QUIET), no_wrap=True)
            for column in block:
                line.append_text(column[row])
                line.append(" " * (_cells(column) - column[row].cell_len + gap))
            line.rstrip()
            yield line
        names = ("",) * len(labels)


def _blocks(columns: Sequence[Column], room: int | None, gap: int) -> Iterator[list[Column]]:
    """The columns of one row after the other; there is one row at least."""
    block: list[Column] = []
    taken = 0
    for column in columns:
        if room is not None and _cells(column) > room:
            column = tuple(Text(clip_label(text.plain, room), text.style) for text in column)
        if block and room is not None and taken + _cells(column) > room:
            yield block
            block, taken = [], 0
        block.append(column)
        taken += _cells(column) + gap
    yield block


def _cells(column: Column) -> int:
    return max(cell_len(text.plain) for text in column)
