"""Contrastive conditioning: detection of omissions and additions by Vamvas & Sennrich (2022).

A span of the source is omitted in the translation y if y is more probable without the span:

    gain(span) = log p(y | x without span) - log p(y | x) > 0

A span of the translation is added if, for a model of the other direction, the source is more probable without
it. Both probabilities are those of the same sequence, so that a normalization by its length, as in the
paper's code, does not change the decision.

The paper leaves out the constituents of a parse tree. Here, no parser is needed: the text between
punctuation marks is left out, and those spans of up to `ContrastiveConfig.max_span` words with the highest
evidence for an error. The evidence of a span is the sum of its words' evidence above the mean of the
sentence. It comes from the detector `combined` if there is a model of good translations. Otherwise, the words
are first left out in pairs, and a word has half the gain of its pair; no other span is left out if all pairs
lose much. Attention as evidence found fewer errors (`benchmarks/coverage.md`).

A line is often more probable without a single word, such as an adjective, that is not omitted. The gain of a
single word is therefore lowered by `ContrastiveConfig.word_penalty`; 0 is the decision of the paper.

The score is sigmoid(gain / (|y| + 1)), with the number of words |y| of y. Without the division, it would be
the posterior probability of the shorter source; with it, scores of sentences of different length are
comparable.

A decoder attends to the source from its first layer on, so hardly anything can be shared between sources
with the same target. Only duplicates are skipped.
"""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.extensions.check.base import (
    ContrastiveConfig,
    CoverageError,
    DetectionInput,
    Detector,
    PairScores,
    build_detector,
    register_detector,
)
from regard.extensions.check.text import SideText, WordPair

if TYPE_CHECKING:
    from regard.generation.base import BaseTranslator

__all__ = ["ContrastiveDetector", "SpanGains", "score_spans"]

_log = logging.getLogger(__name__)
_MAX_LOSS = 10.0  # in nats: a pair that loses more is no better evidence
_LEAST_GAIN = -3.0  # in nats: if no pair of a line gains more, no other span is left out
_BLOCK = 1_000  # sentence pairs whose spans are scored together

WordSpan = tuple[int, int]
"""The first word of a span and the word after its last one."""


