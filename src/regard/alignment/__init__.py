"""Word alignment: IBM Models 1 to 3, an HMM, a Bayesian HMM, and symmetrization of both directions.

Reading order: `corpus` (text as integers), `base` (the interface of an aligner), `threads`, `table`, `blocks`
and `em` (compiled expectation maximization), `diagonal` and `ibm`, `hmm_paths` and `hmm`, `ibm3_kernels` and
`ibm3`, `bayes`, `symmetrize`, `registry`, `word_aligner`.
"""

from regard.alignment.base import DirectionAligner, IterationStats, TrainingSetup
from regard.alignment.corpus import Corpus
from regard.alignment.registry import AlignerConfig, train_direction
from regard.alignment.symmetrize import LinkTable, Method, symmetrize
from regard.alignment.word_aligner import WordAligner, train_both

__all__ = [
    "AlignerConfig",
    "Corpus",
    "DirectionAligner",
    "IterationStats",
    "LinkTable",
    "Method",
    "TrainingSetup",
    "WordAligner",
    "symmetrize",
    "train_both",
    "train_direction",
]
