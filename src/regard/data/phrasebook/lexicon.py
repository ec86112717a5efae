"""The lexicon: the tables of nouns, places, verbs and adjectives, read into entries with all their forms."""

import itertools
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Generic, TypeVar

from regard.data.phrasebook import adjectives, nouns, places, verbs
from regard.data.phrasebook import morphology_de as de
from regard.data.phrasebook import morphology_en as en

__all__ = [
    "Adjective",
    "Draw",
    "Fixed",
    "Lexicon",
    "Modal",
    "Noun",
    "Place",
    "Table",
    "Verb",
    "lexicon",
    "zipf",
]

T = TypeVar("T")

GENDERS = {"m": de.MASCULINE, "f": de.FEMININE, "n": de.NEUTER}
# Kinds that a verb may ask for and that are a few nouns, or all of other kinds.
SUBKINDS = {
    "child": "Kind Junge Mädchen Zwilling",
    "driven": "Auto Zug Bus Taxi Straßenbahn Lastwagen Sportwagen Motorrad",
    "pupil": "Schüler Student Schülerin Studentin",
    "bread": "Brot Kuchen Apfelkuchen Brötchen",
    "song": "Lied",
    "story": "Geschichte Märchen",
    "letter": "Brief Nachricht Postkarte Liebesbrief",
    "question": "Frage",
    "problem": "Problem Aufgabe",
}


class Table(Generic[T]):
    """Items and how often each is drawn.

    Args:
        items: At least one.
        weights: One a item; they need not sum to one.
    """

    def __init__(self, items: Iterable[T], weights: Iterable[float]) -> None:
        """Sum the weights."""
        self.items = list(items)
        total = list(itertools.accumulate(weights))
        self.cumulative = [value / total[-1] for value in total]
        self.cumulative[-1] = 1.0


def zipf(items: Sequence[T]) -> Table[T]:
    """Items in order of frequency: the r-th is drawn in proportion to 1 / (r + 3), as words are in text."""
    return Table(items, (1 / (rank + 4) for rank in range(len(items))))


class Draw:
    """Random choices that are the same on every machine and Python version.

    Only `random.Random.random` is used: Python promises its sequence for a seed.

    Args:
        seed: Not negative.
    """

    def __init__(self, seed: int) -> None:
        """Start from the seed."""
        self._random = Random(seed).random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random() < probability

    def pick(self, table: Table[T]) -> T:
        """One item by its weight."""
        return table.items[bisect(table.cumulative, self._random())]

    def below(self, number: int) -> int:
        """An integer from 0 up to, not including, `number`."""
        return int(self._random() * number)


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun: its forms by number and case, its gender, its English, and whether it is a mass noun."""

    lemma: str
    kind: str
    gender: int
    forms: tuple[tuple[str, ...], tuple[str, ...]]
    singular: tuple[str, ...]
    plural: tuple[str, ...]
    mass: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A place: where one is, where one goes to."""

    noun: Noun
    at: tuple[str, str]
    to: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective: positive, comparative and superlative (the last two empty where there is none)."""

    lemma: str
    stem: str
    comparative: str
    superlative: str
    english: str
    more: tuple[str, ...]
    most: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb on both sides.

    Attributes:
        prefix: The separable prefix, or empty.
        forms: Without the prefix.
        sein: Whether its perfect takes `sein`.
        reflexive: Whether it takes `sich`.
        english: Its English forms.
        state: Whether it names a state: no progressive.
        subjects: The nouns that may be its subject, by kind.
        objects: The kinds of object, if any.
        preposition: German preposition, case, English preposition (or empty).
        clauses: What clauses it takes.
    """

    prefix: str
    forms: de.Conjugation
    sein: bool
    reflexive: bool
    english: en.EnglishVerb
    state: bool
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    preposition: tuple[str, int, str]
    clauses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Modal:
    """A modal verb: German forms; English present and past, an invariable word or a verb with a tail (`to`).

    Attributes:
        forms: The German forms.
        present: English present.
        past: English past; none where the German preterite is not used.
    """

    forms: de.Conjugation
    present: en.EnglishVerb
    past: en.EnglishVerb | None


@dataclass(frozen=True, slots=True)
class Fixed:
    """A phrase that never changes, with its links."""

    german: tuple[str, ...]
    english: tuple[str, ...]
    links: tuple[tuple[int, ...], ...]


def _lines(text: str) -> Iterator[list[str]]:
    for line in text.strip().splitlines():
        yield [field.strip() for field in line.split("|")]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split("_"))


def _noun(line: str, kind: str) -> Noun:
    lemma, gender, genitive, plural, english, *more = line.split()
    mass = plural == "-"
    forms = de.noun_forms(
        lemma, lemma if genitive == "-" else genitive, lemma if mass else plural, gender == "m*"
    )
    *first, last = _words(english)
    return Noun(
        lemma,
        kind,
        GENDERS[gender[0]],
        forms,
        (*first, last),
        (*first, more[0] if more else en.plural(last)),
        mass,
    )


def _place(line: list[str]) -> Place:
    at, to = (field.split() for field in line[1:])
    return Place(_noun(line[0], "place"), (at[0], at[1]), (to[0], to[1]))


def _stem(adjective: str) -> str:
    special = {"hoch": "hoh", "dunkel": "dunkl", "teuer": "teur"}
    return special.get(adjective, adjective.removesuffix("e"))