@dataclass
class SpanGains:
    """The gains of the spans of one sentence, in nats.

    Attributes:
        text: The side from which spans are left out.
        condition: The line of the other side, whose probability is compared.
        length: Number of words of the other side, and one for its end.
        gains: Gain of each scored span, for a single word less the penalty.
    """

    text: SideText
    condition: str
    length: int
    gains: dict[WordSpan, float] = field(default_factory=dict)

    @property
    def best(self) -> float:
        """The largest gain of a span; minus infinity if no span was scored."""
        return max(self.gains.values(), default=-math.inf)

    def word_gains(self) -> Float[np.ndarray, "S"]:
        """Return for each word the largest gain of a span that contains it.

        A span that gains no more than a shorter span within it counts only for the words of the shorter one:
        the neighbors of an omitted word are in spans with a gain, too. Words without a span, such as most
        punctuation marks, have a gain of minus infinity.
        """
        largest = np.full(len(self.text.spans), -math.inf)
        by_gain = sorted(self.gains.items(), key=lambda one: -one[1])
        for (first, last), gain in by_gain:
            better = (span for span, value in by_gain if value >= gain and span != (first, last))
            if not any(first <= span[0] and span[1] <= last for span in better):
                largest[first:last] = np.maximum(largest[first:last], gain)
        return largest

    def clauses(self) -> list[WordSpan]:
        """Return the spans between punctuation marks, each with one of the marks around it."""
        units = self.text.units
        spans: dict[WordSpan, None] = {}
        start = 0
        for i in range(1, len(units) + 1):
            # Words between two units that belong to neither are punctuation marks.
            if i < len(units) and units[i][0] == units[i - 1][1]:
                continue
            first, last = units[start][0], units[i - 1][1]
            # The rest of the line reads better without one of the two marks around the clause.
            if i < len(units):
                last = units[i][0]
            elif start:
                first = units[start - 1][1]
            if i - start < len(units):
                spans[first, last] = None
            start = i
        return list(spans)

    def pairs(self, max_span: int) -> list[WordSpan]:
        """Return pairs of neighboring units, each unit in one pair; the last two pairs may share a unit.

        In a line of two units, or with a `max_span` of 1, they are single units.
        """
        size, count = min(2, max_span, len(self.text.units) - 1), len(self.text.units)
        starts = dict.fromkeys([*range(0, count - size, size), count - size])
        return [self._span(start, size) for start in starts]

    def likely_spans(self, evidence: Float[np.ndarray, "U"], config: ContrastiveConfig) -> list[WordSpan]:
        """Return the spans with the highest evidence for an error.

        Args:
            evidence: Evidence for an error of each unit.
            config: The number and the maximum size of the spans.
        """
        count = math.ceil(config.candidates * len(evidence))
        return self._highest(evidence, 1, config.max_span, count)

    def promising_spans(self, config: ContrastiveConfig) -> list[WordSpan]:
        """Return single words and longer spans with the highest evidence in the gains of the pairs."""
        evidence = np.full(len(self.text.units), -_MAX_LOSS)
        for first, last in self.pairs(config.max_span):
            inside = [i for i, unit in enumerate(self.text.units) if first <= unit[0] and unit[1] <= last]
            gain = max(self.gains[first, last], -_MAX_LOSS) / len(inside)
            evidence[inside] = np.maximum(evidence[inside], gain)
        count = math.ceil(config.candidates / 2 * len(evidence))
        # The two words of a pair have the same evidence, so that both are left out.
        words = self._highest(evidence, 1, 1, count + count % 2)
        return words + self._highest(evidence, 3, config.max_span, count)

    def _highest(self, evidence: Float[np.ndarray, "U"], least: int, most: int, count: int) -> list[WordSpan]:
        """Return the spans of `least` to `most` units with the highest sums above the mean evidence.

        The span of all units is excluded, because the rest of the line would be empty.
        """
        sums = np.concatenate([[0.0], np.cumsum(evidence - evidence.mean())])
        candidates = [
            (sums[i + size] - sums[i], self._span(i, size))
            for size in range(least, min(most, len(evidence) - 1) + 1)
            for i in range(len(evidence) - size + 1)
        ]
        candidates.sort(key=lambda one: -one[0])
        return [span for _, span in candidates[:count]]

    def _span(self, start: int, size: int) -> WordSpan:
        """Return the span of a number of units."""
        units = self.text.units
        return units[start][0], units[start + size - 1][1]


def score_spans(
    translator: "BaseTranslator",
    pairs: Sequence[WordPair],
    config: ContrastiveConfig,
    evidence: Sequence[Float[np.ndarray, "S"]] | None = None,
) -> list[SpanGains]:
    """Return the gains of the spans of the source of each pair.

    The spans of all pairs are scored together in batches of similar length. Equal inputs are scored once. The
    results do not depend on the other pairs, up to rounding errors.

    Args:
        translator: A translator from the first to the second side of the pairs.
        pairs: The pairs.
        config: The spans.
        evidence: Evidence for an omission of each word, by which the spans are selected. Default: the gains
            of pairs of words, which are left out in a first pass.
    """
    texts = [(SideText.of(pair, 0), SideText.of(pair, 1)) for pair in pairs]
    gains = [SpanGains(text, other.line, len(other.spans) + 1) for text, other in texts]
    spans: dict[int, list[WordSpan]] = {}
    for row, (text, other) in enumerate(texts):
        # Empty sides have no probability to compare. Of one unit, nothing would be left to translate.
        if len(text.units) < 2 or not other.spans:
            continue
        spans[row] = gains[row].clauses()
        if evidence is None:
            spans[row] += gains[row].pairs(config.max_span)
        else:
            of_units = np.array([evidence[row][first:last].max() for first, last in text.units])
            spans[row] += gains[row].likely_spans(of_units, config)
    lines = {(gains[row].text.line, gains[row].condition): None for row in spans}
    known = _log_probabilities(translator, lines | _shortened(gains, spans))
    whole = {row: known[gains[row].text.line, gains[row].condition] for row in spans}
    for row in [row for row in spans if math.isnan(whole[row])]:
        _log.warning("a pair cannot be scored, so that nothing is found in it: %s", gains[row].text.line)
        del spans[row]
    _add_gains(gains, spans, known, whole, config)
    if evidence is None:
        promising = [row for row in spans if gains[row].best > _LEAST_GAIN]
        spans = {row: gains[row].promising_spans(config) for row in promising}
        known = _log_probabilities(translator, _shortened(gains, spans))
        _add_gains(gains, spans, known, whole, config)
    return gains


