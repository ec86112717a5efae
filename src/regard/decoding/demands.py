"""The terms that a line asks its translation to hold: which can be said, and which were."""

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
    """What lines demand of a target side; the terms of a line have a tab between two.

    Attributes:
        target: The target side.
    """

    target: Side

    @cached_property
    def boundaries(self) -> Boundaries:
        """Where words begin and end."""
        return Boundaries.of(self.target)

    def sayable(self, terms: str, room: int) -> list[list[int]]:
        """The tokens of those terms that the model has words for and a translation has room for.

        Args:
            terms: Those of a line.
            room: The most tokens of a translation.
        """
        found: list[list[int]] = []
        for tokens in self._tokens(terms).values():
            if 0 < len(tokens) <= room and UNK not in tokens:
                found.append(tokens)
                room -= len(tokens)
        return found

    def lacking(self, terms: str, translations: Sequence[Sequence[int]]) -> tuple[str, ...]:
        """The terms that one of some translations does not hold, for people.

        Args:
            terms: Those of a line.
            translations: The tokens of each.
        """
        found: list[str] = []
        for term, tokens in self._tokens(terms).items():
            if UNK in tokens:
                found.append(f"{term!r}: the model cannot write it")
            elif not all(holds(one, tokens, self.boundaries) for one in translations):
                found.append(repr(term))
        return tuple(found)

    def held(self, terms: str, translation: Sequence[int]) -> str | None:
        """The terms that a translation holds; none where it holds all that can be written.

        Args:
            terms: Those of a line.
            translation: Its tokens.
        """
        written = {term: tokens for term, tokens in self._tokens(terms).items() if UNK not in tokens}
        found = [term for term, tokens in written.items() if holds(translation, tokens, self.boundaries)]
        return None if len(found) == len(written) else "\t".join(found)

    def _tokens(self, terms: str) -> dict[str, list[int]]:
        """The terms and their tokens."""
        whole = (join_spaces(term) for term in terms.split("\t")) if terms else ()
        return {term: self.target.encode(term) for term in whole if term}
