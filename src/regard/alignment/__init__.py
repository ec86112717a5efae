"""Word alignment: IBM Models 1 and 2, an HMM, a Bayesian HMM, and symmetrization of both directions.

Reading order: `corpus` (text as integers), `base` (the interface of an aligner), `em` (expectation
maximization), `ibm`, `hmm`, `bayes_sampler`, `bayes`, `symmetrize`, `word_aligner`. The modules `*_kernels`
contain the compiled loops.
"""

from regard.alignment.base import (
    AlignerConfig,
    DirectionAligner,
    IterationStats,
    TrainingSetup,
    default_config,
    register_aligner,
    train_direction,
)
from regard.alignment.corpus import Corpus
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
    "default_config",
    "register_aligner",
    "symmetrize",
    "train_both",
    "train_direction",
]
