"""Random choices, the entries of the lexicon with all inflected forms, and the lexicon.

The lexicon is read from six tables, whose columns `tables/README.md` describes.
"""

import csv
import tomllib
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate, groupby
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Generic, TypeVar

from regard.extensions.phrasebook.morphology import (
    ACC,
    DAT,
    FEMININE,
    MASCULINE,
    NEUTER,
    NOM,
    Conjugation,
    EnglishVerb,
    conjugate,
    english_verb,
    noun_forms,
    regular_plural,
)

_TABLES = Path(__file__).parent / "tables"
CASES = {"": DAT, "acc": ACC, "dat": DAT}

_T = TypeVar("_T")


class Distribution(Generic[_T]):
    """A categorical distribution over items.

    Args:
        weights: The weight of each item, at least one; the weights need not sum to one.
    """

    def __init__(self, weights: Mapping[_T, float]) -> None:
        """Compute the cumulative distribution."""
        self.items = list(weights)
        total = list(accumulate(weights.values()))
        self.cumulative = [value / total[-1] for value in total]
        # Rounding could leave the last value below 1, and an item index out of range.
        self.cumulative[-1] = 1.0


def zipf_distribution(items: Iterable[_T], exponent: float = 1.0) -> Distribution[_T]:
    """Return a Zipf-like distribution: item r, counted from 1, has a weight of 1 / (r + 3) ** exponent."""
    return Distribution({item: 1 / (rank + 4) ** exponent for rank, item in enumerate(items)})


@cache
def weights(name: str) -> Distribution[str]:
    """Return a distribution of `tables/weights.toml`."""
    return Distribution(tomllib.loads((_TABLES / "weights.toml").read_text(encoding="utf-8"))[name])


