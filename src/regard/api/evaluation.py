"""`regard.evaluate`: what translations score against references, as a text and sentence by sentence.

result = regard.evaluate(outputs, references)
result.bleu
pandas.DataFrame(result.records())
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.api.arguments import as_list, lines_of
from regard.data.links import Links, check_links
from regard.data.spacing import split_at_spaces
from regard.errors import DataError, UsageError
from regard.metrics.counts import SentenceCounts
from regard.metrics.coverage import REPETITION, count_drops, count_text_repetitions
from regard.metrics.significance import Estimate, bootstrap, paired_bootstrap
from regard.metrics.transduction import TRANSDUCTION, count_transduction
from regard.metrics.translation import as_tokenizer, count

__all__ = ["LABELS", "Comparison", "Evaluation", "MetricScore", "evaluate", "score_systems"]

LABELS = {
    "bleu": "BLEU",
    "chrf": "chrF2",
    "ter": "TER",
    "rep": "REP",
    "drop": "DROP",
    "meteor": "METEOR",
    "accuracy": "accuracy %",
    "edits": "edits",
}
"""The metrics as they are printed."""


@dataclass(frozen=True)
class Comparison:
    """Another system beside this one.

    Attributes:
        other: Its score.
        difference: Its score less this one's.
        p_value: Two-sided, of the difference.
    """

    other: Estimate
    difference: Estimate
    p_value: float


@dataclass(frozen=True)
class MetricScore:
    """One metric of a text.

    Attributes:
        name: As `LABELS` has it.
        label: As it is printed.
        score: Of the whole text, as the metric's own scale has it; mostly out of 100.
        low: Lower end of its 95 % interval.
        high: Upper end.
        signature: The line of settings and version that makes the score comparable.
        each: [n], of each sentence, as that of a text with no other.
        comparison: With another system, where there is one.
    """

    name: str
    label: str
    score: float
    low: float
    high: float
    signature: str
    each: Float[np.ndarray, "n"]
    comparison: Comparison | None = None

    def record(self) -> dict[str, Any]:
        """A row of a table; `each` is left out."""
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
    """The scores of a text, by the names of metrics: `result["bleu"].low`; `result.bleu` is the score alone.

    Attributes:
        scores: By metric, in the order they were asked for.
        outputs: The translations.
        references: One or more sets of references.
        sources: The source text, where it was given.
        resamples: Test sets that the bootstrap drew.
        seed: Of the draws.
    """

    scores: dict[str, MetricScore]
    outputs: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    sources: tuple[str, ...] | None
    resamples: int
    seed: int

    def __getitem__(self, name: str) -> MetricScore:
        """A metric by its name."""
        return self.scores[name]

    def __iter__(self) -> Iterator[str]:
        """The names of metrics."""
        return iter(self.scores)

    def __len__(self) -> int:
        """How many metrics."""
        return len(self.scores)

    def __getattr__(self, name: str) -> float:
        """The score of a metric."""
        if name in LABELS and name in self.__dict__.get("scores", {}):
            return self.scores[name].score
        known = ", ".join(self.__dict__.get("scores", {}))
        raise AttributeError(f"no {name!r} in this evaluation; there is: {known}")

    def __dir__(self) -> list[str]:
        """Its attributes, the metrics' names among them."""
        return sorted({*super().__dir__(), *self.scores})

    def records(self) -> list[dict[str, Any]]:
        """A row a metric: its name, score, interval and signature, and the comparison where there is one."""
        return [score.record() for score in self.scores.values()]

    def sentences(self) -> list[dict[str, Any]]:
        """A row a sentence: its number from 1, its texts, and its own score by each metric.

        Of several references the first is shown. BLEU of a sentence of fewer than four words is 0, as that of
        a text with no other sentence would be.
        """
        rows = []
        for i, output in enumerate(self.outputs):
            texts = {} if self.sources is None else {"source": self.sources[i]}
            texts |= {"output": output, "reference": self.references[0][i]}
            scores = {name: float(score.each[i]) for name, score in self.scores.items()}
            rows.append({"sentence": i + 1, **texts, **scores})
        return rows

    def __repr__(self) -> str:
        """The scores."""
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
    repetition: tuple[int, float, float] = REPETITION,
    links: tuple[Sequence[Any], Sequence[Any]] | None = None,
    other_links: Sequence[Any] | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Evaluation:
    """Score translations as `regard evaluate` does, with 95 % intervals (Koehn 2004).

    Args:
        outputs: Translations, as texts or as what `Model.translate` returned.
        references: A reference for each; or several sets of references, a list each.
        sources: The source text: it goes into the rows of sentences, and word links beyond it are refused.
        metrics: Some of bleu, chrf, ter, rep, drop, meteor (English, needs Java), accuracy (exactly right)
            and edits (characters to change); a list, or names separated by commas.
        other: Translations of another system to compare with, in pairs.
        tokenize: For BLEU and REP: `13a`, `none` (the text is tokenised), `intl`, `char`, `zh`...
        lowercase: Ignore case; TER and METEOR always do.
        repetition: For REP: words of an n-gram, what one said too often weighs, what a doubled word weighs.
        links: For DROP: the word links (source, target) of each source sentence with its reference, and with
            its translation, all by the same aligner; sets, or arrays as `TranslationResult.alignment`.
        other_links: The same with the other system's translation.
        resamples: Test sets the bootstrap draws.
        seed: Of the draws.

    Raises:
        DataError: if the numbers of sentences differ, there is none, or a link points beyond its sentence.
        UsageError: if a metric or the tokenizer is not known, or needs what was not given or not installed.
    """
    names = _metrics(metrics)
    said = lines_of(outputs, "outputs")
    truths = _references(references)
    systems = [said] if other is None else [said, lines_of(other, "other")]
    given = None if sources is None else lines_of(sources, "sources")
    for name, lines in (("other", systems[-1]), ("sources", said if given is None else given)):
        if len(lines) != len(said):
            raise DataError(f"{name}: {len(lines)} sentences, outputs: {len(said)}; expected as many")
    if resamples < 2:
        raise UsageError(f"resamples={resamples}: expected at least 2")
    if len(truths) > 1 and {"rep", "drop"} & set(names):
        raise UsageError(f"REP and DROP are of one reference, {len(truths)} were given")
    as_tokenizer(tokenize)
    drops = _drops("drop" in names, links, other_links, other is not None, given, len(said))
    scores = score_systems(
        names, systems, truths, tokenize, lowercase, drops, resamples, seed, repetition=repetition
    )
    texts = None if given is None else tuple(given)
    return Evaluation(scores, tuple(said), tuple(map(tuple, truths)), texts, resamples, seed)


