"""The tokens of translations, from the file in which `regard translate` has kept them.

Text does not tell its tokens: what a model generates as `a@@ b` may be segmented as `ab` when it is read
again, and the steps of a pointer are not in its text at all.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field

from regard.data.reading import NotJson, parse_json
from regard.decoding.pairs import KeptPair
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.data.text import TextPair

__all__ = ["keep"]

_Token = Annotated[str, Field(min_length=1)]


class _Line(BaseModel):
    """What `score` takes of a line; the weights of `--attention` are ignored."""

    source: list[_Token]
    target: list[_Token]
    text: str


def keep(path: Path, pairs: Iterable[tuple[str, str]], text: "TextPair") -> Iterator[KeptPair]:
    """Yield pairs with the tokens that a file has kept of them.

    Args:
        path: What `regard translate --tokens` or `--attention` wrote.
        pairs: Source lines and their translations.
        text: How the two sides are written.

    Raises:
        DataError: if a line of the file is not of that form, or of another translation; names it.
    """
    from regard.data.corpus import read_lines

    lines = read_lines(path)
    number = 0
    for number, (source, target) in enumerate(pairs, 1):
        line = next(lines, None)
        if line is None:
            raise DataError(
                f"{path} ends after line {number - 1}, and the text does not: expected a line each"
            )
        try:
            kept = parse_json(line, _Line)
        except NotJson as error:
            raise DataError(f"{path}:{number}: not tokens of `regard translate --tokens`: {error}") from None
        if kept.text != target:
            raise DataError(
                f"{path}:{number}: the tokens are of {kept.text[:60]!r}, but the translation is "
                f"{target[:60]!r}: give the text that was written with them"
            )
        read = kept.source
        if text.sink and tuple(read[-len(text.sink) :]) == text.sink:
            read = read[: -len(text.sink)]
        yield KeptPair(source, target, tuple(read), tuple(kept.target))
    if next(lines, None) is not None:
        raise DataError(f"{path} has more lines than the text, which has {number}: expected a line each")
