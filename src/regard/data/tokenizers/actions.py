"""The action sequences of hard monotonic attention (Aharoni & Goldberg, 2017).

A target sequence consists of characters to write and of steps along the source: `K→l→ö→ß→e` writes K, steps
to the next source character, writes l, and so on. `regard actions` creates such text from aligned pairs.
Decoding removes the steps, so that translations are plain text.
"""

from collections.abc import Sequence
from typing import Literal

from regard.config import configclass, option
from regard.data.punctuation import TextFormat, TextFormatDetector
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.registry import register_tokenizer
from regard.data.tokenizers.words import CharactersConfig, CharactersTokenizer

__all__ = ["STEP", "ActionsConfig", "ActionsTokenizer"]

STEP = "→"


@configclass
class ActionsConfig:
    """Characters to write and steps along the source."""

    kind: Literal["actions"] = option(
        default="actions",
        help="Characters to write and steps along the source, only for the target with attention `pointer`.",
    )


@register_tokenizer("actions", ActionsConfig)
class ActionsTokenizer(Tokenizer):
    """A character tokenizer in which the arrow `→` is a step; the step always has the same id."""

    required_tokens = (STEP,)

    def __init__(self, config: ActionsConfig) -> None:
        """Store the configuration."""
        self.config = config
        self._characters = CharactersTokenizer(CharactersConfig())

    @classmethod
    def detect_format(
        cls, config: ActionsConfig, detector: TextFormatDetector, language: str | None
    ) -> TextFormat:
        """Return the format; actions have no punctuation to separate."""
        return TextFormat(language=language)

    def pretokenize(self, line: str) -> list[str]:
        """Return the actions of a line."""
        return self._characters.pretokenize(line)

    def decode(self, tokens: Sequence[str]) -> str:
        """Join the written characters to text."""
        return self._characters.decode([token for token in tokens if token != STEP])

    def to_plain_text(self, line: str) -> str:
        """Return a line without its steps."""
        return line.replace(STEP, "")

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the word index of each token; a word starts at every space, and steps are part of a word."""
        return self._characters.word_ids(tokens)