def score_systems(
    names: Iterable[str],
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    tokenize: str,
    lowercase: bool,
    drops: tuple[Sequence[Links], Sequence[Links]] | None,
    resamples: int,
    seed: int,
    repetition: tuple[int, float, float] = REPETITION,
) -> dict[str, MetricScore]:
    """The scores of one system, or of one compared with another.

    Args:
        names: Of metrics.
        systems: The translations of one or two systems, of as many sentences.
        references: One or more sets of references.
        tokenize: For BLEU and REP.
        lowercase: Ignore case.
        drops: For DROP: links of the references and of the outputs, the other system's after the first's.
        resamples: Test sets the bootstrap draws.
        seed: Of the draws.
        repetition: For REP: n, lambda1, lambda2.

    Raises:
        DataError: if the numbers of sentences differ or there is none.
        UsageError: if what a metric needs is not there.
    """
    found: dict[str, MetricScore] = {}
    sentences = len(systems[0])
    for name in names:
        counts = _count(name, systems, references, tokenize, lowercase, drops, repetition)
        rows, others = counts.rows[:sentences], counts.rows[sentences:]
        comparison = None
        if len(systems) == 1:
            estimate = bootstrap(rows, counts.aggregate, resamples, seed)
        else:
            paired = paired_bootstrap(rows, others, counts.aggregate, resamples, seed)
            estimate = paired.first
            comparison = Comparison(paired.other, paired.difference, paired.p_value)
        found[name] = MetricScore(
            name,
            LABELS[name],
            estimate.value,
            estimate.low,
            estimate.high,
            counts.signature,
            counts.aggregate(rows),
            comparison,
        )
    return found


def _count(
    name: str,
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    tokenize: str,
    lowercase: bool,
    drops: tuple[Sequence[Links], Sequence[Links]] | None,
    repetition: tuple[int, float, float],
) -> SentenceCounts:
    """The counts of one system's sentences after the other's: at one go, as METEOR takes long to start."""
    outputs = [line for lines in systems for line in lines]
    truths = [list(lines) * len(systems) for lines in references]
    if name == "meteor":
        from regard.metrics.meteor import count_meteor

        return count_meteor(outputs, truths)
    if name == "drop" and drops is not None:
        return count_drops(*drops)
    if name == "rep":
        return count_text_repetitions(outputs, truths[0], tokenize, lowercase, repetition)
    if name in TRANSDUCTION:
        return count_transduction(name, outputs, truths, lowercase)
    return count(name, outputs, truths, tokenize, lowercase)


def _metrics(given: str | Iterable[str]) -> list[str]:
    listed = given.split(",") if isinstance(given, str) else as_list(given, "metrics")
    names = list(dict.fromkeys(str(name).strip().lower() for name in listed))
    unknown = [name for name in names if name not in LABELS]
    if unknown or not names:
        raise UsageError(f"metrics={given!r}: expected some of {', '.join(LABELS)}")
    return names


def _references(given: Iterable[Any]) -> list[list[str]]:
    """One or more sets of references."""
    if isinstance(given, str):
        raise UsageError("references: a single text; expected a list of sentences, or of lists of them")
    found = as_list(given, "references")
    if found and all(isinstance(each, list | tuple) for each in found):
        return [lines_of(each, f"reference {number}") for number, each in enumerate(found, 1)]
    return [lines_of(found, "references")]


def _drops(
    wanted: bool,
    links: tuple[Sequence[Any], Sequence[Any]] | None,
    other_links: Sequence[Any] | None,
    compared: bool,
    sources: Sequence[str] | None,
    sentences: int,
) -> tuple[list[Links], list[Links]] | None:
    """The links of the references, once a system, and of the systems' outputs, joined."""
    for name, given, needed in (
        ("links", links, wanted),
        ("other_links", other_links, wanted and compared),
    ):
        if needed != (given is not None):
            need = "is needed for DROP" if needed else "is of no use without metric drop and what it compares"
            raise UsageError(f"{name} {need}: word links of the source with each text, by one aligner")
    if links is None:
        return None
    parts = [*links, *(() if other_links is None else (other_links,))]
    checked = [[frozenset((int(i), int(j)) for i, j in each) for each in part] for part in parts]
    for part in checked:
        if len(part) != sentences:
            raise DataError(f"links of {len(part)} sentences, outputs: {sentences}; expected as many")
        for number, own in enumerate(part, 1):
            words = None if sources is None else len(split_at_spaces(sources[number - 1]))
            check_links(own, {"source": words, "target": None}, f"links of sentence {number}")
    wanted_links, *said = checked
    return wanted_links * len(said), [own for part in said for own in part]
