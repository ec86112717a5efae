"""Modules for the transformations, their scans over time steps and their losses."""

from regard.nn.modules import (
    ConstrainedSoftmax,
    ConstrainedSoftmaxScan,
    ConstrainedSparsemax,
    ConstrainedSparsemaxScan,
    Entmax,
    Entmax15,
    Entmax15Loss,
    EntmaxLoss,
    Fusedmax,
    Softmax,
    Sparsemax,
    SparsemaxLoss,
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
    "Softmax",
    "Sparsemax",
    "SparsemaxLoss",
]
