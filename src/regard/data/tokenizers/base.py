"""What a tokenizer is: text to tokens and back, in two stages.

A line is first cut into units (`pretokenize`: depends on the whole line), then each unit into tokens
(`segment`: depends on the unit alone). Preparing a corpus uses the difference: every distinct unit is
segmented once, however often it stands in the text.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

__all__ = ["Tokenizer"]


class Tokenizer(ABC):
    """Text to tokens and back.

    Lines have no line breaks; any run of ASCII white space counts as one space. Tokens are never empty and
    hold no line breaks.

    Attributes:
        inventory: The tokens that can be known, where the tokenizer has a closed list; else none.
        always: Tokens known whatever the text holds, with the first ids after the specials.
        listed: All tokens, in the order of their ids, where a model was trained with these; else none.
        around: What models read around every source line beside its tokens, by name.
        apart: Whether, of such a source, tokens of the other side count as words, for links and maps.
        subword: Whether words are cut into parts, so that an unknown token need never be generated.
    """

    inventory: frozenset[str] | None = None
    always: tuple[str, ...] = ()
    listed: tuple[str, ...] | None = None
    around: tuple[str, ...] = ()
    apart: bool = False
    subword: bool = False

    @abstractmethod
    def pretokenize(self, line: str) -> list[str]:
        """Cut a line into units; an empty line has none."""

    def segment(self, unit: str) -> Sequence[str]:
        """Cut a unit into tokens; most tokenizers leave it whole."""
        return (unit,)

    def encode(self, line: str) -> list[str]:
        """The tokens of a line."""
        return [token for unit in self.pretokenize(line) for token in self.segment(unit)]

    def spell(self, token: str) -> Sequence[str]:
        """Return smaller tokens that stand for the same text, for a token that a vocabulary lacks.

        Most tokenizers have none, and return the token itself.
        """
        return (token,)

    @abstractmethod
    def decode(self, tokens: Sequence[str]) -> str:
        """The text that tokens stand for."""

    def shown(self, line: str) -> str:
        """A line as its reader is to see it, which is what decoding gives; most are so already."""
        return line

    def problem(self, line: str) -> str | None:
        """Why a line is not text of the tokenizer's form; none where it is. Most take any."""
        return None

    def symbols(self, tokens: Sequence[str]) -> Sequence[str]:
        """Those of some tokens that come from a list the writer of the text knows, such as features.

        One that a vocabulary lacks is more likely a mistake than a rare word.
        """
        return ()

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """Which word each token belongs to: counted from 0, never falling, subwords of a word sharing one."""
        return list(range(len(tokens)))

    @abstractmethod
    def save(self, folder: Path, side: str) -> None:
        """Write what was learned, if anything, into `folder`, in a file whose name starts with `side`.

        Raises:
            DataError: if it cannot be written.
        """
