"""Modules for the transformations, their scans over time steps and their losses.

Each module calls the function of the same name in `regard.functional`.
"""

from regard.nn.losses import Entmax15Loss, SparsemaxLoss
from regard.nn.normalizers import (
    ConstrainedSoftmax,
    ConstrainedSparsemax,
    Entmax,
    Entmax15,
    Fusedmax,
    Softmax,
    Sparsemax,
)
from regard.nn.scans import ConstrainedSoftmaxScan, ConstrainedSparsemaxScan

__all__ = [
    "ConstrainedSoftmax",
    "ConstrainedSoftmaxScan",
    "ConstrainedSparsemax",
    "ConstrainedSparsemaxScan",
    "Entmax",
    "Entmax15",
    "Entmax15Loss",
    "Fusedmax",
    "Softmax",
    "Sparsemax",
    "SparsemaxLoss",
]
