"""Evaluation of translations against references: `regard.evaluate`, with corpus and sentence scores.

result = regard.evaluate(translations, references)
result.bleu
result.to_pandas()
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.api.arguments import TextSource, as_list, check_num_lines, read_texts
from regard.api.links import DropLinks, LinkEvaluation
from regard.api.score_totals import ScoreTotals
from regard.config.results import Result, json_value
from regard.errors import UsageError
from regard.metrics.base import (
    METRICS,
    Estimate,
    MetricInput,
    bootstrap,
    paired_bootstrap,
)
from regard.metrics.translation import check_tokenizer, looks_tokenized
from regard.text.links import Links

__all__ = [
    "Evaluation",
    "EvaluationOptions",
    "MetricScore",
    "SystemComparison",
    "evaluate",
    "metric_names",
]


@dataclass(frozen=True)
class EvaluationOptions:
    """The settings of an evaluation.

    Attributes:
        tokenize: Tokenizer for BLEU and REP: `13a`, `none` (for tokenized text), `intl`, `char`, `zh`... For
            TER, see `regard.metrics.translation.count_statistics`.
        lowercase: Whether to ignore case. TER and METEOR always do.
        num_bootstrap_samples: Number of bootstrap samples.
        seed: Random seed of the bootstrap.
    """

    tokenize: str = "13a"
    lowercase: bool = False
    num_bootstrap_samples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: if there is no such tokenizer, or there are fewer than two bootstrap samples.
        """
        check_tokenizer(self.tokenize)
        if self.num_bootstrap_samples < 2:
            raise UsageError(f"num_bootstrap_samples={self.num_bootstrap_samples}: expected at least 2")


@dataclass(frozen=True)
class SystemComparison:
    """Comparison with another system, the baseline.

    Attributes:
        baseline: Score of the baseline.
        difference: Score of this system minus that of the baseline.
        p_value: Two-sided p-value of the difference.
    """

    baseline: Estimate
    difference: Estimate
    p_value: float


@dataclass(frozen=True)
class MetricScore:
    """Score of a text by one metric.

    Attributes:
        name: Name of the metric, as registered in `METRICS`.
        label: Label in tables.
        score: Score of the whole text, on the scale of the metric (mostly 0 to 100).
        low: Lower end of the 95 % interval.
        high: Upper end of the 95 % interval.
        signature: Settings and version that make the score comparable.
        sentence_scores: [n], score of each sentence, computed as if it were the whole text.
        comparison: Comparison with another system, if there is one.
    """

    name: str
    label: str
    score: float
    low: float
    high: float
    signature: str
    sentence_scores: Float[np.ndarray, "n"]
    comparison: SystemComparison | None = None

    def row(self) -> dict[str, Any]:
        """Return one row of a table, without `sentence_scores`."""
        single = ("label", "score", "low", "high")
        row: dict[str, Any] = {"metric": self.name} | {name: getattr(self, name) for name in single}
        if self.comparison is not None:
            baseline, difference = self.comparison.baseline, self.comparison.difference
            row |= {
                "baseline": baseline.value,
                "baseline_low": baseline.low,
                "baseline_high": baseline.high,
                "difference": difference.value,
                "difference_low": difference.low,
                "difference_high": difference.high,
                "p_value": self.comparison.p_value,
            }
        return row | {"signature": self.signature}


