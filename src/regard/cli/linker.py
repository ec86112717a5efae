"""A word aligner as the modes of `regard analyse` ask it for links."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.progress import say

if TYPE_CHECKING:
    from regard.alignment import Corpus, WordAligner
    from regard.data.links import Links

__all__ = ["Linker"]

_STRANGE = 0.3  # the share of words an aligner may not know before a person is told


@dataclass(frozen=True)
class Linker:
    """A word aligner that may ignore case.

    Attributes:
        aligner: The aligner.
        lowercase: Whether to ignore case.
        threads: Of compiled work; 0: as many as there are processors.
    """

    aligner: "WordAligner"
    lowercase: bool
    threads: int

    @classmethod
    def load(cls, folder: Path, lowercase: bool, threads: int | None) -> "Linker":
        """Load an aligner; case is ignored too if it was in its training.

        Raises:
            DataError: if the folder does not hold one.
        """
        from regard.alignment import WordAligner

        aligner = WordAligner.load(folder)
        return cls(aligner, lowercase or aligner.lowercase, threads or 0)

    def align(self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> "list[Links]":
        """The links of pairs of sentences in words."""
        return list(self.aligner.align(self._corpus(pairs), threads=self.threads))

    def warn_if_strange(self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        """Tell of an aligner that hardly knows the words."""
        from regard.alignment.corpus import UNKNOWN

        corpus = self._corpus(pairs)
        sides = corpus.source.tokens, corpus.target.tokens
        strange = sum(int((side == UNKNOWN).sum()) for side in sides) / max(sum(map(len, sides)), 1)
        if strange > _STRANGE:
            say(
                f"the aligner has never seen {strange:.0%} of the words: was it trained on text cut into "
                "words as the model's tokenizers cut it?"
            )

    def _corpus(self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> "Corpus":
        from regard.alignment import Corpus

        if self.lowercase:
            pairs = [([word.lower() for word in s], [word.lower() for word in t]) for s, t in pairs]
        return Corpus.from_tokens(pairs, self.aligner.words, allow_empty=True)
