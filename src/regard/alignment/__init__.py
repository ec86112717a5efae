"""Word alignment: IBM Models 1 to 4, an HMM, a Bayesian HMM, and symmetrization of both directions.

Reading order: `corpus` (text as integers), `base` (the interface of an aligner), `em` (expectation
maximization), `ibm`, `hmm`, `ibm3`, `ibm4`, `bayes_sampler`, `bayes`, `symmetrize`, `word_aligner`. The
modules `*_kernels` contain the compiled loops.
"""

from regard.alignment.base import DirectionAligner, IterationStats, TrainingSetup
from regard.alignment.corpus import Corpus
from regard.alignment.symmetrize import LinkTable, Method, symmetrize
from regard.alignment.word_aligner import AlignerConfig, WordAligner, train_both, train_direction

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
