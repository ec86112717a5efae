"""Fertilities from word alignments: the number of target words that each source word is linked to.

They are counted from the forward direction, which links each target word to at most one source word.
GUIDED fertility (Malaviya et al., 2018, Section 4) is the maximum over the occurrences of a word in the
training text, and at least 1.
"""

from collections.abc import Sequence

import numpy as np

from regard.alignment.base import (
    DEFAULT_ALIGNER,
    AlignerConfig,
    TrainingSetup,
    default_config,
    train_direction,
)
from regard.alignment.corpus import Corpus

__all__ = [
    "align_fertilities",
    "count_fertilities",
    "max_fertilities",
]


def count_fertilities(corpus: Corpus, links: np.ndarray) -> np.ndarray:
    """Return the number of target words that each source word is linked to.

    Args:
        corpus: The pairs.
        links: int [target tokens]: the position of each target word's source word in its sentence, -1 for
            none.

    Returns:
        int64 [source tokens], in the order of `corpus.source.offsets`.
    """
    # The offset of each target token's source sentence.
    begin = np.repeat(corpus.source.offsets[:-1], corpus.target.lengths)
    linked = links >= 0
    # Unlinked words have no source position, so that they are removed first.
    return np.bincount((begin + links)[linked], minlength=int(corpus.source.offsets[-1]))


def max_fertilities(corpus: Corpus, fertilities: np.ndarray) -> np.ndarray:
    """Return the largest fertility of each word of the source vocabulary, at least 1.

    Args:
        corpus: The pairs.
        fertilities: int [source tokens], the result of `count_fertilities`.

    Returns:
        float32 [words].
    """
    maxima = np.ones(len(corpus.source.words), dtype=np.int64)
    tokens = corpus.source.sentence_tokens
    known = tokens >= 0
    # `maximum.at` handles repeated indices, unlike indexing.
    np.maximum.at(maxima, tokens[known], fertilities[known])
    return maxima.astype(np.float32)


def align_fertilities(
    corpora: Sequence[Corpus], setting: TrainingSetup, config: AlignerConfig | None = None
) -> list[np.ndarray]:
    """Return the number of target words of each source word, for several texts.

    Args:
        corpora: The texts. An aligner is trained on the first one, and all use its numbers for words.
        setting: Threads, seed and processes.
        config: The aligner. Default: None, the default aligner.

    Returns:
        The result of `count_fertilities` for each text, 0 in pairs that are too long; see `max_length`.
    """
    chosen = default_config(DEFAULT_ALIGNER) if config is None else config
    aligner = train_direction(corpora[0], chosen, setting)
    counts = []
    for corpus in corpora:
        short = corpus.without_long_pairs(aligner.max_length)
        aligned = np.repeat(short.source.lengths == corpus.source.lengths, corpus.source.lengths)
        counts.append(np.zeros(len(aligned), dtype=np.int64))
        counts[-1][aligned] = count_fertilities(short, aligner.align(short, setting.num_threads))
    return counts
