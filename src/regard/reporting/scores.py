"""Score systems on a text: on the whole text with intervals, by source length, and sentence by sentence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from sacrebleu.metrics.bleu import BLEU

from regard.analysis.errors import count_errors
from regard.metrics.alignment import aer_from_counts, count_links
from regard.metrics.attention import AttentionStatistics, score_links, summarize
from regard.metrics.base import SentenceCounts, bootstrap
from regard.metrics.by_length import (
    Bucket,
    LengthScores,
    SystemScore,
    bucket_by_length,
    count_lengths,
    score_by_length,
    score_system,
)
from regard.metrics.translation import count_statistics
from regard.reporting.systems import SentenceResult, SystemResults
from regard.text.links import GoldLinks, Links

LOWER_IS_BETTER = ("rep", "drop", "aer")
"""Metrics for which lower is better."""

BY_LENGTH = ("bleu", "rep", "drop")


@dataclass(frozen=True)
class ScoreTable:
    """The scores of all systems, in the order of the systems.

    Attributes:
        names: Display names of the metrics, by key.
        signatures: Signatures of the metrics (settings and version), by key.
        table: Scores of each system by metric; None for a system without the metric.
        sentence_scores: Sentence scores of each system by metric; BLEU is smoothed as sacreBLEU's sentence
            BLEU.
        buckets: Buckets of source length.
        by_length: Scores of each system in the buckets, for the metrics in `BY_LENGTH`.
        attention: Attention statistics of each system under forced decoding; None without attention.
        missing_reasons: Reasons for omitted metrics, one sentence each.
    """

    names: dict[str, str]
    signatures: dict[str, str]
    table: dict[str, list[SystemScore | None]]
    sentence_scores: dict[str, list[Float[np.ndarray, "n"]]]
    buckets: list[Bucket]
    by_length: dict[str, list[LengthScores]]
    attention: list[AttentionStatistics | None]
    missing_reasons: list[str]


def compute_scores(
    systems: Sequence[SystemResults],
    pairs: Sequence[tuple[str, str]],
    tokenize: str = "13a",
    lowercase: bool = False,
    gold: Sequence[GoldLinks] | None = None,
    num_resamples: int = 1000,
) -> ScoreTable:
    """Score systems on the same lines, given as pairs of a line and its reference.

    BLEU and chrF equal those of `regard evaluate`. REP and DROP equal those of `regard analyze errors`: they
    are computed on the words of each system's own tokenizers. `gold` links each line with its reference.

    Raises:
        DataError: if there are no lines.
        UsageError: if the tokenizer is unknown or needs a package that is not installed.
    """
    references = [reference for _, reference in pairs]
    counts, missing = _count(systems, references, tokenize, lowercase)
    names = {metric: by_system[0].name for metric, by_system in counts.items()}
    table: dict[str, list[SystemScore | None]] = {
        # All but the first system are compared with the first.
        metric: [
            score_system(counted, None if counted is by_system[0] else by_system[0], num_resamples)
            for counted in by_system
        ]
        for metric, by_system in counts.items()
    }
    if gold is not None:
        names["aer"] = "AER %"
        # A skipped line has no links, so that its gold links count as missed.
        none = frozenset()
        links = [[line.links if line else none for line in system.attention] for system in systems]
        table["aer"] = [score_word_links(lines, gold, num_resamples) if lines else None for lines in links]
    else:
        missing.append("AER is omitted: it needs gold word links (--gold-links).")
    sentence_scores = {
        metric: [counted.sentence_scores() for counted in by_system] for metric, by_system in counts.items()
    }
    sentence_scores["bleu"] = _sentence_bleu(systems, references, tokenize, lowercase)
    buckets = bucket_by_length(count_lengths([source for source, _ in pairs], tokenize))
    return ScoreTable(
        names=names,
        signatures={metric: scored[0].signature for metric, scored in counts.items() if scored[0].signature},
        table=table,
        sentence_scores=sentence_scores,
        buckets=buckets,
        by_length={
            metric: [score_by_length(counted, buckets, resamples=num_resamples) for counted in counts[metric]]
            for metric in BY_LENGTH
            if metric in counts
        },
        attention=[
            None
            if not (sentences := [sentence for sentence in system.attention if sentence is not None])
            else summarize(sentences, None if gold is None else score_links(system.attention, gold))
            for system in systems
        ],
        missing_reasons=missing,
    )


def _sentence_bleu(
    systems: Sequence[SystemResults], references: Sequence[str], tokenize: str, lowercase: bool
) -> list[Float[np.ndarray, "n"]]:
    """Return sentence BLEU with effective order: corpus BLEU of one short sentence would often be 0."""
    # `force` only silences the warning of sacreBLEU about text that appears to be tokenized.
    scorer = BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=True, force=True)
    scores: list[np.ndarray] = []
    for system in systems:
        lines = zip(system.sentences, references, strict=True)
        scored = [scorer.sentence_score(result.text, [reference]).score for result, reference in lines]
        scores.append(np.array(scored))
    return scores


def _count(
    systems: Sequence[SystemResults], references: Sequence[str], tokenize: str, lowercase: bool
) -> tuple[dict[str, list[SentenceCounts]], list[str]]:
    """Return the counts of each system by metric, and the reasons for omitted metrics."""
    counts: dict[str, list[SentenceCounts]] = {"bleu": [], "chrf": [], "rep": [], "drop": []}
    missing: list[str] = []
    for system in systems:
        outputs = [result.text for result in system.sentences]
        counts["bleu"].append(count_statistics("bleu", outputs, [references], tokenize, lowercase))
        counts["chrf"].append(count_statistics("chrf", outputs, [references], lowercase=lowercase))
        for metric, error_counts in count_errors([result.sentence for result in system.sentences]).items():
            counts[metric].append(error_counts)
    if not counts["drop"]:
        missing.append("DROP is omitted: it needs a word aligner (--aligner) to find dropped source words.")
    return {metric: metric_counts for metric, metric_counts in counts.items() if metric_counts}, missing


def score_word_links(
    links: Sequence[Links], gold: Sequence[GoldLinks], num_resamples: int = 1000
) -> SystemScore:
    """Return the alignment error rate (AER) of links, in percent."""
    # AER is a fraction, but the table has percent like the other scores.
    error = bootstrap(count_links(links, gold), aer_from_counts, num_resamples)
    return SystemScore(100 * error.value, (100 * error.low, 100 * error.high))


Checks = Sequence[Sequence[Mapping[str, Any] | None]]
"""For each system, the check of each line, in the form of a sentence of `CoverageCheck.to_dict`."""


@dataclass(frozen=True)
class SentenceStatistic:
    """A number of each sentence and system.

    Attributes:
        key: Its key in the page.
        name: Its name for display, with the unit.
        values: The number of each sentence, for each system; None for a missing one.
        digits: Number of displayed decimals.
    """

    key: str
    name: str
    values: Sequence[Sequence[float | None]]
    digits: int = 0


def sentence_statistics(
    systems: Sequence[SystemResults], scores: ScoreTable, checks: Checks | None
) -> list[SentenceStatistic]:
    """Return the statistics of all sentences; `checks` has the errors that a detector finds."""
    statistics: list[SentenceStatistic] = []

    def add(key: str, name: str, value: Callable[[SentenceResult], float | None], digits: int = 0) -> None:
        values = [[value(result) for result in system.sentences] for system in systems]
        statistics.append(SentenceStatistic(key, name, values, digits))

    add("length", "source length (words)", lambda result: float(len(result.sentence.source)))
    for key in ("bleu", "chrf"):
        if key in scores.sentence_scores:
            values = [system_scores.tolist() for system_scores in scores.sentence_scores[key]]
            statistics.append(SentenceStatistic(key, scores.names[key], values, 1))
    add("rep", "repetitions", lambda result: float(result.sentence.repetition_score))
    if "drop" in scores.sentence_scores:
        add("drop", "dropped words", lambda result: float(len(result.sentence.dropped)))
        add(
            "wrong",
            "dropped and repeated words",
            lambda result: float(len(result.sentence.dropped) + len(result.sentence.repeated)),
        )
    for key, name in (
        ("entropy", "attention entropy (nats)"),
        ("coverage", "source coverage"),
        ("log_prob", "log-probability per token (nats)"),
    ):
        if any(getattr(result, key) is not None for system in systems for result in system.sentences):
            add(key, name, lambda result, key=key: getattr(result, key), 3)
    return statistics + ([] if checks is None else _check_statistics(checks))


def _check_statistics(checks: Checks) -> list[SentenceStatistic]:
    """Return the probabilities of each error, and the largest of them, by which the sentences are sorted."""
    probabilities = [[check and check["probabilities"] for check in lines] for lines in checks]
    kinds = dict.fromkeys(error for lines in probabilities for line in lines if line for error in line)

    def values(probability: Callable[[Mapping[str, Any]], float | None]) -> list[list[float | None]]:
        return [[None if line is None else probability(line) for line in lines] for lines in probabilities]

    worst = values(lambda line: max((value or 0.0 for value in line.values()), default=0.0))
    return [
        SentenceStatistic("check", "any error (probability)", worst, 3),
        *(
            SentenceStatistic(error, f"{error} (probability)", values(lambda line, e=error: line.get(e)), 3)
            for error in kinds
        ),
    ]