class RandomChoices:
    """A random number generator with the same results on every machine and Python version.

    It uses only `random.Random.random`, whose sequence for a seed is guaranteed by Python.
    """

    def __init__(self, seed: int) -> None:
        """Seed the generator."""
        self._random = Random(seed).random

    def bernoulli(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self._random() < probability

    def sample(self, table: Distribution[_T]) -> _T:
        """Sample an item from a distribution."""
        # Binary search of the cumulative distribution; `random` is less than 1.
        return table.items[bisect(table.cumulative, self._random())]

    def sample_named(self, name: str) -> str:
        """Sample an item from a distribution of `tables/weights.toml`."""
        return self.sample(weights(name))

    def sample_where(self, table: Distribution[_T], accept: Callable[[_T], bool]) -> _T:
        """Sample an item that `accept` accepts, by rejection sampling."""
        while not accept(item := self.sample(table)):
            pass
        return item

    def sample_below(self, number: int) -> int:
        """Sample an integer from 0 to `number` - 1 uniformly."""
        return int(self._random() * number)


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


TableRow = dict[str, str]
"""A line of a table: its cells by column."""


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun: semantic class, gender, forms by number and case, English translation.

    Like all entries, nouns are compared by identity, which makes hashing fast.
    """

    lemma: str
    kind: str
    gender: int
    forms: tuple[tuple[str, ...], tuple[str, ...]]
    singular: tuple[str, ...]
    plural: tuple[str, ...]
    mass: bool


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A place with its German and English prepositions of position (`at`) and direction (`to`)."""

    noun: Noun
    at: tuple[str, str]
    to: tuple[str, str]
    features: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
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
    groups: tuple[str, ...]

    def excludes(self, other: "Adjective") -> bool:
        """Return whether two adjectives cannot be combined: equal, opposites or two colors."""
        return self.lemma == other.lemma or not set(self.groups).isdisjoint(other.groups)


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A German verb and its English translation.

    Attributes:
        prefix: The separable prefix, or empty.
        forms: The German forms without the prefix.
        features: Features; see `tables/README.md`.
        reflexive: Whether the verb has the reflexive pronoun `sich`.
        sein: Whether the auxiliary of the perfect is `sein`.
        subjects: Semantic classes of the subject.
        objects: Semantic classes of the object; empty without an object.
        preposition: German preposition, case, and English preposition or the empty string.
        complements: The subordinators of clausal complements, or the English form of an infinitive.
    """

    prefix: str
    forms: Conjugation
    english: EnglishVerb
    features: tuple[str, ...]
    reflexive: bool = False
    sein: bool = False
    subjects: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    preposition: tuple[str, int, str] = ("", NOM, "")
    complements: tuple[str, ...] = ()

    @property
    def stative(self) -> bool:
        """Whether the verb is stative, without an English progressive."""
        return "stative" in self.features


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A fixed expression: its words and, for each English word, the linked German positions."""

    german: tuple[str, ...]
    english: tuple[str, ...]
    links: tuple[tuple[int, ...], ...]

    def phrase(self) -> Phrase:
        """Return a new phrase from the expression."""
        words = [Word(form) for form in self.german]
        linked = zip(self.english, self.links, strict=True)
        return Phrase(words, [(form, tuple([words[i] for i in where])) for form, where in linked])


def _read(table: str) -> list[TableRow]:
    """Return the rows of a table. Empty cells at the end of a line may be omitted."""
    with (_TABLES / f"{table}.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE, restval=""))


def _grouped(rows: list[TableRow], column: str) -> dict[str, list[TableRow]]:
    """Return the rows of each value of a column, in their order."""
    # Sorting is stable, so that the rows of a value keep their order, which is that of their frequencies.
    ordered = sorted(rows, key=itemgetter(column))
    return {value: list(group) for value, group in groupby(ordered, key=itemgetter(column))}


def _noun(row: TableRow) -> Noun:
    lemma, mass = row["lemma"], row["plural"] == "-"
    plural = lemma if mass else row["plural"]
    forms = noun_forms(lemma, row["genitive"] or lemma, plural, weak=row["declension"] == "weak")
    # Only the last word of an English compound has a plural form.
    *first, last = row["english"].split()
    english_plural = row["english_plural"] or regular_plural(last)
    gender = {"m": MASCULINE, "f": FEMININE, "n": NEUTER}[row["gender"]]
    return Noun(lemma, row["class"], gender, forms, (*first, last), (*first, english_plural), mass)


def _adjective(row: TableRow) -> Adjective:
    lemma, english = row["lemma"], row["english"]
    # The comparative of `leise` is `leiser`, but its superlative stem `leisest` keeps the `e`.
    base, english_base = lemma.removesuffix("e"), english.removesuffix("e")
    return Adjective(
        lemma,
        stem=row["stem"] or base,
        comparative=(row["comparative"] or base + "er").strip("-"),
        superlative=(row["superlative"] or lemma + "st").strip("-"),
        english=english,
        more=tuple((row["english_comparative"] or english_base + "er").split()),
        most=tuple((row["english_superlative"] or english_base + "est").split()),
        kinds=tuple(row["classes"].split()),
        groups=tuple(row["groups"].split()),
    )


def _verb(row: TableRow) -> Verb:
    lemma = row["infinitive"].removeprefix("sich ")
    # Without a slash `rpartition` gives an empty prefix.
    prefix, _, infinitive = lemma.rpartition("/")
    german = [infinitive, row["present"], row["preterite"], row["participle"]]
    english = [row["english"], row["english_past"], row["english_participle"]]
    return Verb(
        prefix,
        conjugate([part for part in german if part]),
        english_verb([part for part in english if part], tuple(row["particles"].split())),
        tuple(row["features"].split()),
        reflexive=lemma != row["infinitive"],
        sein=row["auxiliary"] == "sein",
        subjects=tuple(row["subjects"].split()),
        objects=tuple(row["objects"].split()),
        preposition=(row["preposition"], CASES[row["case"]], row["english_preposition"]),
        complements=tuple(row["complements"].split()),
    )


def _expression(row: TableRow) -> Expression:
    german, english = tuple(row["german"].split()), tuple(row["english"].split())
    if row["links"] == "*":
        links = (tuple(range(len(german))),) * len(english)
    elif row["links"]:
        pairs = [link.split("-") for link in row["links"].split()]
        links = tuple(tuple(int(i) for i, j in pairs if int(j) == target) for target in range(len(english)))
    else:
        links = tuple((i,) for i in range(len(english)))
    return Expression(german, english, links)


def _expressions(rows: list[TableRow], exponent: float) -> Distribution[Expression]:
    """Return the expressions of a category with their weights, which all rows have or none."""
    entries = [_expression(row) for row in rows]
    if not rows[0]["weight"]:
        return zipf_distribution(entries, exponent)
    return Distribution({entry: int(row["weight"]) for entry, row in zip(entries, rows, strict=True)})


class Lexicon:
    """All entries of the grammar, as distributions.

    Attributes:
        nouns: The nouns of each semantic class.
        professions: The professions of each gender.
        places: The places.
        describing: The adjectives of each semantic class.
        verbs: The verbs of each valency frame.
        expressions: The fixed expressions of each category.
        zipf: Returns the Zipf-like distribution of items in the order of their frequency.
    """

    def __init__(self, exponent: float = 1.0) -> None:
        """Read the tables; `exponent` is that of the Zipf-like distributions."""
        self.zipf = zipf = partial(zipf_distribution, exponent=exponent)
        rows = _read("nouns")
        nouns = {row["lemma"]: _noun(row) for row in rows}
        # The rows of subclasses refer to nouns of the main table and add no entries of their own.
        classes = _grouped(rows + _read("noun_subclasses"), "class")
        self.nouns = {kind: zipf(nouns[row["lemma"]] for row in group) for kind, group in classes.items()}
        professions = self.nouns["profession"].items
        self.professions = {
            gender: zipf(noun for noun in professions if noun.gender == gender)
            for gender in (MASCULINE, FEMININE)
        }
        self.places = zipf(
            Place(
                nouns[row["lemma"]],
                at=(row["position"], row["english_position"]),
                to=(row["direction"], row["english_direction"]),
                features=tuple(row["features"].split()),
            )
            for row in _read("places")
        )
        adjectives = [_adjective(row) for row in _read("adjectives")]
        self.describing = {
            kind: zipf(adjective for adjective in adjectives if kind in adjective.kinds)
            for kind in {kind: None for adjective in adjectives for kind in adjective.kinds}
        }
        verbs, expressions = _grouped(_read("verbs"), "frame"), _grouped(_read("expressions"), "category")
        self.verbs = {frame: zipf(map(_verb, group)) for frame, group in verbs.items()}
        self.expressions = {
            category: _expressions(group, exponent) for category, group in expressions.items()
        }


@cache
def lexicon(exponent: float = 1.0) -> Lexicon:
    """Return the lexicon, which is read on first use; see `Lexicon`."""
    return Lexicon(exponent)
