"""Fertilities that a person gives: for the tokens of a line, or for a word wherever it stands."""

import math
from collections.abc import Mapping, Sequence

from regard.data.fertility import Fertilities, read_fertilities
from regard.data.text import Side

__all__ = ["given_fertilities"]


def given_fertilities(
    tokens: Sequence[str],
    side: Side,
    line: str,
    by_word: Mapping[str, tuple[float, float]],
    where: str,
) -> Fertilities | None:
    """What the tokens of a sentence must and may receive, where somebody said so.

    Args:
        tokens: The sentence.
        side: How it is written.
        line: A field for each token or word (see `read_fertilities`), or an empty line: nothing is said.
        by_word: The least and the most for words, each of whose pieces gets them; goes before `line`.
        where: File and line, for messages.

    Raises:
        DataError: if the line does not fit the sentence.
    """
    words = side.word_ids(tokens) if line.strip() or by_word else []
    found = list(read_fertilities(line, words, where)) if line.strip() else None
    if by_word:
        for number in dict.fromkeys(words):
            places = [i for i, word in enumerate(words) if word == number]
            bounds = by_word.get(side.tokenizer.decode([tokens[i] for i in places]).strip())
            if bounds is not None:
                found = [(0.0, math.nan)] * len(tokens) if found is None else found
                for i in places:
                    found[i] = bounds
    return found
