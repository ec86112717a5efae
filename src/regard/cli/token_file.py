"""Reader for the tokens in files of `regard translate --tokens-output` or `--attention-output`.

Tokens cannot be recovered from text. A model may generate the tokens `a@@ b`, but the tokenizer may segment
the same word as `ab`. The actions of pointer attention do not appear in the text at all.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field

from regard.data.reading import InvalidJsonError, parse_json
from regard.errors import DataError
from regard.generation.blocks import PretokenizedPair

if TYPE_CHECKING:
    from regard.data.text import TextProcessor

__all__ = ["read_tokens"]

_Token = Annotated[str, Field(min_length=1)]


class _Line(BaseModel):
    """The fields of a line that `regard score` uses. The weights of `--attention-output` are ignored."""

    source_tokens: list[_Token]
    tokens: list[_Token]
    text: str


def read_tokens(
    path: Path, pairs: Iterable[tuple[str, str]], text: "TextProcessor"
) -> Iterator[PretokenizedPair]:
    """Yield sentence pairs together with their tokens from a file.

    Args:
        path: File written by `regard translate --tokens-output` or `--attention-output`.
        pairs: Source lines and their translations.
        text: Tokenizers and vocabularies of the two sides.

    Raises:
        DataError: If a line of the file has another form or belongs to another translation, or the numbers
            of lines differ. The message gives the line.
    """
    from regard.data.corpus import read_lines

    lines = read_lines(path)
    number = 0
    for number, (source, target) in enumerate(pairs, 1):
        line = next(lines, None)
        if line is None:
            raise DataError(
                f"{path} has only {number - 1} lines, fewer than the text: it must have one line per "
                "translation"
            )
        try:
            kept = parse_json(line, _Line)
        except InvalidJsonError as error:
            raise DataError(
                f"{path}:{number}: the line was not written by `regard translate --tokens-output`: {error}"
            ) from None
        if kept.text != target:
            raise DataError(
                f"{path}:{number}: the tokens belong to {kept.text[:60]!r}, but the translation is "
                f"{target[:60]!r}: give the output file of the same run of `regard translate`"
            )
        read = kept.source_tokens
        # The source tokens in the file include the sink, which is added again when the pair is scored.
        if text.sink_tokens and tuple(read[-len(text.sink_tokens) :]) == text.sink_tokens:
            read = read[: -len(text.sink_tokens)]
        yield PretokenizedPair(source, target, tuple(read), tuple(kept.tokens))
    if next(lines, None) is not None:
        raise DataError(
            f"{path} has more lines than the text, which has {number}: it must have one line per translation"
        )
