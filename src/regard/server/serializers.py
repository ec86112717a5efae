"""Convert translations and scores to JSON-compatible data, without infinity and NaN."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.data.text import TextProcessor, TextSide
from regard.data.vocabulary import UNK
from regard.data.whitespace import ASCII_WHITESPACE
from regard.generation.lines import LineResult, TextHypothesis
from regard.generation.linking import select_heads
from regard.generation.scoring import LineScore
from regard.metrics.alignment import merge_subwords
from regard.server.jobs import SentenceJob

__all__ = ["serialize_score", "serialize_sentence"]

_DIGITS = 5  # significant digits: rows sum to 1 within 1e-4, and only exact zeros become 0


def serialize_sentence(job: SentenceJob, result: LineResult, text: TextProcessor) -> dict[str, Any]:
    """Return the answer for one sentence.

    Args:
        job: The requested translation.
        result: The result of the search.
        text: Tokenizers and vocabularies of both sides.

    Returns:
        `source`, `source_tokens`, `source_words`, `unknown`, `sink`, `bounds` (lower and upper bound of each
        word) and `translations`, as described by `schemas.SentenceAnswer`.
    """
    tokens = list(result.source_tokens[: len(result.source_tokens) - len(text.sink_tokens)])
    # An untranslated sentence has no sink token to remove.
    if not result.translations:
        tokens = list(result.source_tokens)
    ids = text.source.word_ids(tokens)
    numbers = text.source.vocabulary.to_ids(tokens)
    return {
        "source": job.text,
        "source_tokens": tokens,
        "source_words": _words(text.source, tokens, ids),
        "unknown": sorted({ids[i] for i, number in enumerate(numbers) if number == UNK}),
        "sink": bool(text.sink_tokens) and bool(result.translations),
        "bounds": _bounds(result, tokens, ids, text),
        "translations": [_translation(one, ids, job, text) for one in result.translations],
    }


def _translation(one: TextHypothesis, ids: list[int], job: SentenceJob, text: TextProcessor) -> dict[str, Any]:
    # The maps of a model without attention are all zeros.
    seen = any(layer.any() for layer in one.hypothesis.attention)
    answer: dict[str, Any] = {
        "text": one.text,
        "tokens": list(one.tokens),
        "words": _words(text.target, one.tokens, one.target_words),
        "score": one.score,
        "log_probability": one.hypothesis.log_probability,
        "token_log_probs": list(one.hypothesis.token_log_probs),
        "alignment": [list(link) for link in sorted(one.links)] if seen else [],
        "attention": None,
        "received": None,
        "token_attention": None,
    }
    if seen and job.attention:
        # Treat the sink as an additional word after the last one.
        last = max(ids, default=-1) + 1
        places = [last if place < 0 else place for place in one.source_words]
        answer["attention"] = _numbers(merge_subwords(one.weights, places, one.target_words))
        every = select_heads(one.hypothesis.posterior_attention, one.alignment).mean(axis=1)
        answer["received"] = _numbers(_by_word(every.sum(axis=0), places))
    if seen and job.tokens:
        answer["token_attention"] = _numbers(one.weights)
    return answer


def serialize_score(source: str, target: str, found: LineScore, text: TextProcessor) -> dict[str, Any]:
    """Return the model's score of a given translation, as described by `schemas.PairAnswer`."""
    assert found.hypothesis is not None
    return {
        "source": source,
        "target": target,
        "source_tokens": list(found.source_tokens),
        "tokens": list(found.tokens),
        "source_words": _words(text.source, found.source_tokens, text.source.word_ids(found.source_tokens)),
        "words": _words(text.target, found.tokens, text.target.word_ids(found.tokens)),
        "score": found.hypothesis.score,
        "log_probability": found.hypothesis.log_probability,
        "token_log_probs": list(found.hypothesis.token_log_probs),
        "alignment": [list(link) for link in sorted(found.links)],
    }


def _words(side: TextSide, tokens: Sequence[str], ids: Sequence[int]) -> list[str]:
    """Return the words to which subword tokens belong."""
    subwords: list[list[str]] = [[] for _ in range(max(ids, default=-1) + 1)]
    for token, place in zip(tokens, ids, strict=True):
        subwords[place].append(token)
    return [side.tokenizer.decode(one).strip(ASCII_WHITESPACE) for one in subwords]


def _bounds(
    result: LineResult, tokens: list[str], ids: list[int], text: TextProcessor
) -> list[dict[str, Any]] | None:
    """Return lower and upper bound of the attention of each word: the sums over its subword tokens."""
    if text.budget is None or not tokens:
        return None
    upper, lower = text.budget.bounds([text.source.vocabulary.to_ids(tokens)], [result.fertilities])
    most = _by_word(upper[0][: len(tokens)], ids)
    least = np.zeros_like(most) if lower is None else _by_word(lower[0][: len(tokens)], ids)
    return [
        {"least": float(low), "most": None if math.isinf(high) else float(high)}
        for low, high in zip(least, most, strict=True)
    ]


def _by_word(values: np.ndarray, places: Sequence[int]) -> np.ndarray:
    """Return the sums over the subword tokens of each word."""
    summed = np.zeros(max(places, default=-1) + 1)
    # Unlike `summed[places] += values`, this adds repeated indices.
    np.add.at(summed, list(places), values)
    return summed


def _numbers(values: np.ndarray) -> Any:
    """Return the values rounded to `_DIGITS` significant digits, as nested lists."""
    wide = values.astype(np.float64)
    # `np.where` evaluates both branches, so log10(0) occurs and is discarded.
    with np.errstate(divide="ignore"):
        size = np.where(wide == 0, 0.0, np.floor(np.log10(np.abs(wide))))
    scale = 10.0 ** (_DIGITS - 1 - size)
    return (np.round(wide * scale) / scale).tolist()
