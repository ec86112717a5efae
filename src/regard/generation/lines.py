"""Lines of input with their prefixes, required terms and user-specified fertilities."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Literal

from torch import nn

from regard.attention.base import Attention
from regard.data.fertility import Bounds, parse_bounds, token_fertilities
from regard.data.text import TextSide
from regard.errors import DataError
from regard.text.words import ASCII_WHITESPACE, normalize_whitespace, split_whitespace


@dataclass(frozen=True)
class Line:
    """A line to translate.

    Attributes:
        number: Line number, counted from 1.
        text: Source text.
        prefix: Text that the translation must start with.
        fertilities: Minimum and maximum attention of the tokens, or of the words, for models with
            fertilities. A maximum of NaN keeps the model's own. None keeps them all.
        terms: Words and phrases that the translation must contain.
        fertilities_name: Origin of the fertilities, for messages.
    """

    number: int
    text: str
    prefix: str = ""
    fertilities: Bounds | None = None
    terms: tuple[str, ...] = ()
    fertilities_name: str = "the fertilities"


def enumerate_lines(
    lines: Iterable[str],
    prefixes: Iterable[str] | None = None,
    fertilities: Iterable[str] | None = None,
    terms: Iterable[str] | None = None,
    names: tuple[str, str, str] = ("the prefixes", "the fertilities", "the terms"),
) -> Iterator[Line]:
    """Yield numbered lines with their prefixes, fertilities and required terms.

    Args:
        lines: The lines.
        prefixes: One prefix per line.
        fertilities: One line of fertilities per line, such as `2 - 1:3 0`; see `parse_bounds`.
        terms: One line of terms per line, separated by tabs.
        names: Origins of prefixes, fertilities and terms, for messages.

    Raises:
        DataError: if the numbers of lines differ, or a line is not one of fertilities.
    """
    files = [repeat("") if entries is None else iter(entries) for entries in (prefixes, fertilities, terms)]
    number = 0
    for number, text in enumerate(lines, 1):
        fields = [next(entries, None) for entries in files]
        for field, name in zip(fields, names, strict=True):
            if field is None:
                raise DataError(
                    f"{name} ends after line {number - 1}, but the text to translate has a line {number}: "
                    "both must have the same number of lines"
                )
        prefix, bounds, listed = (field or "" for field in fields)
        where = f"{names[1]}, line {number}"
        yield Line(
            number,
            text,
            prefix,
            tuple(parse_bounds(field, where) for field in split_whitespace(bounds)) or None,
            tuple(filter(None, map(normalize_whitespace, listed.split("\t")))),
            names[1],
        )
    for entries, name in zip(files, names, strict=True):
        if not isinstance(entries, repeat) and next(entries, None) is not None:
            raise DataError(f"{name} has more lines than the text to translate, which has {number}")


def any_attention(model: nn.Module, quality: Literal["bounded", "has_posterior"]) -> bool:
    """Return whether any attention layer of a model has a quality: an attribute of `Attention`."""
    return any(isinstance(part, Attention) and getattr(part, quality) for part in model.modules())


def user_fertilities(
    tokens: Sequence[str],
    side: TextSide,
    bounds: Bounds | None,
    by_word: Mapping[str, tuple[float, float]],
    where: str,
) -> Bounds | None:
    """Return the user-specified bounds on the attention to each token, or None if there are none.

    Args:
        tokens: The sentence.
        side: Text processing of the source.
        bounds: Minimum and maximum of each token or word.
        by_word: Minimum and maximum for words and each of their subword tokens, which override `bounds`.
        where: File and line, for messages.

    Raises:
        DataError: if the number of bounds does not match the sentence.
    """
    words = side.word_ids(tokens) if bounds or by_word else []
    token_bounds = list(token_fertilities(bounds, words, where)) if bounds else None
    if by_word:
        for number in dict.fromkeys(words):
            places = [i for i, word in enumerate(words) if word == number]
            word_bounds = by_word.get(
                side.tokenizer.decode([tokens[i] for i in places]).strip(ASCII_WHITESPACE)
            )
            if word_bounds is not None:
                # A NaN maximum keeps the model's own fertility.
                token_bounds = [(0.0, math.nan)] * len(tokens) if token_bounds is None else token_bounds
                for i in places:
                    token_bounds[i] = word_bounds
    return token_bounds
