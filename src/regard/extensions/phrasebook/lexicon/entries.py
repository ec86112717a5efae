"""The entries of the lexicon with all inflected forms, and the lexicon, which is read from six tables.

The lines of each table are in order of descending frequency. An empty cell stands for a regular form.

- `nouns.tsv`: `plural` is `-` for mass nouns. The genitive of feminines equals the lemma. Weak masculines
  have the declension `weak`. One German compound may have several English words.
- `noun_subclasses.tsv`: classes that verbs may select, with nouns of the other classes.
- `places.tsv`: the prepositions of position (with the dative) and of direction (`in`, `an`, `auf` with the
  accusative, `zu` with the dative) of the nouns of the class `place`.
- `adjectives.tsv`: `comparative` and `superlative` are `-` for adjectives without comparison. The superlative
  is a stem. Adjectives that share a group exclude each other.
- `verbs.tsv`: a slash marks a separable prefix (`auf/stehen`), which the other principal parts omit. The
  present is the third person. `particles` are the English words after the verb. `complements` are the
  subordinators of clausal complements (frame `clause`) or the English form of an infinitive (frame
  `infinitive`).
- `expressions.tsv`: uninflected words and phrases. Without links, the words are linked one to one; `*` links
  each German word to each English word. Without weights, the frequencies follow the order of the lines.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from regard.extensions.phrasebook import morphology_de as de
from regard.extensions.phrasebook import morphology_en as en
from regard.extensions.phrasebook.lexicon.table import LexiconRow, read_table
from regard.extensions.phrasebook.pair import Phrase, Word
from regard.extensions.phrasebook.sampling import Distribution, zipf_distribution

__all__ = ["Adjective", "Expression", "Lexicon", "Noun", "Place", "Verb", "lexicon"]

DIRECTORY = Path(__file__).parent
TABLES = {
    "nouns": ("lemma class gender plural english", "declension genitive english_plural"),
    "noun_subclasses": ("class lemma", "", "class lemma"),
    "places": ("lemma position english_position direction english_direction", "features"),
    "adjectives": (
        "lemma english classes",
        "stem comparative superlative english_comparative english_superlative groups",
    ),
    "verbs": (
        "frame infinitive english subjects",
        "present preterite participle auxiliary english_past english_participle particles objects "
        "preposition case english_preposition complements features",
        "frame infinitive objects preposition",
    ),
    "expressions": ("category german english", "links weight", "category german"),
}
"""The required and the optional columns of each table, and its key (see `read_table`)."""
CLASSES = (
    *("person", "family", "animal", "food", "foodstuff", "drink", "text", "thing", "clothes", "furniture"),
    *("vehicle", "building", "opening", "nature", "abstract", "event", "sound", "trouble", "place"),
    # Subclasses of these.
    *("child", "driven", "pupil", "bread", "song", "story", "letter", "question", "problem", "profession"),
)
"""The semantic classes of nouns."""
GENDERS = {"m": de.MASCULINE, "f": de.FEMININE, "n": de.NEUTER}
CASES = {"acc": de.ACC, "dat": de.DAT}
PLACE_FEATURES = ("owned", "nearby", "dwelling")
"""Places that combine with possessives, that are too near for a vehicle, and in which people live."""
VERB_FEATURES = (
    "stative",  # without an English progressive
    "passive",  # with a passive voice
    "manner",  # combines with adverbs such as quickly, quietly and carefully
    "durative",  # of an activity with a duration: `er wohnt seit zwei Jahren in Berlin`
    "preterite",  # rare in the German perfect
    "dwelling",  # only in places in which people live
    "distant",  # only to distant destinations
    "local",  # only to near destinations
)
FRAMES = {
    "intransitive": (),
    "transitive": ("objects",),
    "dative": ("objects",),
    "pleasing": ("objects",),
    "ditransitive": ("objects",),
    "explaining": ("objects",),
    "prepositional": ("objects", "preposition", "case"),
    "reflexive": (),
    "reflexive prepositional": ("objects", "preposition", "case"),
    "motion": (),
    "location": (),
    "weather": (),
    "clause": ("complements",),
    "infinitive": ("complements",),
}
"""The valency frames and the columns that their verbs need."""
COMPLEMENTS = {"clause": ("dass", "ob", "wann", "warum", "wo"), "infinitive": ("to", "ing")}
CATEGORIES = (
    *("place", "direction", "position", "town", "vehicle"),
    *("past", "future", "now", "general", "weekday", "daytime", "month", "unit", "number"),
    *("manner", "frequency", "comment", "weather", "verdict", "greeting"),
    *("male name", "female name", "surname"),
)


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
        english: The English forms.
        features: Features, see `VERB_FEATURES`.
        reflexive: Whether the verb has the reflexive pronoun `sich`.
        sein: Whether the auxiliary of the perfect is `sein`.
        subjects: Semantic classes of the subject.
        objects: Semantic classes of the object; empty without an object.
        preposition: German preposition, case, and English preposition or the empty string.
        complements: The subordinators of clausal complements, or the English form of an infinitive.
    """

    prefix: str
    forms: de.Conjugation
    english: en.EnglishVerb
    features: tuple[str, ...]
    reflexive: bool = False
    sein: bool = False
    subjects: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    preposition: tuple[str, int, str] = ("", de.NOM, "")
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


def _noun(row: LexiconRow) -> Noun:
    lemma, plural = row["lemma"], row["plural"]
    gender = row.one_of("gender", GENDERS)
    if gender != "f":
        row.require("genitive")
    weak, mass = row.words("declension", ("weak",)) == ("weak",), plural == "-"
    forms = de.noun_forms(lemma, row["genitive"] or lemma, lemma if mass else plural, weak)
    # Only the last word of an English compound has a plural form.
    *first, last = row["english"].split()
    english_plural = row["english_plural"] or en.plural(last)
    return Noun(lemma, row["class"], GENDERS[gender], forms, (*first, last), (*first, english_plural), mass)