def _adjective(line: list[str]) -> Adjective:
    german, english, kinds = (field.split() for field in line)
    lemma = german[0]
    if german[1:] == ["!"]:
        comparative, superlative = "", ""
    else:
        base = lemma.removesuffix("e")
        comparative, superlative = german[1:] or (base + "er", lemma + "st")
    more, most = en.compare(english[0], english[1:])
    names = " ".join(kinds).replace("COLOUR", adjectives.COLOURS).split()
    return Adjective(lemma, _stem(lemma), comparative, superlative, english[0], more, most, tuple(names))


def _english(text: str) -> tuple[en.EnglishVerb, bool]:
    words = text.split()
    parts = [word for word in words if word[0] not in "+="]
    tail = next((_words(word[1:]) for word in words if word[0] == "+"), ())
    return en.english_verb(parts, tail), "=" in words or parts == ["be"]


def _verb(line: list[str]) -> Verb:
    words = line[0].split()
    reflexive, sein = words[0] == "sich", words[-1] == "s"
    parts = words[1 if reflexive else 0 : -1 if sein else len(words)]
    prefix, _, infinitive = parts[0].rpartition("/")
    english, state = _english(line[1])
    preposition, case, translation = line[4].split() if len(line) > 4 else ("", "", "-")
    return Verb(
        prefix,
        de.conjugate([infinitive, *parts[1:]]),
        sein,
        reflexive,
        english,
        state,
        tuple(line[2].split()),
        tuple(line[3].split()) if len(line) > 3 else (),
        (preposition, de.ACC if case == "acc" else de.DAT, translation.strip("-")),
    )


def _matrix(line: list[str]) -> Verb:
    """A verb that takes a clause: its third field names the kinds."""
    return replace(_verb([*line[:2], "person"]), clauses=tuple(line[2].split()))


def _modal(line: list[str]) -> Modal:
    infinitive, singular, second, past = line[0].split()
    polite = "et" if infinitive == "möchten" else "t"
    present = (singular, second, singular, infinitive, infinitive.removesuffix("en") + polite, infinitive)
    preterite = (past, past + "st", past, past + "n", past + "t", past + "n")
    forms = de.Conjugation(present, preterite, infinitive, "", "")
    return Modal(forms, _english(line[1])[0], None if line[2] == "-" else _english(line[2])[0])


def fixed(line: list[str]) -> Fixed:
    """Read a fixed phrase: `German | English [| links]`."""
    german, english = tuple(line[0].split()), tuple(line[1].split())
    if len(line) == 2:
        links = tuple((i,) for i in range(len(english)))
    elif line[2] == "*":
        links = tuple(tuple(range(len(german))) for _ in english)
    else:
        pairs = [tuple(map(int, link.split("-"))) for link in line[2].split()]
        links = tuple(tuple(i for i, j in pairs if j == target) for target in range(len(english)))
    return Fixed(german, english, links)


def _fixed(text: str) -> Table[Fixed]:
    return zipf([fixed(line) for line in _lines(text)])


def _pairs(text: str) -> Table[tuple[str, tuple[str, ...]]]:
    pairs = (item.split(":") for item in text.split())
    return zipf([(german, _words(english)) for german, english in pairs])


class Lexicon:
    """Every table of the grammar, ready to draw from."""

    def __init__(self) -> None:
        """Read the tables."""
        listed = {
            kind: [_noun(line, kind) for line in text.strip().splitlines()]
            for kind, text in nouns.NOUNS.items()
        }
        by_lemma = {noun.lemma: noun for group in listed.values() for noun in group}
        self.places = zipf([_place(line) for line in _lines(places.PLACES)])
        listed["place"] = [place.noun for place in self.places.items]
        for kind, lemmas in SUBKINDS.items():
            listed[kind] = [by_lemma[lemma] for lemma in lemmas.split()]
        self.nouns = {kind: zipf(group) for kind, group in listed.items()}
        self.adjectives = [_adjective(line) for line in _lines(adjectives.ADJECTIVES)]
        self.describing = {
            kind: zipf(fitting)
            for kind in nouns.NOUNS.keys() | {"place"}
            if (fitting := [adjective for adjective in self.adjectives if kind in adjective.kinds])
        }
        self.verbs = {
            frame: zipf([_verb(line) for line in _lines(text)]) for frame, text in verbs.VERBS.items()
        }
        self.clause_verbs = zipf([_matrix(line) for line in _lines(verbs.CLAUSE_VERBS)])
        self.infinitive_verbs = zipf([_matrix(line) for line in _lines(verbs.INFINITIVE_VERBS)])
        self.modals = zipf([_modal(line) for line in _lines(verbs.MODALS)])
        self.names = {de.MASCULINE: zipf(nouns.MALE.split()), de.FEMININE: zipf(nouns.FEMALE.split())}
        self.surnames = zipf(nouns.SURNAMES.split())
        towns = (line.split() for line in (nouns.TOWNS.strip() + "\n" + nouns.COUNTRIES.strip()).splitlines())
        self.towns = zipf([(town[0], town[1]) for town in towns])
        self.fixed_places = _fixed(places.FIXED_PLACES)
        self.fixed_directions = _fixed(places.FIXED_DIRECTIONS)
        self.times = {kind: _fixed(text) for kind, text in places.FIXED_TIMES.items()}
        self.weekdays, self.months = _pairs(places.WEEKDAYS), _pairs(places.MONTHS)
        self.units, self.numbers = _pairs(places.AGO_UNITS), _pairs(places.NUMBERS)
        self.greetings = _fixed(places.GREETINGS)
        self.manners = _fixed(adjectives.MANNERS)
        self.middle = _fixed(adjectives.MIDDLE)
        self.sentence_adverbs = _fixed(adjectives.SENTENCE_ADVERBS)


@cache
def lexicon() -> Lexicon:
    """The lexicon, read on first use."""
    return Lexicon()
