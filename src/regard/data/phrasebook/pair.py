"""Words, phrases on both sides at once, and the finished sentence pair with its gold links."""

from collections.abc import Iterable
from dataclasses import dataclass

from regard.data.links import Links

__all__ = ["Pair", "Phrase", "Token", "Word", "join", "linked", "realise", "word"]


class Word:
    """One German word; English tokens link to the object, so that it may still move or change its form."""

    __slots__ = ("form",)

    def __init__(self, form: str) -> None:
        """Hold a form."""
        self.form = form


Token = tuple[str, tuple[Word, ...]]
"""One English word and the German words it translates."""


@dataclass(slots=True)
class Phrase:
    """A stretch of German and the English it means, each in its own order."""

    german: list[Word]
    english: list[Token]


def word(german: str, *english: str) -> Phrase:
    """One German word and its English words, all linked to it."""
    item = Word(german)
    return Phrase([item], [(form, (item,)) for form in english])


def linked(german: Iterable[str], english: Iterable[str], links: Iterable[Iterable[int]]) -> Phrase:
    """A phrase with, for every English word, the German positions it links to."""
    words = [Word(form) for form in german]
    return Phrase(
        words,
        [(form, tuple([words[i] for i in where])) for form, where in zip(english, links, strict=True)],
    )


def join(*phrases: Phrase) -> Phrase:
    """One phrase after the other, on both sides."""
    german: list[Word] = []
    english: list[Token] = []
    for phrase in phrases:
        german += phrase.german
        english += phrase.english
    return Phrase(german, english)


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence pair with its gold alignment.

    Attributes:
        source: German words, punctuation apart.
        target: English words, punctuation apart.
        links: (i, j): source word i means target word j; all sure.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: Links

    @property
    def fertilities(self) -> tuple[int, ...]:
        """How many target words link to each source word."""
        counts = [0] * len(self.source)
        for i, _ in self.links:
            counts[i] += 1
        return tuple(counts)


def _one_comma(german: list[Word], english: list[Token]) -> list[Word]:
    """German writes one comma where two clauses end or begin, and none before a full stop."""
    kept: list[Word] = []
    for item in german:
        if kept and kept[-1].form == "," and item.form in ",.?!":
            dropped = kept.pop()
            for j, (form, words) in enumerate(english):
                if dropped in words:
                    english[j] = (form, (item,))
        kept.append(item)
    return kept


def _capital(form: str) -> str:
    return form[:1].upper() + form[1:]


def realise(sentence: Phrase) -> Pair:
    """Number the words, capitalise the first on each side, and write the links down."""
    english = sentence.english
    german = _one_comma(sentence.german, english)
    position = {item: i for i, item in enumerate(german)}
    source = [item.form for item in german]
    target = [form for form, _ in english]
    source[0], target[0] = _capital(source[0]), _capital(target[0])
    links = frozenset([(position[item], j) for j, (_, words) in enumerate(english) for item in words])
    return Pair(tuple(source), tuple(target), links)
