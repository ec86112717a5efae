"""Fertilities from word alignments: how many target words each source word is linked to.

Counted from the links of the forward direction, at most one source word a target word. GUIDED (Malaviya et
al. 2018, Section 4) is a word type's largest fertility in the training text, 1 for a word that is never
aligned.
"""

from collections.abc import Sequence

import numpy as np

from regard.alignment.base import Setting
from regard.alignment.corpus import Corpus
from regard.alignment.registry import DEFAULT, AlignerConfig, config_of, train_direction

__all__ = [
    "count_fertilities",
    "guided_fertilities",
    "largest_fertilities",
    "split_fertilities",
]


def count_fertilities(corpus: Corpus, links: np.ndarray) -> np.ndarray:
    """How many target words each source word is linked to.

    Args:
        corpus: The pairs.
        links: int [target tokens]: the position in its sentence of each target word's source word, -1 for
            none.

    Returns:
        int64 [source tokens], in the order of `corpus.source.offsets`.
    """
    begin = np.repeat(corpus.source.offsets[:-1], corpus.target.lengths)
    linked = links >= 0
    return np.bincount((begin + links)[linked], minlength=int(corpus.source.offsets[-1]))


def largest_fertilities(corpus: Corpus, fertilities: np.ndarray) -> np.ndarray:
    """The largest fertility of each word of the source vocabulary, at least 1.

    Args:
        corpus: The pairs.
        fertilities: int [source tokens], as `count_fertilities` gives them.

    Returns:
        float32 [words].
    """
    found = np.ones(len(corpus.source.words), dtype=np.int64)
    lengths, starts = corpus.source.lengths.astype(np.int64), corpus.source.starts
    inside = np.arange(len(fertilities)) - np.repeat(corpus.source.offsets[:-1], lengths)
    tokens = corpus.source.tokens[np.repeat(starts, lengths) + inside]
    known = tokens >= 0
    np.maximum.at(found, tokens[known], fertilities[known])
    return found.astype(np.float32)


def split_fertilities(
    corpora: Sequence[Corpus], setting: Setting, config: AlignerConfig | None = None
) -> list[np.ndarray]:
    """How many target words each source word of several texts is linked to.

    Args:
        corpora: The pairs; an aligner is trained on the first, and the words of all have its numbers.
        setting: Circumstances.
        config: Which aligner; by default the best there is.

    Returns:
        For each text what `count_fertilities` gives.
    """
    chosen = config_of(DEFAULT) if config is None else config
    aligner = train_direction(corpora[0], chosen, setting)
    return [count_fertilities(corpus, aligner.align(corpus, setting.threads)) for corpus in corpora]


def guided_fertilities(corpus: Corpus, setting: Setting, config: AlignerConfig | None = None) -> np.ndarray:
    """GUIDED: align a text, and give each source word its largest fertility in it; float32 [words]."""
    return largest_fertilities(corpus, split_fertilities([corpus], setting, config)[0])
