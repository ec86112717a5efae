"""The result of an evaluation: scores with intervals, comparisons and sentence scores."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.config.results import Result, json_value
from regard.errors import UsageError
from regard.metrics.base import Estimate
from regard.metrics.translation import check_tokenizer


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
        """Reject an unknown tokenizer and fewer than two bootstrap samples."""
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

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per score: its name, its value, and the interval of the AER."""
        intervals = {"aer": {"low": self.aer_low, "high": self.aer_high}}
        nothing = {"low": None, "high": None}
        return [
            {"metric": name, "score": getattr(self, name), **intervals.get(name, nothing)}
            for name in ("precision", "recall", "aer")
        ]


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
