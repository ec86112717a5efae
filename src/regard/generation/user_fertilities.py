"""User-specified fertilities, for the tokens of a line or for all occurrences of a word."""

import math
from collections.abc import Mapping, Sequence

from torch import nn

from regard.attention.base import Attention
from regard.data.fertility import Fertilities, parse_fertilities
from regard.data.text import TextSide
from regard.data.whitespace import ASCII_WHITESPACE

__all__ = ["has_bounded_attention", "parse_user_fertilities"]


def has_bounded_attention(model: object) -> bool:
    """Return whether any attention layer of a model respects fertilities."""
    parts = model.modules() if isinstance(model, nn.Module) else ()
    return any(isinstance(part, Attention) and part.bounded for part in parts)


def parse_user_fertilities(
    tokens: Sequence[str],
    side: TextSide,
    line: str,
    by_word: Mapping[str, tuple[float, float]],
    where: str,
) -> Fertilities | None:
    """Return the user-specified bounds on the attention to each token, or None if there are none.

    Args:
        tokens: The sentence.
        side: Text processing of the source.
        line: One field per token or word (see `parse_fertilities`). An empty line specifies nothing.
        by_word: Minimum and maximum for words, applied to each of their subword tokens. Takes precedence over
            `line`.
        where: File and line, for messages.

    Raises:
        DataError: if the line does not match the sentence.
    """
    words = side.word_ids(tokens) if line.strip() or by_word else []
    found = list(parse_fertilities(line, words, where)) if line.strip() else None
    if by_word:
        for number in dict.fromkeys(words):
            places = [i for i, word in enumerate(words) if word == number]
            bounds = by_word.get(side.tokenizer.decode([tokens[i] for i in places]).strip(ASCII_WHITESPACE))
            if bounds is not None:
                # A NaN maximum keeps the model's own fertility.
                found = [(0.0, math.nan)] * len(tokens) if found is None else found
                for i in places:
                    found[i] = bounds
    return found
