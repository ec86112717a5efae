"""Metrics of outputs that are evaluated as a whole, such as inflected forms: accuracy and edits.

    accuracy = 100 * the share of outputs that equal the reference
    edits    = the mean number of characters to insert, delete or replace (Levenshtein, 1966)

White space is normalized to single spaces. Of several references, the closest one counts.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from regard.data.whitespace import normalize_whitespace
from regard.errors import UsageError
from regard.metrics.counts import CorpusScore, SentenceCounts, check_references
from regard.metrics.coverage import percentage
from regard.metrics.registry import MetricInput, register_metric

__all__ = ["TRANSDUCTION_METRICS", "accuracy", "count_transduction", "edit_distance", "edits", "mean_edits"]

TRANSDUCTION_METRICS = ("accuracy", "edits")


def accuracy(
    outputs: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = False
) -> CorpusScore:
    """Compute the percentage of outputs that equal a reference ("0/1 accuracy").

    Args:
        outputs: The outputs.
        references: One or more sets of references.
        lowercase: Whether to ignore case.

    Raises:
        DataError: if the lengths differ or there is no output.
    """
    return count_transduction("accuracy", outputs, references, lowercase).corpus_score()


def edits(
    outputs: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = False
) -> CorpusScore:
    """Compute the mean edit distance in characters; lower is better. See `accuracy` for the arguments."""
    return count_transduction("edits", outputs, references, lowercase).corpus_score()


def count_transduction(
    name: str, outputs: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = False
) -> SentenceCounts:
    """Return the counts of each output for accuracy or edits.

    Args:
        name: `accuracy` or `edits`.
        outputs: The outputs.
        references: One or more sets of references.
        lowercase: Whether to ignore case.

    Raises:
        DataError: if the lengths differ or there is no output.
        UsageError: if the name is unknown.
    """
    if name not in TRANSDUCTION_METRICS:
        raise UsageError(f"unknown metric {name!r}; expected one of {', '.join(TRANSDUCTION_METRICS)}")
    check_references(outputs, references)
    distance: Callable[[str, str], int] = edit_distance if name == "edits" else _same
    choose = min if name == "edits" else max
    plain_outputs = _plain(outputs, lowercase)
    plain_references = zip(*(_plain(lines, lowercase) for lines in references), strict=True)
    rows = [
        (choose(distance(output, reference) for reference in sentence_references), 1)
        for output, sentence_references in zip(plain_outputs, plain_references, strict=True)
    ]
    signature = f"nrefs:{len(references)}|case:{'lc' if lowercase else 'mixed'}"
    aggregate = mean_edits if name == "edits" else percentage
    return SentenceCounts(name, signature, np.array(rows, dtype=np.float64), aggregate)


@register_metric("accuracy", label="accuracy %")
def _accuracy(data: MetricInput) -> SentenceCounts:
    return count_transduction("accuracy", data.outputs, data.references, data.lowercase)


@register_metric("edits", label="edits", higher_is_better=False)
def _edits(data: MetricInput) -> SentenceCounts:
    return count_transduction("edits", data.outputs, data.references, data.lowercase)


def edit_distance(first: str, second: str) -> int:
    """Return the minimum number of character insertions, deletions and replacements between two texts."""
    # Skipping the common prefix saves time, because most outputs are nearly correct.
    shared = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    shared = min(len(first), len(second)) if shared is None else shared
    first, second = first[shared:], second[shared:]
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(second, 1):
            diagonal, row[j] = row[j], min(diagonal + (a != b), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def _same(first: str, second: str) -> int:
    return int(first == second)


def _plain(lines: Sequence[str], lowercase: bool) -> list[str]:
    """Return lines with normalized white space, in lower case if requested."""
    lines = [normalize_whitespace(line) for line in lines]
    return [line.lower() for line in lines] if lowercase else lines


def mean_edits(summed: Float[np.ndarray, "r 2"]) -> Float[np.ndarray, "r"]:
    """Return the mean number of edits per output from rows of summed counts."""
    return summed[:, 0] / np.maximum(summed[:, 1], 1)
