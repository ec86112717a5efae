"""Required terms of input lines: which ones can be enforced, and which ones a translation contains."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from regard.data.text import TextSide
from regard.data.vocabulary import UNK
from regard.data.whitespace import normalize_whitespace
from regard.generation.constrained import WordBoundaries, contains_term

__all__ = ["RequiredTerms"]


@dataclass(frozen=True)
class RequiredTerms:
    """Required terms of a target language. The terms of a line are separated by tabs.

    Attributes:
        target: Text processing of the target side.
    """

    target: TextSide

    @cached_property
    def boundaries(self) -> WordBoundaries:
        """Return the word boundaries of the target vocabulary."""
        return WordBoundaries.from_side(self.target)

    def encode_feasible(self, terms: str, max_tokens: int) -> list[list[int]]:
        """Return the token ids of the terms that are in the vocabulary and fit into a translation.

        Args:
            terms: Terms of a line.
            max_tokens: Maximum number of tokens in a translation.
        """
        found: list[list[int]] = []
        for tokens in self._encode(terms).values():
            if 0 < len(tokens) <= max_tokens and UNK not in tokens:
                found.append(tokens)
                max_tokens -= len(tokens)
        return found

    def missing_terms(self, terms: str, translations: Sequence[Sequence[int]]) -> tuple[str, ...]:
        """Return messages about the terms that at least one of several translations does not contain.

        Args:
            terms: Terms of a line.
            translations: Token ids of each translation.
        """
        found: list[str] = []
        for term, tokens in self._encode(terms).items():
            if UNK in tokens:
                found.append(f"{term!r}: it contains tokens outside the target vocabulary")
            elif not all(contains_term(one, tokens, self.boundaries) for one in translations):
                found.append(repr(term))
        return tuple(found)

    def contained_terms(self, terms: str, translation: Sequence[int]) -> str | None:
        """Return the tab-separated terms that a translation contains, or None if no possible term is missing.

        Args:
            terms: Terms of a line.
            translation: Its token ids.
        """
        written = {term: tokens for term, tokens in self._encode(terms).items() if UNK not in tokens}
        found = [
            term for term, tokens in written.items() if contains_term(translation, tokens, self.boundaries)
        ]
        return None if len(found) == len(written) else "\t".join(found)

    def _encode(self, terms: str) -> dict[str, list[int]]:
        """Return the token ids of each term."""
        whole = (normalize_whitespace(term) for term in terms.split("\t")) if terms else ()
        return {term: self.target.encode(term) for term in whole if term}
