"""Evaluation of translations against references: `regard.evaluate`, with corpus and sentence scores.

result = regard.evaluate(outputs, references)
result.bleu
pandas.DataFrame(result.records())
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.api.arguments import as_list, as_texts
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

__all__ = ["Evaluation", "MetricScore", "SystemComparison", "evaluate", "score_systems"]


@dataclass(frozen=True)
class SystemComparison:
    """Comparison with another system.

    Attributes:
        other: Score of the other system.
        difference: Score of the other system minus that of this one.
        p_value: Two-sided p-value of the difference.
    """

    other: Estimate
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

    def to_record(self) -> dict[str, Any]:
        """Return one row of a table, without `sentence_scores`."""
        single = ("label", "score", "low", "high")
        row: dict[str, Any] = {"metric": self.name} | {name: getattr(self, name) for name in single}
        if self.comparison is not None:
            difference = self.comparison.difference
            row |= {
                "other": self.comparison.other.value,
                "difference": difference.value,
                "difference_low": difference.low,
                "difference_high": difference.high,
                "p_value": self.comparison.p_value,
            }
        return row | {"signature": self.signature}


@dataclass(frozen=True)
class Evaluation(Mapping[str, MetricScore]):
    """Scores of a text, a mapping from metric names to `MetricScore`.

    `result["bleu"].low` is the lower end of an interval, and `result.bleu` is the score alone.

    Attributes:
        scores: Score by metric, in the requested order.
        outputs: The translations.
        references: One or more sets of references.
        sources: The source text, if given.
        resamples: Number of bootstrap samples.
        seed: Random seed of the bootstrap.
    """

    scores: dict[str, MetricScore]
    outputs: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    sources: tuple[str, ...] | None
    resamples: int
    seed: int

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

    def records(self) -> list[dict[str, Any]]:
        """Return one row per metric: name, score, interval, signature, and the comparison if there is one."""
        return [score.to_record() for score in self.scores.values()]

    def sentences(self) -> list[dict[str, Any]]:
        """Return one row per sentence: its number (from 1), its texts, and its score by each metric.

        Of several references, the first is shown. The BLEU of a sentence of fewer than four words is 0, as
        for a corpus that consists of this sentence.
        """
        rows = []
        for i, output in enumerate(self.outputs):
            texts = {} if self.sources is None else {"source": self.sources[i]}
            texts |= {"output": output, "reference": self.references[0][i]}
            scores = {name: float(score.sentence_scores[i]) for name, score in self.scores.items()}
            rows.append({"sentence": i + 1, **texts, **scores})
        return rows

    def __repr__(self) -> str:
        """Return a summary of the scores."""
        shown = ", ".join(f"{score.label} {score.score:.2f}" for score in self.scores.values())
        return f"Evaluation({shown}; {len(self.outputs)} sentences)"


def evaluate(
    outputs: Iterable[Any],
    references: Iterable[Any],
    sources: Iterable[str] | None = None,
    *,
    metrics: str | Iterable[str] = ("bleu", "chrf", "ter"),
    other: Iterable[Any] | None = None,
    tokenize: str = "13a",
    lowercase: bool = False,
    repetition: tuple[int, float, float] = DEFAULT_REPETITION,
    links: tuple[Sequence[Any], Sequence[Any]] | None = None,
    other_links: Sequence[Any] | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Evaluation:
    """Score translations with 95 % confidence intervals (Koehn 2004), as `regard evaluate` does.

    Args:
        outputs: Translations, as strings or as results of `Model.translate`.
        references: One reference per translation, or several sets of references as a list of lists.
        sources: Source text. It is included in the rows of sentences, and word links are checked against it.
        metrics: Names of metrics, as a list or separated by commas: bleu, chrf, ter, rep, drop, meteor
            (English, needs Java), accuracy (exact matches) and edits (character edits).
        other: Translations of another system, for a paired comparison.
        tokenize: Tokenizer for BLEU and REP: `13a`, `none` (for tokenized text), `intl`, `char`, `zh`...
        lowercase: Whether to ignore case. TER and METEOR always do.
        repetition: For REP: n-gram size, weight of an excess n-gram, weight of an immediately repeated word.
        links: For DROP: word links (source, target) of each source sentence with its reference, and with its
            translation, computed by the same aligner. Sets of pairs, or arrays as in
            `TranslationResult.alignment`.
        other_links: For DROP: word links of each source sentence with the other system's translation.
        resamples: Number of bootstrap samples.
        seed: Random seed of the bootstrap.

    Raises:
        DataError: if the numbers of sentences differ, there is no sentence, or a link points beyond its
            sentence.
        UsageError: if a metric or the tokenizer is unknown, or needs an argument or a package that is
            missing.
    """
    names = _metric_names(metrics)
    translations = as_texts(outputs, "outputs")
    truths = _references(references)
    systems = [translations] if other is None else [translations, as_texts(other, "other")]
    given = None if sources is None else as_texts(sources, "sources")
    for name, lines in (("other", systems[-1]), ("sources", translations if given is None else given)):
        if len(lines) != len(translations):
            raise DataError(
                f"{name} has {len(lines)} sentences but outputs has {len(translations)}: both must have the "
                "same number"
            )
    if resamples < 2:
        raise UsageError(f"resamples={resamples}: expected at least 2")
    check_tokenizer(tokenize)
    drops = _drop_links("drop" in names, links, other_links, other is not None, given, len(translations))
    scores = score_systems(
        names, systems, truths, tokenize, lowercase, drops, resamples, seed, repetition=repetition
    )
    texts = None if given is None else tuple(given)
    return Evaluation(scores, tuple(translations), tuple(map(tuple, truths)), texts, resamples, seed)


def score_systems(
    names: Iterable[str],
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    tokenize: str,
    lowercase: bool,
    drops: tuple[Sequence[Links], Sequence[Links]] | None,
    resamples: int,
    seed: int,
    repetition: tuple[int, float, float] = DEFAULT_REPETITION,
) -> dict[str, MetricScore]:
    """Return the scores of one system, or of one system compared with another.

    Args:
        names: Names of metrics.
        systems: Translations of one or two systems, with the same number of sentences.
        references: One or more sets of references.
        tokenize: Tokenizer for BLEU and REP.
        lowercase: Whether to ignore case.
        drops: For DROP: links of the references and of the outputs, first those of the first system.
        resamples: Number of bootstrap samples.
        seed: Random seed of the bootstrap.
        repetition: For REP: n, lambda1, lambda2.

    Raises:
        DataError: if the numbers of sentences differ or there is no sentence.
        UsageError: if a metric needs an argument or a package that is missing.
    """
    found: dict[str, MetricScore] = {}
    num_sentences = len(systems[0])
    # Both systems are counted in one call, because METEOR takes long to start.
    data = MetricInput(
        [line for lines in systems for line in lines],
        [list(lines) * len(systems) for lines in references],
        tokenize,
        lowercase,
        repetition,
        drops,
    )
    for name in names:
        metric = METRICS.get(name)
        assert metric is not None, name  # the caller has checked the name
        counts = metric.count(data)
        if len(counts.rows) != len(data.outputs):
            raise UsageError(
                f"metric {name!r}: {len(counts.rows)} rows of counts for {len(data.outputs)} sentences; "
                "expected one row per sentence"
            )
        rows, other_rows = counts.rows[:num_sentences], counts.rows[num_sentences:]
        comparison = None
        if len(systems) == 1:
            estimate = bootstrap(rows, counts.aggregate, resamples, seed)
        else:
            paired = paired_bootstrap(rows, other_rows, counts.aggregate, resamples, seed)
            estimate = paired.first
            comparison = SystemComparison(paired.other, paired.difference, paired.p_value)
        found[name] = MetricScore(
            name,
            metric.label,
            estimate.value,
            estimate.low,
            estimate.high,
            counts.signature,
            counts.aggregate(rows),
            comparison,
        )
    return found


def _metric_names(given: str | Iterable[str]) -> list[str]:
    listed = given.split(",") if isinstance(given, str) else as_list(given, "metrics")
    names = list(dict.fromkeys(str(name).strip().lower() for name in listed))
    unknown = [name for name in names if METRICS.get(name) is None]
    if unknown or not names:
        raise UsageError(f"metrics={given!r}: expected some of {', '.join(METRICS.names())}")
    return names


def _references(given: Iterable[Any]) -> list[list[str]]:
    """Return one or more sets of references."""
    if isinstance(given, str):
        raise UsageError(
            "references: expected a list of sentences or a list of such lists, got a single string"
        )
    found = as_list(given, "references")
    if found and all(isinstance(each, list | tuple) for each in found):
        return [as_texts(each, f"reference {number}") for number, each in enumerate(found, 1)]
    return [as_texts(found, "references")]


def _drop_links(
    wanted: bool,
    links: tuple[Sequence[Any], Sequence[Any]] | None,
    other_links: Sequence[Any] | None,
    compared: bool,
    sources: Sequence[str] | None,
    num_sentences: int,
) -> tuple[list[Links], list[Links]] | None:
    """Return the links of the references, repeated per system, and the links of all outputs."""
    for name, given, needed in (
        ("links", links, wanted),
        ("other_links", other_links, wanted and compared),
    ):
        if needed != (given is not None):
            if needed:
                raise UsageError(
                    f"{name} is needed for DROP: pass the word links of the source with each text, "
                    "computed by the same aligner"
                )
            other = " and the argument other" if name == "other_links" else ""
            raise UsageError(f"{name} has no effect without the metric drop{other}; omit it")
    if links is None:
        return None
    parts = [*links, *(() if other_links is None else (other_links,))]
    checked = [[frozenset((int(i), int(j)) for i, j in each) for each in part] for part in parts]
    for part in checked:
        if len(part) != num_sentences:
            raise DataError(
                f"links of {len(part)} sentences, but there are {num_sentences} outputs: they must match"
            )
        for number, own in enumerate(part, 1):
            words = None if sources is None else len(split_whitespace(sources[number - 1]))
            check_links(own, {"source": words, "target": None}, f"links of sentence {number}")
    reference_links, *output_links = checked
    return reference_links * len(output_links), [own for part in output_links for own in part]
