"""Tokenizers without learned parameters: white space separated words, and characters."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

from regard.config import configclass, option
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.registry import register_tokenizer
from regard.data.whitespace import normalize_whitespace, split_whitespace

__all__ = ["SPACE_MARK", "CharactersConfig", "CharactersTokenizer", "WordsConfig", "WordsTokenizer"]

SPACE_MARK = "\u2581"
"""The character U+2581, which represents a space in tokens, as in SentencePiece."""


@configclass
class WordsConfig:
    """Words separated by ASCII white space, for text that is already tokenized."""

    kind: Literal["words"] = option(default="words", help="Words separated by ASCII white space.")


@register_tokenizer("words", WordsConfig)
class WordsTokenizer(Tokenizer):
    """A tokenizer that splits text at white space."""

    def pretokenize(self, line: str) -> list[str]:
        """Return the words of a line."""
        return split_whitespace(line)

    def decode(self, tokens: Sequence[str]) -> str:
        """Join words with spaces."""
        return " ".join(tokens)


@configclass
class CharactersConfig:
    """Single characters; a space is represented by U+2581."""

    kind: Literal["characters"] = option(
        default="characters", help="Single characters; a space is a token, too."
    )


@register_tokenizer("characters", CharactersConfig)
class CharactersTokenizer(Tokenizer):
    """A tokenizer that splits text into characters (code points).

    A space becomes the token U+2581, and U+2581 in text becomes the token ` `. The mapping is reversible
    and makes spaces visible in tokens. A space belongs to the word after it.
    """

    _swap = str.maketrans({" ": SPACE_MARK, SPACE_MARK: " "})

    def pretokenize(self, line: str) -> list[str]:
        """Return the characters of a line."""
        return list(normalize_whitespace(line).translate(self._swap))

    def decode(self, tokens: Sequence[str]) -> str:
        """Join characters to text."""
        return "".join(tokens).translate(self._swap)

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the word index of each token; a new word starts at every space."""
        # A space at position 0 does not start a second word.
        return list(accumulate(int(token == SPACE_MARK and i > 0) for i, token in enumerate(tokens)))
