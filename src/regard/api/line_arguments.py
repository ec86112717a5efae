"""Arguments of the Python API for each sentence: prefixes, required terms and fertilities."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from regard.api.arguments import check_texts
from regard.data.fertility import Bounds
from regard.data.text import TextSide
from regard.errors import UsageError
from regard.generation.base import BaseTranslator
from regard.generation.lines import Line, user_fertilities
from regard.generation.linking import tokens_to_words
from regard.text.words import normalize_whitespace

FertilityBounds = float | tuple[float | None, float | None]
"""Maximum attention that a word may receive, or (minimum, maximum), where None keeps the default."""
WordFertilities = Mapping[str, FertilityBounds] | Sequence[FertilityBounds | None]
"""Fertilities of words by spelling, or one for each word of a text (None keeps the model's own)."""


def input_lines(
    translator: BaseTranslator, texts: Sequence[str], single: bool, fertilities: Any, prefix: Any, terms: Any
) -> list[Line]:
    """Return the sentences with their prefixes, fertilities and terms; see `Translator.translate`.

    Args:
        translator: The translator of the sentences.
        texts: The sentences.
        single: Whether the other arguments are values for a single sentence.
        fertilities: Fertilities of the words.
        prefix: Text that a translation must start with.
        terms: Words and phrases that a translation must contain.

    Raises:
        UsageError: if an argument does not match the sentences, or the translator does not support it.
    """
    if fertilities is not None:
        translator.require("fertility", "fertilities")
    # A string would become a list of terms of one character each.
    if isinstance(terms, str):
        raise UsageError(f"terms={terms!r}: expected a list of words and phrases, not a single string")
    terms = list(terms)
    # A dict has words as keys, so it can apply to all sentences. A list has the words of one sentence.
    shared = single or fertilities is None or isinstance(fertilities, Mapping)
    all_fertilities = _broadcast(fertilities, shared, len(texts), "fertilities")
    prefixes = _broadcast(prefix, single or isinstance(prefix, str), len(texts), "prefix")
    # `all` is true for the default, an empty list, which therefore applies to all sentences.
    all_terms = _broadcast(terms, single or all(isinstance(term, str) for term in terms), len(texts), "terms")
    return [
        Line(
            number,
            text,
            check_texts([prefixes[number - 1]], "prefix")[0],
            _token_bounds(text, translator.text.source, all_fertilities[number - 1]),
            tuple(filter(None, map(normalize_whitespace, check_texts(all_terms[number - 1], "terms")))),
        )
        for number, text in enumerate(texts, 1)
    ]


def _broadcast(value: Any, shared: bool, count: int, name: str) -> list[Any]:
    """Return one value for each sentence: the shared one, or one of the list."""
    if shared:
        return [value] * count
    values = list(value)
    if len(values) != count:
        raise UsageError(f"{name}: {len(values)} for {count} sentences; expected one per sentence")
    return values


def _token_bounds(text: str, side: TextSide, fertilities: WordFertilities | None) -> Bounds | None:
    """Return the minimum and the maximum attention of each token of a text; None if there are none."""
    # The translator reports a text with the wrong format as an error of this sentence alone.
    if not fertilities or side.format_error(text):
        return None
    tokens = side.tokenize(text)
    if isinstance(fertilities, Mapping):
        by_word = {word: _bounds(value, f"fertilities[{word!r}]") for word, value in fertilities.items()}
        return user_fertilities(tokens, side, None, by_word, "fertilities")
    if isinstance(fertilities, str) or not isinstance(fertilities, Sequence):
        raise UsageError(
            f"fertilities={fertilities!r}: expected a dict from words to numbers, or one number per word"
        )
    words = tokens_to_words(side, tokens)
    if len(fertilities) != len(words):
        raise UsageError(
            f"fertilities: {len(fertilities)} for a text of {len(words)} words "
            f"({', '.join(map(repr, words))}); expected one per word"
        )
    bounds = [_bounds(value, f"fertilities[{index}]") for index, value in enumerate(fertilities)]
    return tuple(bounds[word] for word in side.word_ids(tokens))


def _bounds(value: Any, name: str) -> tuple[float, float]:
    """Return minimum and maximum. The maximum is NaN if it is not given."""
    pair: Any = value if isinstance(value, tuple | list) and len(value) == 2 else (None, value)
    for number in pair:
        # `bool` is a subclass of `int`. The negated comparison also rejects NaN.
        if number is not None and (
            isinstance(number, bool) or not isinstance(number, int | float) or not number >= 0
        ):
            raise UsageError(f"{name}: {number!r}; expected a number of at least 0, or (minimum, maximum)")
    low = 0.0 if pair[0] is None else float(pair[0])
    high = math.nan if pair[1] is None else float(pair[1])
    # A missing maximum is NaN, and a comparison with NaN is false.
    if low > high:
        raise UsageError(
            f"{name}: the minimum {low:g} is above the maximum {high:g}; expected (minimum, maximum)"
        )
    return low, high
