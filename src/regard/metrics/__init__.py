"""Metrics of translations and alignments, and significance tests. Does not use models or torch."""

from regard.metrics.alignment import (
    AlignmentScore,
    AttentionMap,
    alignment_score,
    links_from_weights,
    map_difference,
    match_columns,
)
from regard.metrics.base import (
    CorpusScore,
    Estimate,
    PairedComparison,
    SentenceCounts,
    bootstrap,
    paired_bootstrap,
)
from regard.metrics.coverage import drop, rep, repetition_sigma
from regard.metrics.meteor import meteor
from regard.metrics.translation import accuracy, bleu, chrf, edits, ter

__all__ = [
    "AlignmentScore",
    "AttentionMap",
    "CorpusScore",
    "Estimate",
    "PairedComparison",
    "SentenceCounts",
    "accuracy",
    "alignment_score",
    "bleu",
    "bootstrap",
    "chrf",
    "drop",
    "edits",
    "links_from_weights",
    "map_difference",
    "match_columns",
    "meteor",
    "paired_bootstrap",
    "rep",
    "repetition_sigma",
    "ter",
]