def _place(row: LexiconRow, nouns: dict[str, Noun]) -> Place:
    lemma = row.one_of("lemma", nouns)
    at, to = (row["position"], row["english_position"]), (row["direction"], row["english_direction"])
    return Place(nouns[lemma], at, to, row.words("features", PLACE_FEATURES))


def _adjective(row: LexiconRow) -> Adjective:
    lemma, english = row["lemma"], row["english"]
    # The comparative of `leise` is `leiser`, but its superlative stem `leisest` keeps the `e`.
    base = lemma.removesuffix("e")
    comparative, superlative = row.given_together("comparative", "superlative") or [base + "er", lemma + "st"]
    english_base = english.removesuffix("e")
    more, most = row.given_together("english_comparative", "english_superlative") or [
        english_base + "er",
        english_base + "est",
    ]
    return Adjective(
        lemma,
        row["stem"] or base,
        comparative.strip("-"),
        superlative.strip("-"),
        english,
        tuple(more.split()),
        tuple(most.split()),
        row.words("classes", CLASSES),
        row.words("groups"),
    )


def _verb(row: LexiconRow) -> Verb:
    row.require(*FRAMES[row["frame"]])
    lemma = row["infinitive"].removeprefix("sich ")
    # Without a slash `rpartition` gives an empty prefix.
    prefix, _, infinitive = lemma.rpartition("/")
    english = [row["english"], *row.given_together("english_past", "english_participle")]
    case = row.words("case", CASES) or ("dat",)
    return Verb(
        prefix,
        de.conjugate([infinitive, *row.given_together("present", "preterite", "participle")]),
        en.english_verb(english, row.words("particles")),
        row.words("features", VERB_FEATURES),
        reflexive=lemma != row["infinitive"],
        sein=bool(row.words("auxiliary", ("sein",))),
        subjects=row.words("subjects", (*CLASSES, "es")),
        objects=row.words("objects", CLASSES),
        preposition=(row["preposition"], CASES[case[0]], row["english_preposition"]),
        complements=row.words("complements", COMPLEMENTS.get(row["frame"], ())),
    )


def _expression(row: LexiconRow) -> Expression:
    german, english = row.words("german"), row.words("english")
    if not row["links"]:
        if len(german) != len(english):
            raise row.error(f"links are missing; {len(german)} German and {len(english)} English words")
        links = tuple((i,) for i in range(len(english)))
    elif row["links"] == "*":
        links = (tuple(range(len(german))),) * len(english)
    else:
        allowed = [f"{i}-{j}" for i in range(len(german)) for j in range(len(english))]
        pairs = [link.split("-") for link in row.words("links", allowed)]
        links = tuple(tuple(int(i) for i, j in pairs if int(j) == target) for target in range(len(english)))
    return Expression(german, english, links)


def _expressions(rows: list[LexiconRow]) -> Distribution[Expression]:
    """Return the expressions of a category with their weights, which all rows have or none."""
    entries = [_expression(row) for row in rows]
    if not rows[0]["weight"]:
        return zipf_distribution(entries)
    for row in rows:
        if not row["weight"].isdecimal():
            raise row.error(f"weight is {row['weight']!r}; expected an integer")
    return Distribution({entry: int(row["weight"]) for entry, row in zip(entries, rows, strict=True)})


def _groups(rows: list[LexiconRow], column: str, values: Collection[str]) -> dict[str, list[LexiconRow]]:
    """Return the rows of each value of a column, in order. Each value needs at least one row."""
    groups: dict[str, list[LexiconRow]] = {value: [] for value in values}
    for row in rows:
        groups[row.one_of(column, values)].append(row)
    for value, group in groups.items():
        if not group:
            raise rows[-1].error(f"the table has no row whose {column} is {value!r}")
    return groups


class Lexicon:
    """All entries of the grammar, as distributions.

    Args:
        directory: The directory of the tables.

    Attributes:
        nouns: The nouns of each semantic class.
        places: The places.
        describing: The adjectives of each semantic class.
        verbs: The verbs of each valency frame.
        expressions: The fixed expressions of each category.

    Raises:
        DataError: if a table is invalid. The message names the file and the line.
    """

    def __init__(self, directory: Path = DIRECTORY) -> None:
        """Read the tables."""

        def read(name: str) -> list[LexiconRow]:
            return read_table(directory / f"{name}.tsv", *TABLES[name])

        rows = read("nouns")
        nouns = {row["lemma"]: _noun(row) for row in rows}
        # The rows of subclasses refer to nouns of the main table and add no entries of their own.
        classes = _groups(rows + read("noun_subclasses"), "class", CLASSES)
        self.nouns = {
            kind: zipf_distribution(nouns[row.one_of("lemma", nouns)] for row in group)
            for kind, group in classes.items()
        }
        self.places = zipf_distribution(_place(row, nouns) for row in read("places"))
        adjectives = [_adjective(row) for row in read("adjectives")]
        self.describing = {
            kind: zipf_distribution(fitting)
            for kind in CLASSES
            if (fitting := [adjective for adjective in adjectives if kind in adjective.kinds])
        }
        self.verbs = {
            frame: zipf_distribution(_verb(row) for row in group)
            for frame, group in _groups(read("verbs"), "frame", FRAMES).items()
        }
        self.expressions = {
            category: _expressions(group)
            for category, group in _groups(read("expressions"), "category", CATEGORIES).items()
        }


@cache
def lexicon() -> Lexicon:
    """Return the lexicon, which is read on first use."""
    return Lexicon()
