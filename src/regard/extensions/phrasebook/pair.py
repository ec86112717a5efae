"""Data structures of the grammar: words, bilingual phrases, and sentence pairs with gold links."""

from collections.abc import Iterable
from dataclasses import dataclass

from regard.text.links import Links

__all__ = [
    "CorpusPair",
    "Phrase",
    "Token",
    "Word",
    "arrange",
    "concatenate",
    "realize",
    "sentence",
    "word_phrase",
]


@dataclass(slots=True, eq=False)
class Word:
    """A German word. English tokens link to this object, so that its position and form can still change."""

    form: str


Token = tuple[str, tuple[Word, ...]]
"""An English word and the German words to which it is linked."""


@dataclass(slots=True)
class Phrase:
    """A German phrase and its English translation, each in its own word order."""

    german: list[Word]
    english: list[Token]


def word_phrase(german: str, *english: str) -> Phrase:
    """Return a phrase of one German word and its English words, if any, which are all linked to it."""
    item = Word(german)
    return Phrase([item], [(form, (item,)) for form in english])


def concatenate(*phrases: Phrase) -> Phrase:
    """Concatenate phrases on both sides."""
    german: list[Word] = []
    english: list[Token] = []
    for phrase in phrases:
        german += phrase.german
        english += phrase.english
    return Phrase(german, english)


def arrange(german: Iterable[Phrase], english: Iterable[Phrase]) -> Phrase:
    """Return a phrase from constituents that are in different orders on the two sides."""
    return Phrase(concatenate(*german).german, concatenate(*english).english)


def sentence(*phrases: Phrase, mark: str = ".") -> Phrase:
    """Concatenate phrases and append a final mark on both sides."""
    return concatenate(*phrases, word_phrase(mark, mark))


@dataclass(frozen=True, slots=True)
class CorpusPair:
    """A sentence pair with its gold alignment.

    Attributes:
        source: The German words and punctuation marks.
        target: The English words and punctuation marks.
        links: Pairs (i, j) of a source position and a target position, from 0; all are sure links.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: Links

    @property
    def fertilities(self) -> tuple[int, ...]:
        """The number of target words that are linked to each source word."""
        counts = [0] * len(self.source)
        for i, _ in self.links:
            counts[i] += 1
        return tuple(counts)


def _one_comma(german: list[Word], english: list[Token]) -> list[Word]:
    """Merge adjacent commas at German clause boundaries, and remove commas before a final mark."""
    merged: list[Word] = []
    for item in german:
        if merged and merged[-1].form == "," and item.form in ",.?!":
            dropped = merged.pop()
            # English commas that are linked to the removed comma now link to the kept mark.
            for j, (form, words) in enumerate(english):
                if dropped in words:
                    english[j] = (form, (item,))
        merged.append(item)
    return merged


def realize(phrase: Phrase) -> CorpusPair:
    """Convert a phrase to a sentence pair: fix commas, capitalize, and compute the positions of links."""
    english = phrase.english
    german = _one_comma(phrase.german, english)
    # Links refer to word objects until now, since the order was not known before.
    position = {item: i for i, item in enumerate(german)}
    source = [item.form for item in german]
    target = [form for form, _ in english]
    for words in (source, target):
        words[0] = words[0][:1].upper() + words[0][1:]
    links = frozenset([(position[item], j) for j, (_, words) in enumerate(english) for item in words])
    return CorpusPair(tuple(source), tuple(target), links)
