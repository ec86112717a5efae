"""A word aligner with the options of the commands that find dropped words."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.output import print_message

if TYPE_CHECKING:
    from regard.alignment import Corpus, WordAligner
    from regard.data.links import Links

__all__ = ["Linker"]

_MAX_UNKNOWN_SHARE = 0.3  # a warning is printed if more than this share of words is unknown to the aligner


@dataclass(frozen=True)
class Linker:
    """A word aligner that optionally ignores case.

    Attributes:
        aligner: The aligner.
        lowercase: Whether to ignore case.
        num_threads: Number of threads. 0 uses all processors.
    """

    aligner: "WordAligner"
    lowercase: bool
    num_threads: int

    @classmethod
    def load(cls, directory: Path, lowercase: bool, threads: int | None) -> "Linker":
        """Load an aligner. Case is also ignored if it was ignored in training.

        Raises:
            DataError: If the directory does not contain an aligner.
        """
        from regard.alignment import WordAligner

        aligner = WordAligner.load(directory)
        return cls(aligner, lowercase or aligner.lowercase, threads or 0)

    def align(self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> "list[Links]":
        """Return the links of each pair of sentences, which are lists of words."""
        return list(self.aligner.align(self._corpus(pairs), threads=self.num_threads))

    def warn_if_unknown_words(self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        """Print a warning if many of the words are not in the vocabulary of the aligner."""
        from regard.alignment.corpus import UNKNOWN

        corpus = self._corpus(pairs)
        sides = corpus.source.tokens, corpus.target.tokens
        unknown_share = sum(int((side == UNKNOWN).sum()) for side in sides) / max(sum(map(len, sides)), 1)
        if unknown_share > _MAX_UNKNOWN_SHARE:
            print_message(
                f"{unknown_share:.0%} of the words are not in the vocabulary of the aligner. Train it on "
                "text that is split into words in the same way as by the tokenizers of the model."
            )

    def _corpus(self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> "Corpus":
        from regard.alignment import Corpus

        if self.lowercase:
            pairs = [([word.lower() for word in s], [word.lower() for word in t]) for s, t in pairs]
        return Corpus.from_tokens(pairs, self.aligner.words, allow_empty=True)
