"""Word links and attention maps between words: scores of links, and differences of maps.

Precision, recall and alignment error rate (AER) of word links are those of Och & Ney (2003). With the
links A, the sure gold links S and the possible gold links P (S is a subset of P), and counts summed over the
corpus:

    precision = |A & P| / |A|,  recall = |A & S| / |S|,  AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)

Attention maps of two systems can be subtracted if they have the same words. Such maps come from forced
decoding of the same translation, or from systems that produced the same translation. Their columns may differ
by the sink of one system. Columns are matched by word, and a missing sink counts as 0, so a soft attention
map can be subtracted from a constrained one (the comparison of Malaviya et al., 2018, Figure 2).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from jaxtyping import Float

from regard.errors import DataError
from regard.text.links import GoldLinks, Links


@dataclass(frozen=True)
class AlignmentScore:
    """Agreement of links with gold links over a corpus. Each value is between 0 and 1.

    Attributes:
        precision: Share of the links that are possible; 1 if there are no links.
        recall: Share of the sure links that are found; 1 if there are no sure links.
        aer: Alignment error rate, lower is better; 0 if there are neither links nor sure links.
    """

    precision: float
    recall: float
    aer: float


def alignment_score(links: Iterable[Links], gold: Iterable[GoldLinks]) -> AlignmentScore:
    """Compute precision, recall and AER of links against gold links.

    Raises:
        DataError: if the numbers of sentence pairs differ.
    """
    counts = count_links(links, gold).sum(axis=0)
    predicted, sure, found_sure, found_possible = (int(n) for n in counts)
    return AlignmentScore(
        precision=found_possible / predicted if predicted else 1.0,
        recall=found_sure / sure if sure else 1.0,
        aer=1 - (found_sure + found_possible) / (predicted + sure) if predicted + sure else 0.0,
    )


def count_links(links: Iterable[Links], gold: Iterable[GoldLinks]) -> Float[np.ndarray, "n 4"]:
    """Return |A|, |S|, |A & S| and |A & P| of each sentence pair, for `aer_from_counts` and resampling.

    Raises:
        DataError: if the numbers of sentence pairs differ.
    """
    links, gold = list(links), list(gold)
    if len(links) != len(gold):
        raise DataError(
            f"links of {len(links)} sentence pairs, gold links of {len(gold)}: they must cover the same pairs"
        )
    rows = [
        [len(part) for part in (predicted, true.sure, predicted & true.sure, predicted & true.possible)]
        for predicted, true in zip(links, gold, strict=True)
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def aer_from_counts(summed: Float[np.ndarray, "r 4"]) -> Float[np.ndarray, "r"]:
    """Return the AER of rows of summed counts (see `count_links`), for `regard.metrics.base`."""
    predicted, sure, found_sure, found_possible = summed.T
    total = predicted + sure
    # Without links and sure links, the AER is 0.
    agreement = np.where(total > 0, found_sure + found_possible, 1.0)
    return 1 - agreement / np.where(total > 0, total, 1.0)


def links_from_weights(
    weights: Float[np.ndarray, "T S"],
    source_words: Sequence[int] | None = None,
    target_words: Sequence[int] | None = None,
) -> Links:
    """Link each target word to the source word with the highest attention, Ghader & Monz (2017).

    Weights of subword tokens are joined first (`merge_subwords`). Of equal weights, the first is used. A
    target word is not linked if it has no attention to any word, or more to the sink than to any word.
    Symbols that a tokenizer adds to every line (`</s>`) are ignored, because pre-trained models attend to
    them regardless of the word.

    Args:
        weights: Attention of each target token to each source token.
        source_words: Word index of each source token, counted from 0; -1 for the sink, -2 for other tokens
            that are not part of a word. Default: every token is a word.
        target_words: Word index of each target token.
    """
    joined = merge_subwords(weights, source_words, target_words)
    if joined.shape[1] == 0:
        return frozenset()
    best, highest = joined.argmax(axis=1), joined.max(axis=1)
    linked = highest > 0
    if source_words is not None and -1 in source_words:
        # Treat the sink as the only source word to sum the attention to it.
        sinks = [0 if word == -1 else -1 for word in source_words]
        linked &= highest >= merge_subwords(weights, sinks, target_words)[:, 0]
    return frozenset((int(best[t]), int(t)) for t in np.flatnonzero(linked))


def merge_subwords(
    weights: Float[np.ndarray, "T S"],
    source_words: Sequence[int] | None = None,
    target_words: Sequence[int] | None = None,
) -> Float[np.ndarray, "V W"]:
    """Return the attention between words.

    The attention of a target word to a source word is summed over the source word's subword tokens and
    averaged over the target word's. Word indices count from 0; tokens with a negative one (end symbol, sink)
    belong to no word. By default, every token is a word.
    """
    targets, sources = weights.shape
    indices = [
        np.asarray(range(size) if words is None else words, dtype=np.int64)
        for words, size in ((target_words, targets), (source_words, sources))
    ]
    # Matrices (V, T) and (W, S) with 1 where a token is part of a word.
    to_target, to_source = (
        (np.arange(index.max(initial=-1) + 1)[:, None] == index[None, :]).astype(np.float64)
        for index in indices
    )
    sizes = to_target.sum(axis=1, keepdims=True)
    return to_target @ weights.astype(np.float64) @ to_source.T / np.maximum(sizes, 1)


SINK_LABEL = "<sink>"


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """Attention of V target words to W source words and, optionally, to a sink.

    Attributes:
        source: W source words, without the sink.
        target: V target words.
        weights: [V, W], or [V, W + 1] with the column of the sink last.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Float[np.ndarray, "V C"]

    @classmethod
    def of_tokens(
        cls,
        weights: Float[np.ndarray, "T S"],
        source: Sequence[str],
        target: Sequence[str],
        source_words: Sequence[int],
        target_words: Sequence[int],
    ) -> "AttentionMap":
        """Create a map between words from the attention between tokens (see `merge_subwords`)."""
        words = np.asarray(source_words, dtype=np.int64)
        sink = bool((words < 0).any())
        joined = np.zeros((len(target), len(source) + sink))
        # The sink becomes an additional word after the last one.
        merged = merge_subwords(weights, np.where(words < 0, len(source), words).tolist(), target_words)
        joined[: merged.shape[0], : merged.shape[1]] = merged
        return cls(tuple(source), tuple(target), joined)

    @property
    def has_sink(self) -> bool:
        """Return whether the last column is that of the sink."""
        return self.weights.shape[1] > len(self.source)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the labels of the columns: the source words, and `<sink>` if there is one."""
        return (*self.source, SINK_LABEL) if self.has_sink else self.source


def match_columns(maps: Mapping[str, AttentionMap]) -> dict[str, AttentionMap]:
    """Return maps with equal columns: all with a sink if any of them has one.

    Raises:
        DataError: if the words differ; names the first difference.
    """
    (first, base), *others = maps.items()
    for name, attention_map in others:
        for side, base_words, theirs in (
            ("source", base.source, attention_map.source),
            ("translation", base.target, attention_map.target),
        ):
            for place, words in enumerate(zip_longest(base_words, theirs), 1):
                if words[0] != words[1]:
                    ours, other = ("missing" if word is None else repr(word) for word in words)
                    raise DataError(
                        f"the maps of {first} and {name} have different words and cannot be subtracted: word "
                        f"{place} of the {side} is {ours} in {first} and {other} in {name}"
                    )
    if all(attention_map.has_sink == base.has_sink for attention_map in maps.values()):
        return dict(maps)
    # A new column for the sink has zeros.
    return {
        name: attention_map
        if attention_map.has_sink
        else replace(attention_map, weights=np.pad(attention_map.weights, ((0, 0), (0, 1))))
        for name, attention_map in maps.items()
    }


def map_difference(
    one: AttentionMap, other: AttentionMap, names: tuple[str, str] = ("the first", "the second")
) -> AttentionMap:
    """Subtract one map from another. Positive values mean more attention in the first map.

    A sink that only one of them has counts as 0 in the other. The names are those in messages.

    Raises:
        DataError: if the words differ.
    """
    ours, theirs = match_columns(dict(zip(names, (one, other), strict=True))).values()
    return replace(ours, weights=ours.weights.astype(np.float64) - theirs.weights.astype(np.float64))