@dataclass(frozen=True, repr=False)
class Evaluation(Result, Mapping[str, MetricScore]):
    """Scores of a text, a mapping from metric names to `MetricScore`.

    `result["bleu"].low` is the lower end of an interval, and `result.bleu` is the score alone.

    Attributes:
        scores: Score by metric, in the requested order.
        hypotheses: The translations.
        references: One or more sets of references.
        sources: The source text, if given.
        options: The settings.
        files: Names of the files of the texts and links, by argument of `evaluate`. A text from Python has
            none.
        word_links: Agreement of word links with gold links, if it was computed as well.
        token_scores: Sums of the log-probabilities of a text, if they were computed as well.
        notes: Notes for the reader, one sentence each.
    """

    schema = "evaluation"
    scores: dict[str, MetricScore] = field(default_factory=dict)
    hypotheses: tuple[str, ...] = ()
    references: tuple[tuple[str, ...], ...] = ()
    sources: tuple[str, ...] | None = None
    options: EvaluationOptions = field(default_factory=EvaluationOptions)
    files: Mapping[str, list[str]] = field(default_factory=dict)
    word_links: LinkEvaluation | None = None
    token_scores: ScoreTotals | None = None
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> MetricScore:
        """Return the score by a metric."""
        return self.scores[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the metrics."""
        return iter(self.scores)

    def __len__(self) -> int:
        """Return the number of metrics."""
        return len(self.scores)

    def __getattr__(self, name: str) -> float:
        """Return the score by a metric as a number."""
        # `scores` is read through __dict__, because it is missing while the object is being unpickled.
        if name in self.__dict__.get("scores", {}):
            return self.scores[name].score
        known = ", ".join(self.__dict__.get("scores", {}))
        raise AttributeError(f"no {name!r} in this evaluation; available metrics: {known}")

    def __dir__(self) -> list[str]:
        """Return the attributes, including the names of the metrics."""
        return sorted({*super().__dir__(), *self.scores})

    def to_data(self) -> dict[str, Any]:
        """Return the settings, the row of each metric, the sentence scores by metric, and the other parts."""
        rows = [json_value(row) for row in self.rows()]
        return {
            "files": dict(self.files),
            "num_sentences": len(self.hypotheses),
            **dataclasses.asdict(self.options),
            "metrics": rows,
            "sentence_scores": {
                name: json_value(score.sentence_scores.tolist()) for name, score in self.scores.items()
            },
            "word_links": None if self.word_links is None else self.word_links.to_data(),
            "token_scores": None if self.token_scores is None else self.token_scores.to_data(),
            "notes": list(self.notes),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per metric: name, score, interval, signature, and the comparison if there is one."""
        return [score.row() for score in self.scores.values()]

    def sentences(self) -> list[dict[str, Any]]:
        """Return one row per sentence: its number (from 1), its texts, and its score by each metric.

        Of several references, the first is shown. The BLEU of a sentence of fewer than four words is 0, as
        for a corpus that consists of this sentence.
        """
        rows = []
        for i, hypothesis in enumerate(self.hypotheses):
            texts = {} if self.sources is None else {"source": self.sources[i]}
            texts |= {"hypothesis": hypothesis, "reference": self.references[0][i]}
            scores = {name: float(score.sentence_scores[i]) for name, score in self.scores.items()}
            rows.append({"sentence": i + 1, **texts, **scores})
        return rows

    def __repr__(self) -> str:
        """Return a summary of the scores."""
        summary = ", ".join(f"{score.label} {score.score:.2f}" for score in self.scores.values())
        return f"Evaluation({summary}; {len(self.hypotheses)} sentences)"


def evaluate(
    hypotheses: TextSource,
    references: Iterable[Any] | Path | str,
    sources: TextSource | None = None,
    *,
    metrics: str | Iterable[str] = ("bleu", "chrf", "ter"),
    baseline: TextSource | None = None,
    links: DropLinks | None = None,
    options: EvaluationOptions | None = None,
) -> Evaluation:
    """Score translations with 95 % confidence intervals (Koehn 2004), as `regard evaluate` does.

    Args:
        hypotheses: Translations: strings, results of `Model.translate`, or a file.
        references: One reference per translation, as a list or a file, or several sets of references as a
            list of lists or of files (`Path`).
        sources: Source text. It is included in the rows of sentences, and word links are checked against it.
        metrics: Names of metrics, as a list or separated by commas: bleu, chrf, ter, rep, drop, meteor
            (English, needs Java), accuracy (exact matches) and edits (character edits).
        baseline: Translations of another system, for a paired comparison.
        links: Word links, for DROP.
        options: Tokenizer, case, parameters of REP, and the bootstrap.

    Raises:
        DataError: if the numbers of sentences differ, there is no sentence, or a link points beyond its
            sentence.
        UsageError: if a metric or the tokenizer is unknown, or needs an argument or a package that is
            missing.
    """
    options = options or EvaluationOptions()
    names = metric_names(metrics)
    _check_links_needed(links, "drop" in names, baseline is not None)
    first, truths = _text(hypotheses, "hypotheses"), _references(references)
    other = None if baseline is None else _text(baseline, "baseline")
    source = None if sources is None else _text(sources, "sources")
    for text in (*truths, other, source):
        if text is not None:
            check_num_lines(text.name, len(text.lines), first.name, len(first.lines))
    systems = [first] if other is None else [first, other]
    data = MetricInput(
        # Both systems are counted in one call, because METEOR takes long to start.
        [line for text in systems for line in text.lines],
        [truth.lines * len(systems) for truth in truths],
        options.tokenize,
        options.lowercase,
        None if links is None else _read_drop_links(links, source, [truths[0], *systems], options),
    )
    named = {"hypotheses": [first], "references": truths, "baseline": [other], "sources": [source]}
    files = {name: [text.file for text in texts if text and text.file] for name, texts in named.items()}
    files |= {} if links is None else links.files()
    return Evaluation(
        {name: _score(name, data, len(systems), options) for name in names},
        tuple(first.lines),
        tuple(tuple(truth.lines) for truth in truths),
        None if source is None else tuple(source.lines),
        options,
        {name: paths for name, paths in files.items() if paths},
        notes=_tokenized_notes(systems, options.tokenize) if "bleu" in names else (),
    )


def _score(name: str, data: MetricInput, num_systems: int, options: EvaluationOptions) -> MetricScore:
    """Return the score of the first system by a metric, compared with the second if there are two."""
    metric = METRICS.get(name)
    assert metric is not None, name  # the caller has checked the name
    counts = metric.count(data)
    if len(counts.rows) != len(data.outputs):
        raise UsageError(
            f"metric {name!r}: {len(counts.rows)} rows of counts for {len(data.outputs)} sentences; "
            "expected one row per sentence"
        )
    rows, *others = np.split(counts.rows, num_systems)
    comparison, samples = None, (options.num_bootstrap_samples, options.seed)
    if others:
        paired = paired_bootstrap(others[0], rows, counts.aggregate, *samples)
        estimate = paired.other
        comparison = SystemComparison(paired.first, paired.difference, paired.p_value)
    else:
        estimate = bootstrap(rows, counts.aggregate, *samples)
    return MetricScore(
        name,
        metric.label,
        estimate.value,
        estimate.low,
        estimate.high,
        counts.signature,
        counts.aggregate(rows),
        comparison,
    )


def metric_names(given: str | Iterable[str], argument: str = "metrics") -> list[str]:
    """Return the names of metrics, each once.

    Args:
        given: The names, as a list or separated by commas.
        argument: Name of the argument or option, for messages.

    Raises:
        UsageError: if there is no such metric, or no name.
    """
    listed = given.split(",") if isinstance(given, str) else as_list(given, argument)
    # A repeated name would only compute the same metric again.
    names = list(dict.fromkeys(name for metric in listed if (name := str(metric).strip().lower())))
    if not names or not all(METRICS.get(name) for name in names):
        raise UsageError(f"{argument} {given!r}: expected one or more of {', '.join(METRICS.names())}")
    return names


@dataclass(frozen=True)
class _Text:
    """A text of the evaluation: its name in messages, its file if it has one, and its sentences."""

    name: str
    file: str | None
    lines: list[str]


def _text(given: TextSource, argument: str) -> _Text:
    file = str(given) if isinstance(given, Path | str) else None
    return _Text(file or argument, file, read_texts(given, argument))


def _references(given: Iterable[Any] | Path | str) -> list[_Text]:
    """Return one or more sets of references."""
    if isinstance(given, Path | str):
        return [_text(given, "references")]
    references = as_list(given, "references")
    # Within a list, only a `Path` is a file: a string is a reference.
    if references and all(isinstance(each, list | tuple | Path) for each in references):
        return [_text(each, f"reference {number}") for number, each in enumerate(references, 1)]
    return [_text(references, "references")]


def _read_drop_links(
    links: DropLinks, source: _Text | None, texts: Sequence[_Text], options: EvaluationOptions
) -> tuple[list[Links], list[Links]]:
    """Return the links of the references and of all systems; see `DropLinks.read`."""
    # Links count the words of tokenized text, so they can be checked only if the text is tokenized.
    known = [text.lines if options.tokenize == "none" else None for text in texts]
    return links.read(None if source is None else source.lines, known, len(texts[0].lines))


def _tokenized_notes(systems: Sequence[_Text], tokenize: str) -> tuple[str, ...]:
    """Return a note for each system whose text seems to be tokenized although BLEU tokenizes it."""
    return tuple(
        f"{system.name}: many lines end in ' .', so the text may be tokenized. The tokenizer {tokenize} of "
        "BLEU expects detokenized text. Use --tokenize none for tokenized text."
        for system in systems
        if tokenize != "none" and looks_tokenized(system.lines)
    )


def _check_links_needed(links: DropLinks | None, wanted: bool, compared: bool) -> None:
    """Check that there are links if and only if DROP is computed.

    Raises:
        UsageError: if links are missing or have no effect.
    """
    if wanted and (links is None or (compared and links.baseline is None)):
        raise UsageError(
            "links are needed for DROP: pass the word links of the source with each text, computed by the "
            "same aligner"
        )
    if links is not None and (not wanted or (links.baseline is not None and not compared)):
        raise UsageError(
            "links have no effect without the metric drop, or those of a missing baseline; omit them"
        )
