"""Format a translation with its errors marked, for a terminal or as plain text.

Below each source word is the attention it received and, after a slash, its fertility. Dropped and repeated
words are in brackets, so that they are visible without color.
"""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from regard.plotting.colormap import clip_label, printable
from regard.reporting.errors import NEGLECT_THRESHOLD, ReceivedAttention, SentenceErrors

__all__ = ["LEGEND", "format_errors"]

LEGEND = (
    f"[word]: dropped or repeated; attention/fertility, !: little attention (below {NEGLECT_THRESHOLD:g}), "
    "+: more than its fertility or twice the mean"
)

_LABEL = 11  # cells
_HEAD, _QUIET = Style(bold=True), Style(dim=True)
_DROPPED, _REPEATED = Style(color="red", bold=True), Style(color="magenta", bold=True)
_NEGLECTED, _EXCESSIVE = Style(color="red"), Style(color="yellow")

Column = tuple[Text, ...]


def format_errors(sentence: SentenceErrors, width: int | None = None) -> Iterator[Text]:
    """Yield the lines of a sentence with its translation and reference.

    Args:
        sentence: The sentence.
        width: Maximum width of a line in terminal cells; longer lines are wrapped. Default: no limit.

    Yields:
        The lines; their `.plain` is the text without color.
    """
    yield _head(sentence)
    source = ("source", "attention") if sentence.received else ("source",)
    # One space between words, two where numbers are printed below them.
    yield from _rows(_source(sentence), source, len(source), width)
    yield from _rows(_words(sentence.reference, frozenset(), Style()), ("reference",), 1, width)
    yield from _rows(_words(sentence.output, sentence.repeated, _REPEATED), ("output",), 1, width)
    repetitions = [f"{ngram} (+{times})" for ngram, times in sentence.ngrams.items()]
    repetitions += [f"{word} doubled (+{times})" for word, times in sentence.doubled_counts.items()]
    if repetitions:
        yield from _rows([(Text(printable(part)),) for part in repetitions], ("repeated",), 2, width)


def _head(sentence: SentenceErrors) -> Text:
    parts = []
    if sentence.dropped:
        parts.append(f"{len(sentence.dropped)} dropped")
    if sentence.repetition_score:
        parts.append(f"{sentence.repetition_score:g} for repetitions")
    score = f"line {sentence.line}: {sentence.num_errors:g}"
    return Text.assemble((score, _HEAD), f" = {' + '.join(parts)}" if parts else "", no_wrap=True)


def _source(sentence: SentenceErrors) -> list[Column]:
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


def _attention(received: ReceivedAttention, place: int) -> Text:
    """Return the attention and fertility of a word, such as `0.03/2!`."""
    shown = f"{received.attention[place]:.2f}"
    if received.fertility is not None:
        shown += f"/{received.fertility[place]:.3g}"
    if place in received.neglected:
        return Text(f"{shown}!", _NEGLECTED)
    return Text(f"{shown}+", _EXCESSIVE) if place in received.excessive else Text(shown, _QUIET)


def _rows(columns: Sequence[Column], labels: Sequence[str], gap: int, width: int | None) -> Iterator[Text]:
    """Yield columns side by side, wrapped to the width."""
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
    """Yield the columns of each row; there is at least one row."""
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
