"""Precision, recall and alignment error rate of word links against gold links, Och & Ney (2003).

With A the links, S the sure and P the possible gold links (S is part of P), summed over the corpus:

    precision = |A & P| / |A|,  recall = |A & S| / |S|,  AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from regard.data.links import GoldLinks, Links
from regard.errors import DataError

__all__ = [
    "AlignmentScore",
    "alignment_error",
    "alignment_score",
    "count_links",
    "is_selection",
    "join_words",
    "links_from_selection",
    "links_from_weights",
]


@dataclass(frozen=True)
class AlignmentScore:
    """How well links agree with gold links over a corpus; each lies between 0 and 1.

    Attributes:
        precision: Share of the links that are possible; 1 where there is no link.
        recall: Share of the sure links that were found; 1 where none is sure.
        aer: Alignment error rate, lower is better; 0 where there is neither a link nor a sure one.
    """

    precision: float
    recall: float
    aer: float


def alignment_score(links: Iterable[Links], gold: Iterable[GoldLinks]) -> AlignmentScore:
    """Score links against gold links.

    Args:
        links: The links of each sentence pair.
        gold: The gold links of the same sentence pairs.

    Raises:
        DataError: if the numbers of sentence pairs differ.
    """
    drawn, sure, drawn_sure, drawn_possible = (int(n) for n in count_links(links, gold).sum(axis=0))
    return AlignmentScore(
        precision=drawn_possible / drawn if drawn else 1.0,
        recall=drawn_sure / sure if sure else 1.0,
        aer=1 - (drawn_sure + drawn_possible) / (drawn + sure) if drawn + sure else 0.0,
    )


def count_links(links: Iterable[Links], gold: Iterable[GoldLinks]) -> Float[np.ndarray, "n 4"]:
    """|A|, |S|, |A & S| and |A & P| of each sentence pair: what `alignment_error` and resampling need.

    Args:
        links: The links of each sentence pair.
        gold: The gold links of the same sentence pairs.

    Raises:
        DataError: if the numbers of sentence pairs differ.
    """
    links, gold = list(links), list(gold)
    if len(links) != len(gold):
        raise DataError(f"links of {len(links)} sentence pairs, gold links of {len(gold)}")
    rows = [
        (len(drawn), len(truth.sure), len(drawn & truth.sure), len(drawn & truth.possible))
        for drawn, truth in zip(links, gold, strict=True)
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def alignment_error(summed: Float[np.ndarray, "r 4"]) -> Float[np.ndarray, "r"]:
    """AER of rows of summed counts (see `count_links`), for `regard.metrics.significance`."""
    drawn, sure, drawn_sure, drawn_possible = summed.T
    total = drawn + sure
    # Nothing drawn and nothing sure is no error.
    right = np.where(total > 0, drawn_sure + drawn_possible, 1.0)
    return 1 - right / np.where(total > 0, total, 1.0)


def links_from_weights(
    weights: Float[np.ndarray, "T S"],
    source_words: Sequence[int] | None = None,
    target_words: Sequence[int] | None = None,
) -> Links:
    """Link each target word to the source word it attends to most, Ghader & Monz (2017).

    Subwords are joined first (`join_words`). Of equal weights the first counts. A target word is not linked
    if it has no weight on any word, or more on the sink than on any word. Symbols that a tokenizer puts
    around every line (`</s>`) are left out: pre-trained models attend to them whatever the word.

    Args:
        weights: Attention of each target token to each source token.
        source_words: The word that each source token is part of, counted from 0; -1 for the sink, -2 for
            another token that is part of no word. Without it every token is a word.
        target_words: The same of the target tokens.

    Raises:
        DataError: if the word indices are not as many as the tokens.
    """
    joined = join_words(weights, source_words, target_words)
    if joined.shape[1] == 0:
        return frozenset()
    best, most = joined.argmax(axis=1), joined.max(axis=1)
    linked = most > 0
    if source_words is not None and -1 in source_words:
        sinks = [0 if word == -1 else -1 for word in source_words]
        linked &= most >= join_words(weights, sinks, target_words)[:, 0]
    return frozenset((int(best[t]), int(t)) for t in np.flatnonzero(linked))


def is_selection(weights: Float[np.ndarray, "*N"]) -> bool:
    """Return whether weights select source tokens: each is exactly 0 or 1."""
    return bool(((weights == 0) | (weights == 1)).all())


def links_from_selection(
    weights: Float[np.ndarray, "T S"],
    source_words: Sequence[int] | None = None,
    target_words: Sequence[int] | None = None,
) -> Links:
    """Link each target word to every source word of which one of its tokens selected a token.

    Scored against gold links (`alignment_score`) these are the selected sets as they stand: each selected
    word without a possible link costs precision, each sure link whose word was not selected costs recall.

    Args:
        weights: Attention of each target token to each source token; above 0 is selected.
        source_words: The word that each source token is part of; see `links_from_weights`.
        target_words: The same of the target tokens.

    Raises:
        DataError: if the word indices are not as many as the tokens.
    """
    joined = join_words(weights, source_words, target_words)
    return frozenset((int(s), int(t)) for t, s in np.argwhere(joined > 0))


def join_words(
    weights: Float[np.ndarray, "T S"],
    source_words: Sequence[int] | None = None,
    target_words: Sequence[int] | None = None,
) -> Float[np.ndarray, "V W"]:
    """Attention of words to words.

    A target word looks at a source word with the sum of the weights on the source word's pieces, averaged
    over the target word's pieces.

    Args:
        weights: Attention of each target token to each source token.
        source_words: The word that each source token is part of, counted from 0; -1 for a token that is part
            of none (end symbol, sink). Without it every token is a word.
        target_words: The same of the target tokens.

    Raises:
        DataError: if the word indices are not as many as the tokens.
    """
    targets, sources = weights.shape
    to_target = _membership(_word_index(target_words, targets, "target_words"))  # (V, T)
    to_source = _membership(_word_index(source_words, sources, "source_words"))  # (W, S)
    pieces = to_target.sum(axis=1, keepdims=True)
    return to_target @ weights.astype(np.float64) @ to_source.T / np.maximum(pieces, 1)


def _word_index(words: Sequence[int] | None, tokens: int, name: str) -> np.ndarray:
    if words is None:
        return np.arange(tokens)
    if len(words) != tokens:
        raise DataError(f"{name}: {len(words)} word indices for {tokens} tokens")
    return np.asarray(words, dtype=np.int64)


def _membership(index: np.ndarray) -> Float[np.ndarray, "W N"]:
    """1 where token n is part of word w; a token of a negative index is part of none."""
    return (np.arange(index.max(initial=-1) + 1)[:, None] == index[None, :]).astype(np.float64)
