"""Required terms of input lines: which ones can be enforced, and which ones a translation contains."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from regard.data.spacing import join_spaces
from regard.data.text import Side
from regard.data.vocabulary import UNK
from regard.decoding.terms import Boundaries, holds

__all__ = ["Demands"]


@dataclass(frozen=True)
class Demands:
    """Required terms of a target language. The terms of a line are separated by tabs.

    Attributes:
        target: Text processing of the target side.
    """

    target: Side

    @cached_property
    def boundaries(self) -> Boundaries:
        """Return the word boundaries of the target vocabulary."""
        return Boundaries.of(self.target)

    def sayable(self, terms: str, room: int) -> list[list[int]]:
        """Return the token ids of the terms that are in the vocabulary and fit into a translation.

        Args:
            terms: Terms of a line.
            room: Maximum number of tokens in a translation.
        """
        found: list[list[int]] = []
        for tokens in self._tokens(terms).values():
            if 0 < len(tokens) <= room and UNK not in tokens:
                found.append(tokens)
                room -= len(tokens)
        return found

    def lacking(self, terms: str, translations: Sequence[Sequence[int]]) -> tuple[str, ...]:
        """Return messages about the terms that at least one of several translations does not contain.

        Args:
            terms: Terms of a line.
            translations: Token ids of each translation.
        """
        found: list[str] = []
        for term, tokens in self._tokens(terms).items():
            if UNK in tokens:
                found.append(f"{term!r}: it contains tokens outside the target vocabulary")
            elif not all(holds(one, tokens, self.boundaries) for one in translations):
                found.append(repr(term))
        return tuple(found)

    def held(self, terms: str, translation: Sequence[int]) -> str | None:
        """Return the tab-separated terms that a translation contains, or None if no possible term is missing.

        Args:
            terms: Terms of a line.
            translation: Its token ids.
        """
        written = {term: tokens for term, tokens in self._tokens(terms).items() if UNK not in tokens}
        found = [term for term, tokens in written.items() if holds(translation, tokens, self.boundaries)]
        return None if len(found) == len(written) else "\t".join(found)

    def _tokens(self, terms: str) -> dict[str, list[int]]:
        """Return the token ids of each term."""
        whole = (join_spaces(term) for term in terms.split("\t")) if terms else ()
        return {term: self.target.encode(term) for term in whole if term}
