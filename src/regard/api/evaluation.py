"""Evaluation of translations against references: `regard.evaluate`, with corpus and sentence scores.

result = regard.evaluate(translations, references)
result.bleu
result.to_pandas()
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.api.arguments import TextSource, as_list, as_texts, read_texts
from regard.data.links import Links, check_links
from regard.data.whitespace import split_whitespace
from regard.errors import DataError, UsageError
from regard.metrics.base import (
    DEFAULT_REPETITION,
    METRICS,
    Estimate,
    MetricInput,
    bootstrap,
    paired_bootstrap,
)
from regard.metrics.translation import check_tokenizer
from regard.results import Result, finite

__all__ = [
    "DropLinks",
    "Evaluation",
    "EvaluationOptions",
    "MetricScore",
    "SystemComparison",
    "evaluate",
    "score_systems",
]


@dataclass(frozen=True)
class EvaluationOptions:
    """The settings of an evaluation.

    Attributes:
        tokenize: Tokenizer for BLEU and REP: `13a`, `none` (for tokenized text), `intl`, `char`, `zh`...
        lowercase: Whether to ignore case. TER and METEOR always do.
        rep_parameters: For REP: n-gram size, weight of an excess n-gram, weight of an immediately repeated
            word.
        num_bootstrap_samples: Number of bootstrap samples.
        seed: Random seed of the bootstrap.
    """

    tokenize: str = "13a"
    lowercase: bool = False
    rep_parameters: tuple[int, float, float] = DEFAULT_REPETITION
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
class DropLinks:
    """Word links for DROP: those of each source sentence with each text, computed by the same aligner.

    The links of a sentence are a set of pairs (source, target), or an array as in `Translation.alignment`.

    Attributes:
        reference: Links with the reference.
        hypothesis: Links with the translation.
        baseline: Links with the other system's translation, if there is one.
    """

    reference: Sequence[Any]
    hypothesis: Sequence[Any]
    baseline: Sequence[Any] | None = None

    def check(self, sources: Sequence[str] | None, num_sentences: int) -> tuple[list[Links], list[Links]]:
        """Return the links of the references, repeated for each system, and the links of all systems.

        Args:
            sources: The source text, whose words the links must not exceed. None skips this check.
            num_sentences: Number of sentences.

        Raises:
            DataError: if the numbers of sentences differ, or a link points beyond its sentence.
        """
        parts = [one for one in (self.reference, self.hypothesis, self.baseline) if one is not None]
        checked = [[frozenset((int(i), int(j)) for i, j in each) for each in part] for part in parts]
        for part in checked:
            if len(part) != num_sentences:
                raise DataError(
                    f"links of {len(part)} sentences, but there are {num_sentences} hypotheses: they must "
                    "match"
                )
            for number, own in enumerate(part, 1):
                words = None if sources is None else len(split_whitespace(sources[number - 1]))
                check_links(own, {"source": words, "target": None}, f"links of sentence {number}")
        reference, *systems = checked
        # DROP of each system is computed against the same links of the reference.
        return reference * len(systems), [own for part in systems for own in part]


@dataclass(frozen=True)
class SystemComparison:
    """Comparison with another system, the baseline.

    Attributes:
        baseline: Score of the baseline.
        difference: Score of the baseline minus that of this system.
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
            difference = self.comparison.difference
            row |= {
                "baseline": self.comparison.baseline.value,
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
    """

    schema = "evaluation"
    scores: dict[str, MetricScore]
    hypotheses: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    sources: tuple[str, ...] | None
    options: EvaluationOptions

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
        """Return the settings, the row of each metric, and the sentence scores by metric."""
        rows = [
            {key: finite(value) if isinstance(value, float) else value for key, value in row.items()}
            for row in self.rows()
        ]
        return {
            "num_sentences": len(self.hypotheses),
            **dataclasses.asdict(self.options) | {"rep_parameters": list(self.options.rep_parameters)},
            "metrics": rows,
            "sentence_scores": {
                name: [finite(value) for value in score.sentence_scores.tolist()]
                for name, score in self.scores.items()
            },
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
        shown = ", ".join(f"{score.label} {score.score:.2f}" for score in self.scores.values())
        return f"Evaluation({shown}; {len(self.hypotheses)} sentences)"


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
    names = _metric_names(metrics)
    first = read_texts(hypotheses, "hypotheses")
    truths = _references(references)
    systems = [first] if baseline is None else [first, read_texts(baseline, "baseline")]
    given = None if sources is None else read_texts(sources, "sources")
    for name, lines in (("baseline", systems[-1]), ("sources", first if given is None else given)):
        if len(lines) != len(first):
            raise DataError(
                f"{name} has {len(lines)} sentences but hypotheses has {len(first)}: both must have the same "
                "number"
            )
    _check_links_needed(links, "drop" in names, baseline is not None)
    drops = None if links is None else links.check(given, len(first))
    scores = score_systems(systems, truths, names, drops, options)
    texts = None if given is None else tuple(given)
    return Evaluation(scores, tuple(first), tuple(map(tuple, truths)), texts, options)


def score_systems(
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Iterable[str],
    drops: tuple[Sequence[Links], Sequence[Links]] | None,
    options: EvaluationOptions,
) -> dict[str, MetricScore]:
    """Return the scores of one system, or of one system compared with another.

    Args:
        systems: Translations of one or two systems, with the same number of sentences.
        references: One or more sets of references.
        metrics: Names of metrics.
        drops: For DROP: links of the references and of the outputs, first those of the first system.
        options: The settings.

    Raises:
        DataError: if the numbers of sentences differ or there is no sentence.
        UsageError: if a metric needs an argument or a package that is missing.
    """
    # Both systems are counted in one call, because METEOR takes long to start.
    data = MetricInput(
        [line for lines in systems for line in lines],
        [list(lines) * len(systems) for lines in references],
        options.tokenize,
        options.lowercase,
        options.rep_parameters,
        drops,
    )
    return {name: _score(name, data, len(systems), options) for name in metrics}


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
        paired = paired_bootstrap(rows, others[0], counts.aggregate, *samples)
        estimate = paired.first
        comparison = SystemComparison(paired.other, paired.difference, paired.p_value)
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


def _metric_names(given: str | Iterable[str]) -> list[str]:
    listed = given.split(",") if isinstance(given, str) else as_list(given, "metrics")
    names = list(dict.fromkeys(str(name).strip().lower() for name in listed))
    unknown = [name for name in names if METRICS.get(name) is None]
    if unknown or not names:
        raise UsageError(f"metrics={given!r}: expected some of {', '.join(METRICS.names())}")
    return names


def _references(given: Iterable[Any] | Path | str) -> list[list[str]]:
    """Return one or more sets of references."""
    if isinstance(given, Path | str):
        return [read_texts(given, "references")]
    found = as_list(given, "references")
    # Within a list, only a `Path` is a file: a string is a reference.
    if found and all(isinstance(each, list | tuple | Path) for each in found):
        return [read_texts(each, f"reference {number}") for number, each in enumerate(found, 1)]
    return [as_texts(found, "references")]


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
