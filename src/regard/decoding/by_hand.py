"""Fertilities that a person gives: for the tokens of a line, or for a word wherever it stands."""

import math
from collections.abc import Mapping, Sequence

from torch import nn

from regard.attention.base import Attention
from regard.data.fertility import Fertilities, read_fertilities
from regard.data.spacing import SPACES
from regard.data.text import Side, TextPair
from regard.errors import UsageError

__all__ = ["check_bounded", "given_fertilities", "is_bounded"]


def check_bounded(model: object, text: TextPair, name: str) -> None:
    """See that fertilities given would bound something.

    Args:
        model: The model.
        text: How its two sides are written.
        name: What to call it.

    Raises:
        UsageError: if it has no fertilities, or no attention that keeps within them.
    """
    if text.budget is None:
        raise UsageError(
            f"fertilities bound the attention of models trained with data.fertility; {name} was not"
        )
    if not is_bounded(model):
        raise UsageError(f"fertilities bound constrained attention; {name} has none")


def is_bounded(model: object) -> bool:
    """Whether some of a model's attention keeps within fertilities."""
    parts = model.modules() if isinstance(model, nn.Module) else ()
    return any(isinstance(part, Attention) and part.bounded for part in parts)


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
            bounds = by_word.get(side.tokenizer.decode([tokens[i] for i in places]).strip(SPACES))
            if bounds is not None:
                found = [(0.0, math.nan)] * len(tokens) if found is None else found
                for i in places:
                    found[i] = bounds
    return found
