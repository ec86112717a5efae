"""Word links from files or Python: `regard.evaluate_links` compares them with gold links."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.api.arguments import TextSource, as_list, check_num_lines, read_texts, source_name
from regard.config.results import Result
from regard.metrics.alignment import aer_from_counts, alignment_score, count_links
from regard.metrics.base import bootstrap
from regard.text.corpus import read_lines
from regard.text.links import GoldLinks, Links, check_links, parse_gold_links, parse_links
from regard.text.words import split_whitespace

__all__ = ["LinkEvaluation", "LinkSource", "check_rows", "evaluate_links", "read_drop_links", "read_links"]

LinkSource = Path | str | Iterable[Any]
"""Word links: a file in the Pharaoh format, `Alignments`, or the links of each sentence pair.

The links of a pair are pairs of positions, or an array as in `Translation.alignment`.
"""
_Parsed = TypeVar("_Parsed", Links, GoldLinks)


@dataclass(frozen=True)
class LinkEvaluation(Result):
    """Agreement of word links with gold links (Och & Ney, 2003). Each score is between 0 and 1.

    Attributes:
        num_pairs: Number of sentence pairs.
        precision: Share of the links that are possible links.
        recall: Share of the sure links that are found.
        aer: Alignment error rate; lower is better.
        aer_low: Lower end of its 95 % interval.
        aer_high: Upper end of its 95 % interval.
    """

    schema = "link_evaluation"
    num_pairs: int
    precision: float
    recall: float
    aer: float
    aer_low: float
    aer_high: float

    def to_data(self) -> dict[str, Any]:
        """Return all fields."""
        return dataclasses.asdict(self)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per score: its name, its value, and the interval of the AER."""
        intervals = {"aer": {"low": self.aer_low, "high": self.aer_high}}
        nothing = {"low": None, "high": None}
        return [
            {"metric": name, "score": getattr(self, name), **intervals.get(name, nothing)}
            for name in ("precision", "recall", "aer")
        ]


def evaluate_links(
    links: LinkSource,
    gold: Path | str | Iterable[GoldLinks | str],
    *,
    sources: TextSource | None = None,
    targets: TextSource | None = None,
    num_bootstrap_samples: int = 1000,
    seed: int = 0,
) -> LinkEvaluation:
    """Compare word links with gold links: precision, recall and alignment error rate (Och & Ney, 2003).

    Args:
        links: The links to evaluate.
        gold: A file in the `.talp` format (`i-j` sure, `ipj` possible), or the gold links of each pair.
        sources: The source sentences, whose words the links must not exceed.
        targets: The target sentences, likewise.
        num_bootstrap_samples: Number of bootstrap samples of the interval.
        seed: Random seed of the bootstrap.

    Raises:
        DataError: if a file cannot be read, the numbers of pairs differ, or a link points beyond its
            sentence.
    """
    texts = {"source": sources, "target": targets}
    lengths = {side: _count_words(text, f"{side}s") for side, text in texts.items()}
    truth, gold_name = read_links(gold, "gold", parse_gold_links)
    predicted, name = read_links(links, "links", parse_links)
    # Different lengths are reported first: the links of unrelated texts would give misleading errors.
    check_num_lines(name, len(predicted), gold_name, len(truth))
    for side, text in texts.items():
        if text is not None:
            check_num_lines(source_name(text, f"{side}s"), len(lengths[side] or ()), gold_name, len(truth))
    # Sure links are possible links as well.
    check_rows([true.possible for true in truth], lengths, gold_name)
    check_rows(predicted, lengths, name)
    score = alignment_score(predicted, truth)
    error = bootstrap(count_links(predicted, truth), aer_from_counts, num_bootstrap_samples, seed)
    return LinkEvaluation(
        len(truth), score.precision, score.recall, score.aer, float(error.low), float(error.high)
    )


def read_drop_links(
    links: Mapping[str, LinkSource],
    sources: Sequence[str] | None,
    texts: Sequence[Sequence[str] | None],
    lines: tuple[str, int],
) -> tuple[list[Links], list[Links]]:
    """Return the links of the references, repeated for each system, and the links of all systems, for DROP.

    Args:
        links: The links of the source with the references and with the translations of each system, by
            name; all by the same aligner.
        sources: The source text, whose words the links must not exceed. None skips this check.
        texts: The references and the translations of each system, which are checked in the same way. None
            for a text whose words are not known.
        lines: The name and the number of lines of the translations.

    Raises:
        DataError: if a file cannot be read, the numbers of sentences differ, or a link points beyond its
            sentence.
    """
    parts: list[list[Links]] = []
    for (name, link_source), text in zip(links.items(), texts, strict=True):
        link_sets, name = read_links(link_source, name, parse_links)
        check_num_lines(name, len(link_sets), *lines)
        lengths = {"source": _count_words(sources, "sources"), "target": _count_words(text, "targets")}
        check_rows(link_sets, lengths, name)
        parts.append(link_sets)
    reference, *systems = parts
    # DROP of each system is computed against the same links of the reference.
    return reference * len(systems), [link_set for part in systems for link_set in part]


def read_links(given: Any, name: str, parse: Callable[[str, str], _Parsed]) -> tuple[list[_Parsed], str]:
    """Return the links of each pair, and their name for messages.

    Args:
        given: A file, or the links of each pair, parsed or as lines.
        name: Name of the argument.
        parse: Parses one line, given its name for messages.

    Raises:
        DataError: if the file cannot be read, or a line is not a list of links.
    """
    name = source_name(given, name)
    if isinstance(given, Path | str):
        given = read_lines(given)
    links = []
    for number, row in enumerate(as_list(given, name), 1):
        if isinstance(row, str):
            row = parse(row, f"{name}:{number}")
        # The rows of an array have NumPy integers; these sets are equal to those of a file.
        elif not isinstance(row, GoldLinks):
            row = frozenset((int(i), int(j)) for i, j in row)
        links.append(row)
    return links, name


def _count_words(text: TextSource | None, name: str) -> list[int] | None:
    """Return the number of words of each line, or None without a text."""
    return None if text is None else [len(split_whitespace(line)) for line in read_texts(text, name)]


def check_rows(rows: Sequence[Links], lengths: Mapping[str, list[int] | None], name: str) -> None:
    """Check that the links of each sentence pair are within its sentences.

    Args:
        rows: The links of each pair.
        lengths: Numbers of words of all source and all target sentences. None skips a side.
        name: Name of the links, for messages.

    Raises:
        DataError: if a link points beyond its sentence.
    """
    for row, links in enumerate(rows):
        words = {side: None if counts is None else counts[row] for side, counts in lengths.items()}
        check_links(links, words, f"{name}:{row + 1}")
