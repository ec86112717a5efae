"""Tokenizers that learn nothing and split nothing further: words between white space, and characters."""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal

from regard.config import config, option
from regard.data.spacing import join_spaces, split_at_spaces
from regard.data.tokenizers.base import Tokenizer

__all__ = ["SPACE", "CharactersConfig", "CharactersTokenizer", "WordsConfig", "WordsTokenizer"]

SPACE = "\u2581"
"""The visible mark of a space inside tokens (SentencePiece's)."""


@config
class WordsConfig:
    """Words as ASCII white space separates them, for text that is tokenised already."""

    kind: Literal["words"] = option(default="words", help="Words between ASCII white space.")


class WordsTokenizer(Tokenizer):
    """Words between white space."""

    def __init__(self, config: WordsConfig) -> None:
        """Nothing is learned: the configuration is enough."""
        self.config = config

    def pretokenize(self, line: str) -> list[str]:
        """The words of the line."""
        return split_at_spaces(line)

    def decode(self, tokens: Sequence[str]) -> str:
        """The words with a space between them."""
        return " ".join(tokens)

    def save(self, folder: Path, side: str) -> None:
        """Nothing was learned, nothing is written."""


@config
class CharactersConfig:
    """Single characters, a space shown as the mark U+2581."""

    kind: Literal["characters"] = option(default="characters", help="Single characters.")


class CharactersTokenizer(Tokenizer):
    """Characters (code points); a space is the token U+2581, and a U+2581 of the text the token ` `.

    The swap keeps tokens visible and loses nothing. A space belongs to the word after it.
    """

    _swap = str.maketrans({" ": SPACE, SPACE: " "})

    def __init__(self, config: CharactersConfig) -> None:
        """Nothing is learned: the configuration is enough."""
        self.config = config

    def pretokenize(self, line: str) -> list[str]:
        """The characters of the line."""
        return list(join_spaces(line).translate(self._swap))

    def decode(self, tokens: Sequence[str]) -> str:
        """The characters joined."""
        return "".join(tokens).translate(self._swap)

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """A word more at every space."""
        return list(accumulate(int(token == SPACE and i > 0) for i, token in enumerate(tokens)))

    def save(self, folder: Path, side: str) -> None:
        """Nothing was learned, nothing is written."""
