"""Scores of translations and alignments, and whether their differences mean anything; no models, no torch."""

from regard.metrics.alignment import AlignmentScore, alignment_score, links_from_weights
from regard.metrics.significance import Comparison, Estimate, bootstrap, paired_bootstrap
from regard.metrics.translation import Score, bleu, chrf, ter

__all__ = [
    "AlignmentScore",
    "Comparison",
    "Estimate",
    "Score",
    "alignment_score",
    "bleu",
    "bootstrap",
    "chrf",
    "links_from_weights",
    "paired_bootstrap",
    "ter",
]
