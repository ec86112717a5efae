"""Actions: text that says, between its characters, where the reader of its source steps on.

The target of hard monotonic attention (Aharoni & Goldberg 2017): `K→l→ö→ß→e` writes K, steps to the next
character of the source, writes l... `regard actions` makes such text of aligned pairs. Decoding leaves the
steps out, so that what is translated is text again.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from regard.config import config, option
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.words import CharactersConfig, CharactersTokenizer

__all__ = ["STEP", "ActionsConfig", "ActionsTokenizer"]

STEP = "→"


@config
class ActionsConfig:
    """Characters and steps."""

    kind: Literal["actions"] = option(
        default="actions", help="Characters to write and steps along the source, for attention `pointer`."
    )


class ActionsTokenizer(Tokenizer):
    """Characters, of which the arrow is a step; it has the first id whatever the text holds."""

    always = (STEP,)

    def __init__(self, config: ActionsConfig) -> None:
        """Nothing is learned: the configuration is enough."""
        self.config = config
        self._characters = CharactersTokenizer(CharactersConfig())

    def pretokenize(self, line: str) -> list[str]:
        """The actions."""
        return self._characters.pretokenize(line)

    def decode(self, tokens: Sequence[str]) -> str:
        """The characters that are written."""
        return self._characters.decode([token for token in tokens if token != STEP])

    def shown(self, line: str) -> str:
        """The line without its steps."""
        return line.replace(STEP, "")

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """As of characters: a word more at every space; a step is part of the word it stands in."""
        return self._characters.word_ids(tokens)

    def save(self, folder: Path, side: str) -> None:
        """Nothing was learned, nothing is written."""
