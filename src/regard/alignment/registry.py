"""The registry of word aligners: to add one, add its config, its training function and its class here."""

from collections.abc import Callable
from typing import Annotated, Any, get_args, get_type_hints

from regard.alignment.base import DirectionAligner, TrainingSetup
from regard.alignment.bayes import BayesAligner, train_bayes
from regard.alignment.bayes_sampler import BayesConfig
from regard.alignment.corpus import Corpus
from regard.alignment.hmm import HMMAligner, HMMConfig, train_hmm
from regard.alignment.ibm import IBM1Config, IBM2Config, IBMAligner, train_ibm1, train_ibm2
from regard.alignment.ibm3 import IBM3Aligner, IBM3Config, train_ibm3
from regard.config import TaggedUnion

__all__ = [
    "ALIGNER_CLASSES",
    "DEFAULT_ALIGNER",
    "TRAINERS",
    "AlignerConfig",
    "aligner_kinds",
    "default_config",
    "train_direction",
]

DEFAULT_ALIGNER = "bayes"

AlignerConfig = Annotated[
    IBM1Config | IBM2Config | IBM3Config | HMMConfig | BayesConfig, TaggedUnion(DEFAULT_ALIGNER)
]

TRAINERS: dict[type[Any], Callable[[Corpus, Any, TrainingSetup], DirectionAligner]] = {
    IBM1Config: train_ibm1,
    IBM2Config: train_ibm2,
    IBM3Config: train_ibm3,
    HMMConfig: train_hmm,
    BayesConfig: train_bayes,
}

ALIGNER_CLASSES: dict[str, type[DirectionAligner]] = {
    aligner.kind: aligner for aligner in (IBMAligner, IBM3Aligner, HMMAligner, BayesAligner)
}
"""The aligner classes by their names in files."""


def aligner_kinds() -> tuple[str, ...]:
    """Return the values of `kind` in a configuration."""
    # `kind` is a literal type with a single value.
    return tuple(get_args(get_type_hints(member)["kind"])[0] for member in TRAINERS)


def default_config(kind: str) -> AlignerConfig:
    """Return the default configuration of an aligner.

    Args:
        kind: One of `aligner_kinds()`.
    """
    return list(TRAINERS)[aligner_kinds().index(kind)]()


def train_direction(corpus: Corpus, config: AlignerConfig, setting: TrainingSetup) -> DirectionAligner:
    """Train an aligner that links the target words of a corpus to its source words.

    Args:
        corpus: The pairs.
        config: A member of the union.
        setting: Threads, seed and processes.
    """
    return TRAINERS[type(config)](corpus, config, setting)
