"""Transformations of scores into probability distributions, as pure functions with exact gradients.

Each transformation takes scores of any shape, a boolean mask (True = may be attended) and the dimension along
which the result sums to 1. The package also contains losses and the log-likelihood of a linear output layer.
"""

from regard.functional.bounds import check_bounds
from regard.functional.constrained import constrained_softmax, constrained_sparsemax
from regard.functional.entmax import entmax, entmax15, softmax, sparsemax
from regard.functional.fusedmax import fusedmax
from regard.functional.likelihood import linear_exponentials, linear_log_likelihood, linear_log_softmax
from regard.functional.losses import entmax15_loss, entmax_loss, sparsemax_loss
from regard.functional.scans import constrained_softmax_scan, constrained_sparsemax_scan

__all__ = [
    "check_bounds",
    "constrained_softmax",
    "constrained_softmax_scan",
    "constrained_sparsemax",
    "constrained_sparsemax_scan",
    "entmax",
    "entmax15",
    "entmax15_loss",
    "entmax_loss",
    "fusedmax",
    "linear_exponentials",
    "linear_log_likelihood",
    "linear_log_softmax",
    "softmax",
    "sparsemax",
    "sparsemax_loss",
]
