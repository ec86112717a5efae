"""The text output of `regard analyze`: sentences with their errors marked, and tables.

Below each source word is the attention it received and, after a slash, its fertility. Dropped and repeated
words are in brackets, so that they are visible without color.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from regard.analysis.attention import AttentionAnalysis
from regard.analysis.errors import ErrorAnalysis, SentenceErrors
from regard.analysis.faithfulness import FaithfulnessAnalysis
from regard.analysis.length import LengthAnalysis
from regard.metrics.attention import AttentionStatistics
from regard.metrics.by_length import LengthScores, SystemScore
from regard.plot.style import clip_label, printable

_LEGEND = "[word]: dropped or repeated; attention/fertility, +: more than its fertility or twice the mean"

_LINE_WIDTH = 100  # line width in cells if the output is not a terminal
_LABEL = 11  # cells
_HEAD, _QUIET = Style(bold=True), Style(dim=True)
_DROPPED, _REPEATED = Style(color="red", bold=True), Style(color="magenta", bold=True)
_EXCESSIVE = Style(color="yellow")

Column = tuple[Text, ...]
Cells = list[list[str]]
"""A table of cells, whose first row is the header."""


def error_lines(analysis: ErrorAnalysis, num_sentences: int = 0, width: int | None = None) -> Iterator[Text]:
    """Yield lines that show sentences with their errors, and the scores.

    Args:
        analysis: The analysis.
        num_sentences: Number of sentences, from those with the highest number of errors. 0 shows all.
        width: Maximum width of a line in terminal cells. Default: 100.

    Yields:
        The lines; their `.plain` is the text without color.
    """
    sentences = analysis.sentences[: num_sentences or None]
    for sentence in sentences:
        yield from format_errors(sentence, width or _LINE_WIDTH)
        yield Text()
    scores = {"REP": analysis.rep, "DROP": analysis.drop}
    summary = ", ".join(f"{name} {score:.2f}" for name, score in scores.items() if score is not None)
    yield Text(_LEGEND, "dim")
    yield Text(f"{summary}; {len(sentences)} of {len(analysis.sentences)} sentences shown")


def format_errors(sentence: SentenceErrors, width: int | None = None) -> Iterator[Text]:
    """Yield the lines of a sentence with its translation and reference.

    Args:
        sentence: The sentence.
        width: Maximum width of a line in terminal cells; longer lines are wrapped. Default: no limit.

    Yields:
        The lines; their `.plain` is the text without color.
    """
    parts = [f"{len(sentence.dropped)} dropped"] if sentence.dropped else []
    if sentence.repetition_score:
        parts.append(f"{sentence.repetition_score:g} for repetitions")
    score = f"line {sentence.line}: {sentence.num_errors:g}"
    yield Text.assemble((score, _HEAD), f" = {' + '.join(parts)}" if parts else "", no_wrap=True)
    source = ("source", "attention") if sentence.received else ("source",)
    # One space between words, two where numbers are printed below them.
    yield from _rows(_source(sentence), source, len(source), width)
    yield from _rows(_words(sentence.reference, frozenset(), Style()), ("reference",), 1, width)
    yield from _rows(_words(sentence.output, sentence.repeated, _REPEATED), ("output",), 1, width)
    repetitions = [f"{ngram} (+{times})" for ngram, times in sentence.ngrams.items()]
    repetitions += [f"{word} doubled (+{times})" for word, times in sentence.doubled_counts.items()]
    if repetitions:
        yield from _rows([(Text(printable(part)),) for part in repetitions], ("repeated",), 2, width)


def _source(sentence: SentenceErrors) -> list[Column]:
    columns = _words(sentence.source, frozenset(sentence.dropped), _DROPPED)
    received = sentence.received
    if received is None:
        return columns
    for place, (word,) in enumerate(columns):
        # The attention and the fertility of a word, such as `2.03/2+`.
        label = f"{received.attention[place]:.2f}"
        if received.fertility is not None:
            label += f"/{received.fertility[place]:.3g}"
        excessive = place in received.excessive
        columns[place] = (word, Text(f"{label}+", _EXCESSIVE) if excessive else Text(label, _QUIET))
    if received.sink is not None:
        columns.append((Text("<sink>", _QUIET), Text(f"{received.sink:.2f}", _QUIET)))
    return columns


def _words(words: Sequence[str], marked: frozenset[int], style: Style) -> list[Column]:
    return [
        (Text(f"[{printable(word)}]", style) if place in marked else Text(printable(word)),)
        for place, word in enumerate(words)
    ]


def _rows(columns: Sequence[Column], labels: Sequence[str], gap: int, width: int | None) -> Iterator[Text]:
    """Yield columns side by side, wrapped to the width."""
    # At least one cell remains for words, even on a very narrow terminal.
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
        # A column that is wider than the line would not fit on any line, so it is cut.
        if room is not None and _cells(column) > room:
            column = tuple(Text(clip_label(text.plain, room), text.style) for text in column)
        if block and room is not None and taken + _cells(column) > room:
            yield block
            block, taken = [], 0
        block.append(column)
        taken += _cells(column) + gap
    # A sentence without words has one empty block, so its label is still printed.
    yield block


def _cells(column: Column) -> int:
    return max(cell_len(text.plain) for text in column)


# Attention


def attention_tables(analysis: AttentionAnalysis) -> list[Cells]:
    """Return three tables: all statistics, time steps by entropy, and sentences by coverage."""
    return [_summary(analysis), _entropy_bins(analysis.statistics), _coverage_bins(analysis.statistics)]


def _summary(analysis: AttentionAnalysis) -> Cells:
    """Return the table of all statistics; its first row is the header."""
    statistics = analysis.statistics.values()
    scored = any(stats.alignment is not None for stats in statistics)
    head = ["model", "lines", "steps", "perplexity", "accuracy %", "entropy", "support", "coverage %"]
    rows = [[*head, *(["AER %", "1 - AER"] if scored else [])]]
    for name, model in analysis.models.items():
        stats = model.statistics
        row = [name, str(stats.sentences), str(stats.steps)]
        row += ["" if model.perplexity is None else f"{model.perplexity:.3f}", f"{100 * stats.accuracy:.2f}"]
        row += [f"{stats.entropy:.4f}", f"{stats.support:.2f}", f"{100 * stats.coverage:.2f}"]
        if stats.alignment is not None:
            row += [f"{100 * stats.alignment.aer:.2f}", f"{1 - stats.alignment.aer:.3f}"]
        rows.append(row)
    return rows


def _entropy_bins(models: Mapping[str, AttentionStatistics]) -> Cells:
    """Return the table of time steps by entropy; its first row is the header."""
    rows = [["entropy", *(f"{name} {what}" for name in models for what in ("steps %", "accuracy %"))]]
    # The number of bins differs between models: it depends on the largest entropy of each.
    edges = max((stats.entropies.edges for stats in models.values()), key=len)
    for b, (low, high) in enumerate(pairwise(edges)):
        row = [f"{low:g} to {high:g}"]
        for stats in models.values():
            here = b < len(stats.entropies.counts) and stats.entropies.counts[b] > 0
            shares = (stats.entropies.shares[b], stats.entropies.accuracy[b]) if here else ()
            row += [f"{100 * share:.2f}" for share in shares] or ["0.00", ""]
        rows.append(row)
    return rows


def _coverage_bins(models: Mapping[str, AttentionStatistics]) -> Cells:
    """Return the table of sentences by coverage; its first row is the header."""
    rows = [["coverage %", *(f"{name} sentences %" for name in models)]]
    # Coverage is in [0, 1], so all models have the same bins; empty rows are omitted.
    bins = [stats.coverages for stats in models.values()]
    for b, (low, high) in enumerate(pairwise(bins[0].edges)):
        row = [
            f"{100 * low:g} to {100 * high:g}",
            *(f"{100 * histogram.shares[b]:.2f}" for histogram in bins),
        ]
        if any(histogram.counts[b] for histogram in bins):
            rows.append(row)
    return rows


# Faithfulness


def faithfulness_tables(analysis: FaithfulnessAnalysis) -> list[Cells]:
    """Return a table with one row per model and kind of map; falls are in percentage points."""
    rows = [["model", "map", "tokens", "most attributed", "random", "difference", "95 %", "largest"]]
    for name, model in analysis.models.items():
        for kind, faithfulness in model.maps.items():
            difference = faithfulness.difference
            cells = [
                f"{estimate.value:.2f}"
                for estimate in (faithfulness.most_attributed, model.random, difference)
            ]
            cells += [f"{difference.low:.2f} to {difference.high:.2f}", f"{model.largest.value:.2f}"]
            rows.append([name, kind, str(model.num_tokens), *cells])
    return [rows]


# Scores by length


def length_tables(analysis: LengthAnalysis) -> list[Cells]:
    """Return one table per metric: one row per length bucket, and a last row for all sentences."""
    return [
        _length_rows(analysis, {name: system.scores[metric] for name, system in analysis.systems.items()})
        for metric in next(iter(analysis.systems.values())).scores
    ]


def _length_rows(analysis: LengthAnalysis, systems: Mapping[str, LengthScores]) -> Cells:
    """Return the table of one metric; its first row is the header."""
    first = next(iter(systems))
    head = ["words", "sentences"]
    for name, system in systems.items():
        head += [f"{name} {system.name}", "95 %"] + ([] if name == first else [f"- {first}", "p"])
    rows = [head]
    labels = [*((bucket.label, len(bucket.sentence_ids)) for bucket in analysis.buckets)]
    scores = [(*system.buckets, system.total) for system in systems.values()]
    for b, (label, size) in enumerate([*labels, ("all", len(analysis.lengths))]):
        cells = [_score_cells(system_scores[b], is_baseline=i == 0) for i, system_scores in enumerate(scores)]
        rows.append([label, str(size), *(cell for system_cells in cells for cell in system_cells)])
    return rows


def _score_cells(score: SystemScore | None, is_baseline: bool) -> list[str]:
    """Return score and interval and, for systems after the first, difference and p-value."""
    cells = [""] * (2 if is_baseline else 4)
    if score is None:
        return cells
    cells[0] = f"{score.value:.2f}"
    if score.interval is not None:
        cells[1] = "{:.2f} to {:.2f}".format(*score.interval)
    if score.difference is not None and score.p_value is not None:
        cells[2:] = [f"{score.difference.value:+.2f}", f"{score.p_value:.3f}"]
    return cells
