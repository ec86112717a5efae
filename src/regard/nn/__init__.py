"""Modules for the transformations, their scans over time steps and their losses."""

from regard.nn.losses import Entmax15Loss, EntmaxLoss, NormmaxLoss, SparsemaxLoss
from regard.nn.modules import (
    ConstrainedSoftmax,
    ConstrainedSoftmaxScan,
    ConstrainedSparsemax,
    ConstrainedSparsemaxScan,
    Entmax,
    Entmax15,
    Fusedmax,
    Normmax,
    Oscarmax,
    Softmax,
    Sparsemax,
)

__all__ = [
    "ConstrainedSoftmax",
    "ConstrainedSoftmaxScan",
    "ConstrainedSparsemax",
    "ConstrainedSparsemaxScan",
    "Entmax",
    "Entmax15",
    "Entmax15Loss",
    "EntmaxLoss",
    "Fusedmax",
    "Normmax",
    "NormmaxLoss",
    "Oscarmax",
    "Softmax",
    "Sparsemax",
    "SparsemaxLoss",
]
