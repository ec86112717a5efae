"""Metrics of translations and alignments, and significance tests. Does not use models or torch."""

from regard.metrics.alignment import AlignmentScore, alignment_score, links_from_weights
from regard.metrics.counts import CorpusScore, SentenceCounts
from regard.metrics.coverage import drop, rep, repetition_sigma
from regard.metrics.maps import AttentionMap, map_difference, match_columns
from regard.metrics.meteor import meteor
from regard.metrics.significance import Estimate, PairedComparison, bootstrap, paired_bootstrap
from regard.metrics.transduction import accuracy, edits
from regard.metrics.translation import bleu, chrf, ter

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
