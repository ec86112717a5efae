"""User-specified fertilities of the Python API, converted to the format of fertility files."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from regard.data.text import TextSide
from regard.errors import UsageError
from regard.generation.analysis import tokens_to_words
from regard.generation.user_fertilities import parse_user_fertilities

__all__ = ["FertilityBounds", "WordFertilities", "format_fertilities"]

FertilityBounds = float | tuple[float | None, float | None]
"""Maximum attention that a word may receive, or (minimum, maximum), where None keeps the default."""
WordFertilities = Mapping[str, FertilityBounds] | Sequence[FertilityBounds | None]
"""Fertilities of words by spelling, or one for each word of a text (None keeps the model's own)."""


def format_fertilities(text: str, side: TextSide, fertilities: WordFertilities | None) -> str:
    """Return a line with the fertilities of each token of a text; see `parse_user_fertilities`.

    Args:
        text: The text.
        side: Text processing of the source.
        fertilities: Fertilities of its words, applied to each of their subword tokens.

    Raises:
        UsageError: if they do not match the text or are not valid fertilities.
    """
    if not fertilities or side.format_error(text):
        return ""
    tokens = side.tokenize(text)
    if isinstance(fertilities, Mapping):
        by_word = {word: _bounds(value, f"fertilities[{word!r}]") for word, value in fertilities.items()}
        found = parse_user_fertilities(tokens, side, "", by_word, "fertilities")
        return "" if found is None else _line(list(found))
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
    return _line([bounds[word] for word in side.word_ids(tokens)])


def _line(bounds: Sequence[Any]) -> str:
    return " ".join(
        f"{minimum!r}:{'' if math.isnan(maximum) else repr(maximum)}" for minimum, maximum in bounds
    )


def _bounds(value: Any, name: str) -> tuple[float, float]:
    """Return minimum and maximum. The maximum is NaN if it is not given."""
    minimum, maximum = value if isinstance(value, tuple | list) and len(value) == 2 else (None, value)
    low = 0.0 if minimum is None else _number(minimum, name)
    high = math.nan if maximum is None else _number(maximum, name)
    if low > high:
        raise UsageError(
            f"{name}: the minimum {low:g} is above the maximum {high:g}; expected (minimum, maximum)"
        )
    return low, high


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UsageError(f"{name}: {value!r}; expected a number of at least 0, or (minimum, maximum)")
    return float(value)
