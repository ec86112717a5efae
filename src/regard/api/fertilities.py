"""Fertilities that a person gives in Python, in the form that lines carry them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from regard.data.text import Side
from regard.decoding.analysis import words_of
from regard.decoding.by_hand import given_fertilities
from regard.errors import UsageError

__all__ = ["Given", "Wanted", "fertility_line"]

Given = float | tuple[float | None, float | None]
"""The most attention a word may receive; or the least and the most, none where nothing is said."""
Wanted = Mapping[str, Given] | Sequence[Given | None]
"""For words wherever they stand, or for each word of a text in turn (none: as the model has it)."""


def fertility_line(text: str, side: Side, wanted: Wanted | None) -> str:
    """What is wanted of a text's words as a field for each of its tokens; see `read_fertilities`.

    Args:
        text: The text.
        side: How it is written.
        wanted: For its words, each of whose pieces gets it.

    Raises:
        UsageError: if it does not fit the text, or is no fertility.
    """
    if not wanted or side.problem(text):
        return ""
    tokens = side.tokenize(text)
    if isinstance(wanted, Mapping):
        by_word = {word: _bounds(value, f"fertilities[{word!r}]") for word, value in wanted.items()}
        found = given_fertilities(tokens, side, "", by_word, "fertilities")
        return "" if found is None else _line(list(found))
    if isinstance(wanted, str) or not isinstance(wanted, Sequence):
        raise UsageError(f"fertilities={wanted!r}: expected words with numbers, or a number for each word")
    words = words_of(side, tokens)
    if len(wanted) != len(words):
        raise UsageError(
            f"fertilities: {len(wanted)} for a text of {len(words)} words ({', '.join(map(repr, words))}); "
            "expected one a word"
        )
    bounds = [_bounds(value, f"fertilities[{place}]") for place, value in enumerate(wanted)]
    return _line([bounds[word] for word in side.word_ids(tokens)])


def _line(bounds: Sequence[Any]) -> str:
    return " ".join(f"{least!r}:{'' if math.isnan(most) else repr(most)}" for least, most in bounds)


def _bounds(value: Any, name: str) -> tuple[float, float]:
    """The least and the most; NaN for a most that is not given."""
    least, most = value if isinstance(value, tuple | list) and len(value) == 2 else (None, value)
    low = 0.0 if least is None else _number(least, name)
    high = math.nan if most is None else _number(most, name)
    if low > high:
        raise UsageError(f"{name}: at least {low:g} and at most {high:g}; expected the least first")
    return low, high


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UsageError(f"{name}: {value!r}; expected a number from 0 up, or (least, most)")
    return float(value)