Inputs = dict[tuple[str, str], None]


def _shortened(found: Sequence[SpanGains], spans: Mapping[int, Sequence[WordSpan]]) -> Inputs:
    """Return the distinct pairs of a line without a span and the other line."""
    return {
        (found[row].text.without(*span), found[row].condition): None
        for row, row_spans in spans.items()
        for span in row_spans
        if span not in found[row].gains
    }


def _log_probabilities(translator: "BaseTranslator", inputs: Inputs) -> dict[tuple[str, str], float]:
    """Return the log-probability of the second line of each pair given the first."""
    return dict(zip(inputs, translator.log_probabilities(inputs), strict=True))


def _add_gains(
    found: Sequence[SpanGains],
    spans: Mapping[int, Sequence[WordSpan]],
    known: Mapping[tuple[str, str], float],
    whole: Mapping[int, float],
    config: ContrastiveConfig,
) -> None:
    """Add the gains of spans whose log-probabilities are known."""
    for row, row_spans in spans.items():
        span_gains, units = found[row], set(found[row].text.units)
        for span in [span for span in row_spans if span not in span_gains.gains]:
            gain = known[span_gains.text.without(*span), span_gains.condition] - whole[row]
            gain -= config.word_penalty if span in units else 0.0
            span_gains.gains[span] = -math.inf if math.isnan(gain) else gain


def _sigmoid(gains: "float | np.ndarray") -> np.ndarray:
    """Return 1 / (1 + exp(-gain)) without overflow."""
    return np.exp(-np.logaddexp(0, -np.asarray(gains, dtype=np.float64)))


@register_detector("contrastive")
class ContrastiveDetector(Detector):
    """Contrastive conditioning: omissions from `translator`, additions from `reverse_translator`."""

    name = "contrastive"
    needs_one_of = ("translator", "reverse_translator")

    def __init__(self, inputs: DetectionInput) -> None:
        """Check that the translators can score translations."""
        super().__init__(inputs)
        for translator in inputs.translators.values():
            translator.require("score", f"the detector {self.name!r}")

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the score of the best span of each sentence, and of the best span of each word.

        An empty translation omits everything, and a translation of nothing adds everything. In a line of one
        word, no span can be left out, so that nothing is found.
        """
        sentence: list[dict[CoverageError, float]] = [{} for _ in pairs]
        words: list[dict[CoverageError, np.ndarray]] = [{} for _ in pairs]
        for error, translator in self.inputs.translators.items():
            directed = pairs if error == "omission" else [pair.swapped() for pair in pairs]
            gains = self._gains(translator, pairs, directed, error)
            for row, (pair, span_gains) in enumerate(zip(directed, gains, strict=True)):
                if pair.source and not pair.target:
                    sentence[row][error], words[row][error] = 1.0, np.ones(len(pair.source))
                else:
                    sentence[row][error] = float(_sigmoid(span_gains.best / span_gains.length))
                    words[row][error] = _sigmoid(span_gains.word_gains() / span_gains.length)
        return [
            PairScores({**sentence_scores}, {**each})
            for sentence_scores, each in zip(sentence, words, strict=True)
        ]

    def _gains(
        self,
        translator: "BaseTranslator",
        pairs: Sequence[WordPair],
        directed: Sequence[WordPair],
        error: CoverageError,
    ) -> Iterable[SpanGains]:
        """Return the gains of a text, in blocks that bound memory.

        Args:
            translator: The translator of one direction.
            pairs: The pairs.
            directed: The pairs in the direction of the translator.
            error: The error that is found.
        """
        config, model = self.inputs.contrastive, self.inputs.model
        for start in range(0, len(pairs), _BLOCK):
            block, evidence = directed[start : start + _BLOCK], None
            if model is not None:
                combined = build_detector("combined", self.inputs)
                evidence = [scores.words[error] for scores in combined.detect(pairs[start : start + _BLOCK])]
            yield from score_spans(translator, block, config, evidence)
