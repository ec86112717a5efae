"""The lexicon: entries with all inflected forms, parsed from the tables of nouns, verbs, places and so on."""

import itertools
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Generic, TypeVar

from regard.phrasebook import adjectives, nouns, places, verbs
from regard.phrasebook import morphology_de as de
from regard.phrasebook import morphology_en as en

__all__ = [
    "Adjective",
    "Distribution",
    "FixedExpression",
    "Lexicon",
    "Modal",
    "Noun",
    "PlaceEntry",
    "RandomChoices",
    "Verb",
    "lexicon",
    "zipf_distribution",
]

_T = TypeVar("_T")

GENDERS = {"m": de.MASCULINE, "f": de.FEMININE, "n": de.NEUTER}
# Additional noun classes that verbs may select: subsets of the other classes.
NOUN_SUBCLASSES = {
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


class Distribution(Generic[_T]):
    """A categorical distribution over items.

    Args:
        items: The items, at least one.
        weights: The weight of each item; the weights need not sum to one.
    """

    def __init__(self, items: Iterable[_T], weights: Iterable[float]) -> None:
        """Compute the cumulative distribution."""
        self.items = list(items)
        total = list(itertools.accumulate(weights))
        self.cumulative = [value / total[-1] for value in total]
        self.cumulative[-1] = 1.0


def zipf_distribution(items: Sequence[_T]) -> Distribution[_T]:
    """Return a Zipf-like distribution: item r, counted from 1, has a weight of 1 / (r + 3)."""
    return Distribution(items, (1 / (rank + 4) for rank in range(len(items))))


class RandomChoices:
    """A random number generator with the same results on every machine and Python version.

    It uses only `random.Random.random`, whose sequence for a seed is guaranteed by Python.

    Args:
        seed: A non-negative seed.
    """

    def __init__(self, seed: int) -> None:
        """Seed the generator."""
        self._random = Random(seed).random

    def bernoulli(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self._random() < probability

    def sample(self, table: Distribution[_T]) -> _T:
        """Sample an item from a distribution."""
        return table.items[bisect(table.cumulative, self._random())]

    def sample_below(self, number: int) -> int:
        """Sample an integer from 0 to `number` - 1 uniformly."""
        return int(self._random() * number)


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun: semantic class, gender, forms by number and case, English translation."""

    lemma: str
    kind: str
    gender: int
    forms: tuple[tuple[str, ...], tuple[str, ...]]
    singular: tuple[str, ...]
    plural: tuple[str, ...]
    mass: bool


@dataclass(frozen=True, slots=True)
class PlaceEntry:
    """A place with its German and English prepositions of position (`at`) and direction (`to`)."""

    noun: Noun
    at: tuple[str, str]
    to: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective with comparative and superlative, which are empty if it has none."""

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
    """A German verb and its English translation.

    Attributes:
        prefix: The separable prefix, or empty.
        forms: The German forms without the prefix.
        sein: Whether the auxiliary of the perfect is `sein`.
        reflexive: Whether the verb has the reflexive pronoun `sich`.
        english: The English forms.
        state: Whether the verb is stative, without an English progressive.
        subjects: Semantic classes of the subject.
        objects: Semantic classes of the object; empty without an object.
        preposition: German preposition, case, and English preposition or the empty string.
        clauses: The subordinators of clausal complements.
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
    """A modal verb, which is translated as an invariable word or as a verb with a tail (`to`).

    Attributes:
        forms: The German forms.
        present: The English verb for the present.
        past: The English verb for the past, or None if the German preterite is not used.
    """

    forms: de.Conjugation
    present: en.EnglishVerb
    past: en.EnglishVerb | None


@dataclass(frozen=True, slots=True)
class FixedExpression:
    """A fixed expression: its words and, for each English word, the linked German positions."""

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


def _place(line: list[str]) -> PlaceEntry:
    at, to = (field.split() for field in line[1:])
    return PlaceEntry(_noun(line[0], "place"), (at[0], at[1]), (to[0], to[1]))


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
    names = " ".join(kinds).replace("COLOR", adjectives.COLOR_CLASSES).split()
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
    """Parse a verb with a clausal complement; the third field lists the subordinators."""
    return replace(_verb([*line[:2], "person"]), clauses=tuple(line[2].split()))


def _modal(line: list[str]) -> Modal:
    infinitive, singular, second, past = line[0].split()
    polite = "et" if infinitive == "möchten" else "t"
    present = (singular, second, singular, infinitive, infinitive.removesuffix("en") + polite, infinitive)
    preterite = (past, past + "st", past, past + "n", past + "t", past + "n")
    forms = de.Conjugation(present, preterite, infinitive, "", "")
    return Modal(forms, _english(line[1])[0], None if line[2] == "-" else _english(line[2])[0])


def fixed(line: list[str]) -> FixedExpression:
    """Parse a fixed expression: `German | English [| links]`."""
    german, english = tuple(line[0].split()), tuple(line[1].split())
    if len(line) == 2:
        links = tuple((i,) for i in range(len(english)))
    elif line[2] == "*":
        links = tuple(tuple(range(len(german))) for _ in english)
    else:
        pairs = [tuple(map(int, link.split("-"))) for link in line[2].split()]
        links = tuple(tuple(i for i, j in pairs if j == target) for target in range(len(english)))
    return FixedExpression(german, english, links)


def _fixed(text: str) -> Distribution[FixedExpression]:
    return zipf_distribution([fixed(line) for line in _lines(text)])


def _pairs(text: str) -> Distribution[tuple[str, tuple[str, ...]]]:
    pairs = (item.split(":") for item in text.split())
    return zipf_distribution([(german, _words(english)) for german, english in pairs])


class Lexicon:
    """All tables of the grammar as distributions over entries."""

    def __init__(self) -> None:
        """Parse the tables."""
        listed = {
            kind: [_noun(line, kind) for line in text.strip().splitlines()]
            for kind, text in nouns.NOUNS.items()
        }
        by_lemma = {noun.lemma: noun for group in listed.values() for noun in group}
        self.places = zipf_distribution([_place(line) for line in _lines(places.PLACES)])
        listed["place"] = [place.noun for place in self.places.items]
        for kind, lemmas in NOUN_SUBCLASSES.items():
            listed[kind] = [by_lemma[lemma] for lemma in lemmas.split()]
        self.nouns = {kind: zipf_distribution(group) for kind, group in listed.items()}
        self.adjectives = [_adjective(line) for line in _lines(adjectives.ADJECTIVES)]
        self.describing = {
            kind: zipf_distribution(fitting)
            for kind in nouns.NOUNS.keys() | {"place"}
            if (fitting := [adjective for adjective in self.adjectives if kind in adjective.kinds])
        }
        self.verbs = {
            frame: zipf_distribution([_verb(line) for line in _lines(text)])
            for frame, text in verbs.VERBS.items()
        }
        self.clause_verbs = zipf_distribution([_matrix(line) for line in _lines(verbs.CLAUSE_VERBS)])
        self.infinitive_verbs = zipf_distribution([_matrix(line) for line in _lines(verbs.INFINITIVE_VERBS)])
        self.modals = zipf_distribution([_modal(line) for line in _lines(verbs.MODALS)])
        self.names = {
            de.MASCULINE: zipf_distribution(nouns.MALE.split()),
            de.FEMININE: zipf_distribution(nouns.FEMALE.split()),
        }
        self.surnames = zipf_distribution(nouns.SURNAMES.split())
        towns = (line.split() for line in (nouns.TOWNS.strip() + "\n" + nouns.COUNTRIES.strip()).splitlines())
        self.towns = zipf_distribution([(town[0], town[1]) for town in towns])
        self.fixed_places = _fixed(places.FIXED_PLACES)
        self.fixed_directions = _fixed(places.FIXED_DIRECTIONS)
        self.times = {kind: _fixed(text) for kind, text in places.FIXED_TIMES.items()}
        self.weekdays, self.months = _pairs(places.WEEKDAYS), _pairs(places.MONTHS)
        self.units, self.numbers = _pairs(places.TIME_UNITS), _pairs(places.NUMBERS)
        self.greetings = _fixed(places.GREETINGS)
        self.manners = _fixed(adjectives.MANNERS)
        self.middle = _fixed(adjectives.MIDDLE)
        self.sentence_adverbs = _fixed(adjectives.SENTENCE_ADVERBS)


@cache
def lexicon() -> Lexicon:
    """Return the lexicon, which is built on first use."""
    return Lexicon()
