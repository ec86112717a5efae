"""Word alignment: IBM Models 1 and 2, an HMM, a Bayesian HMM, both directions and their symmetrisation.

Reading order: `corpus` (text as integers), `base` (what an aligner is), `threads`, `table`, `cells` and `em`
(compiled expectation maximisation), `diagonal` and `ibm`, `hmm_paths` and `hmm`, `bayes`, `symmetrize`,
`registry`, `both`.
"""

from regard.alignment.base import Aligner, Iteration, Setting
from regard.alignment.both import WordAligner, train_both
from regard.alignment.corpus import Corpus
from regard.alignment.registry import AlignerConfig, train_direction
from regard.alignment.symmetrize import LinkTable, Method, symmetrize

__all__ = [
    "Aligner",
    "AlignerConfig",
    "Corpus",
    "Iteration",
    "LinkTable",
    "Method",
    "Setting",
    "WordAligner",
    "symmetrize",
    "train_both",
    "train_direction",
]
