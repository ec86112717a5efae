"""Generation of noun phrases: determiner, adjectives, noun, genitive; names and pronouns; lists."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from regard.extensions.phrasebook.lexicon import (
    Adjective,
    Lexicon,
    Noun,
    Phrase,
    RandomChoices,
    Token,
    Word,
    concatenate,
    word_phrase,
)
from regard.extensions.phrasebook.morphology import (
    DEFINITE_FORMS,
    FEMININE,
    GEN,
    MASCULINE,
    MIXED,
    NOM,
    PLURAL,
    STRONG,
    WEAK,
    Forms,
    adjective_form,
    article,
    der_word,
    ein_word,
)


@dataclass(slots=True)
class NounPhrase(Phrase):
    """A noun phrase with its grammatical features.

    Attributes:
        person: German person, 0 (ich) to 5 (sie, plural).
        agreement: English person: 0 for I, 1 for he, 2 for you and plurals.
        column: Gender in the singular, or PLURAL.
        owner: Key of the possessive that refers to this phrase, or empty.
        pronoun: Whether the phrase is a pronoun.
        definite: Whether the phrase precedes `nicht` and cannot be negated with `kein`.
        human: Whether the English relative pronoun is `who` rather than `that`.
        negator: The word `kein` if English negates the verb with `not`, else None.
        kind: Semantic class of the noun; empty for names and pronouns.
    """

    person: int = 2
    agreement: int = 1
    column: int = MASCULINE
    owner: str = ""
    pronoun: bool = False
    definite: bool = True
    human: bool = False
    negator: Word | None = None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Pronoun:
    """The German and English forms of a personal pronoun, and its persons.

    Empty forms are not used by the grammar, because they are ambiguous for a translation into English.
    """

    cases: tuple[str, str, str]
    reflexive: str
    possessive: str
    subject: str
    object: str
    owner: str
    person: int
    agreement: int


PRONOUNS = {
    "ich": Pronoun(("ich", "mich", "mir"), "mich", "mein", "I", "me", "my", 0, 0),
    "du": Pronoun(("du", "dich", "dir"), "dich", "dein", "you", "you", "your", 1, 2),
    "er": Pronoun(("er", "ihn", "ihm"), "sich", "sein", "he", "him", "his", 2, 1),
    "sie": Pronoun(("sie", "sie", "ihr"), "sich", "ihr", "she", "her", "her", 2, 1),
    "wir": Pronoun(("wir", "uns", "uns"), "uns", "unser", "we", "us", "our", 3, 2),
    "ihr": Pronoun(("ihr", "euch", "euch"), "euch", "euer", "you", "you", "your", 4, 2),
    "plural": Pronoun(("sie", "", "ihnen"), "sich", "ihr", "they", "them", "their", 5, 2),
    "Sie": Pronoun(("Sie", "", "Ihnen"), "sich", "Ihr", "you", "you", "your", 5, 2),
}


@dataclass(frozen=True, slots=True, eq=False)
class Determiner:
    """A determiner: forms by column and case, declension of following adjectives, English translation."""

    forms: tuple[Forms, ...]
    declension: int
    singular: str
    plural: str
    definite: bool = True


DETERMINERS = {
    "the": Determiner(DEFINITE_FORMS, WEAK, "the", "the"),
    "dieser": Determiner(der_word("dies"), WEAK, "this", "these"),
    "jeder": Determiner(der_word("jed"), WEAK, "every", ""),
    "alle": Determiner(der_word("all"), WEAK, "", "all"),
    "welcher": Determiner(der_word("welch"), WEAK, "which", "which"),
    "viele": Determiner(der_word("viel"), STRONG, "", "many", False),
    "einige": Determiner(der_word("einig"), STRONG, "", "some", False),
    "ein": Determiner(ein_word("ein"), MIXED, "a", "", False),
    "kein": Determiner(ein_word("kein"), MIXED, "a", "any", False),
    "no": Determiner(ein_word("kein"), MIXED, "no", "no", False),  # `kein` in a subject
}
"""The determiners by their names. The other names are `own` (a possessive), `number`, `name` and `none`."""
POSSESSIVES = {
    key: Determiner(ein_word(p.possessive), MIXED, p.owner, p.owner) for key, p in PRONOUNS.items()
}
FIRST_NAMES = ("male name", "female name")
# With a possessive, `Mann` and `Frau` mean husband and wife.
_MARRIED = {"Mann": ("husband",), "Frau": ("wife",)}
CONTRACTIONS = {
    ("in", "dem"): "im",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
    ("bei", "dem"): "beim",
    ("in", "das"): "ins",
    ("an", "das"): "ans",
}


def contract(preposition: str, noun_phrase: NounPhrase, english: str) -> Phrase:
    """Return a prepositional phrase; `in dem` becomes `im`, which is linked to both English words.

    `english` has the words of the English preposition, and is empty if English has none.
    """
    head = noun_phrase.german[0]
    short = CONTRACTIONS.get((preposition, head.form))
    # A relative pronoun does not contract: `der Mann, von dem` is not `vom`.
    if not short or noun_phrase.pronoun:
        return concatenate(word_phrase(preposition, *english.split()), noun_phrase)
    head.form = short
    return Phrase(noun_phrase.german, [(form, (head,)) for form in english.split()] + noun_phrase.english)


def coordinate(
    parts: Sequence[Phrase], conjunction: str = "und", english: str = "and", every: bool = False
) -> Phrase:
    """Join phrases to a list: `a , b und c`, or `a und b und c` if `every` is true."""
    joined = [parts[0]]
    for i, part in enumerate(parts[1:], 1):
        last = every or i == len(parts) - 1
        joined += [word_phrase(conjunction, english) if last else word_phrase(",", ","), part]
    return concatenate(*joined)


def intensifier(repeated: bool) -> Phrase:
    """Return `sehr`, or `sehr , sehr`."""
    very = word_phrase("sehr", "very")
    # Two objects, so that each repeated word has a link of its own.
    return concatenate(very, word_phrase(",", ","), word_phrase("sehr", "very")) if repeated else very


def _possible_choice(choice: str, noun: Noun, case: int, plural: bool, owner: str) -> tuple[str, bool]:
    """Return the determiner, replaced if the noun cannot have it, and whether it means husband or wife."""
    # Determiners of count nouns: no `ein Wasser`, `zwei Milch` or `viele Reis`.
    if noun.mass and choice in ("ein", "jeder", "name", "number", "viele", "einige"):
        choice = "none"
    # A bare genitive is ungrammatical (`wegen Lehrers`), and `ein` and `jeder` have no plural.
    if (choice == "none" and case == GEN) or (plural and choice in ("ein", "jeder")):
        choice = "the"
    married = noun.lemma in _MARRIED and choice in ("own", "name")
    if married and (plural or owner not in ("", "ich", "du", "er", "sie", "Sie")):
        choice, married = "the", False
    # `mein Herr` and `meine Dame` are forms of address.
    if choice == "own" and noun.lemma in ("Herr", "Dame"):
        choice = "the"
    return choice, married


@dataclass(frozen=True)
class NounPhrases:
    """Generates noun phrases."""

    draw: RandomChoices
    lexicon: Lexicon

    def fixed(self, category: str) -> Phrase:
        """Return a fixed expression of the lexicon, such as an adverb of manner."""
        return self.draw.sample(self.lexicon.expressions[category]).phrase()

    def pronoun(self, key: str, case: int) -> NounPhrase:
        """Return a personal pronoun."""
        entry = PRONOUNS[key]
        item = Word(entry.cases[case])
        column = {"er": MASCULINE, "sie": FEMININE}.get(key, PLURAL)
        english: list[Token] = [(entry.subject if case == NOM else entry.object, (item,))]
        return NounPhrase([item], english, entry.person, entry.agreement, column, key, True, human=True)

    def name(self, case: int) -> NounPhrase:
        """Return a first name, or a surname with `Herr` or `Frau`."""
        draw = self.draw
        gender = draw.sample_below(2)
        if draw.bernoulli(0.2):
            title = ("Herr" if case == NOM else "Herrn") if gender == MASCULINE else "Frau"
            phrase = concatenate(word_phrase(title, ("Mr", "Mrs")[gender]), self.fixed("surname"))
        else:
            phrase = self.fixed(FIRST_NAMES[gender])
        owner = ("er", "sie")[gender]
        return NounPhrase(phrase.german, phrase.english, column=gender, owner=owner, human=True)

    def common(
        self,
        kinds: Sequence[str],
        case: int,
        owner: str = "",
        choice: str | None = None,
        plural: bool | None = None,
        adjective: float = 0.3,
    ) -> NounPhrase:
        """Return a common noun of one of the semantic classes with determiner and adjectives.

        Args:
            kinds: Semantic classes of the noun; the first has the highest probability.
            case: The case.
            owner: Key of the possible referent of `sein` and `ihr`, or empty.
            choice: The determiner. Default: random.
            plural: Whether the noun is plural. Default: random.
            adjective: Probability of an adjective.
        """
        draw = self.draw
        kind = kinds[0] if len(kinds) == 1 or draw.bernoulli(0.4) else kinds[draw.sample_below(len(kinds))]
        noun = draw.sample(self.lexicon.nouns[kind])
        if noun.mass:
            plural = False
        elif plural is None:
            plural = draw.bernoulli(0.08 if noun.kind == "family" else 0.27)
        if choice is None:
            number = "mass" if noun.mass else "plural" if plural else "singular"
            family = noun.kind == "family" and not plural
            choice = draw.sample_named(f"determiners: {'family' if family else number}")
        return self.build(noun, case, plural, choice, owner, adjective)

    def build(
        self, noun: Noun, case: int, plural: bool, choice: str, owner: str = "", adjective: float = 0.26
    ) -> NounPhrase:
        """Return a phrase with a given noun and determiner; for the arguments, see `common`."""
        draw = self.draw
        choice, married = _possible_choice(choice, noun, case, plural, owner)
        column = PLURAL if plural else noun.gender
        declension = STRONG
        parts: list[Phrase] = []
        definite, negator = False, None
        determiner = DETERMINERS.get(choice)
        if choice == "own":
            key = owner if owner and draw.bernoulli(0.75) else draw.sample_named("owners")
            determiner = POSSESSIVES["ich" if married and key == "wir" else key]
        if determiner is not None:
            definite, declension = determiner.definite, determiner.declension
            english = determiner.plural if plural else determiner.singular
            english = "any" if choice == "kein" and noun.mass else english
            parts.append(word_phrase(determiner.forms[column][case], english))
            negator = parts[0].german[0] if choice == "kein" else None
        elif choice == "number":
            parts.append(self.fixed("number"))
        elif choice == "name":
            (word,) = self.fixed(FIRST_NAMES[draw.sample_below(2)]).german
            parts.append(word_phrase(f"{word.form}s", word.form, "'s"))
            definite = True
        # Sampled first, so that the use of random numbers does not depend on the lexicon.
        if draw.bernoulli(adjective) and noun.kind in self.lexicon.describing:
            parts += self._adjectives(noun.kind, choice == "the", (declension, column, case))
        translation = _MARRIED[noun.lemma] if married else noun.plural if plural else noun.singular
        parts.append(word_phrase(noun.forms[plural][case], *translation))
        whole = concatenate(*parts)
        # The article depends on the next word, which is known only now: `an old dog`.
        if whole.english[0][0] == "a":
            whole.english[0] = (article(whole.english[1][0]), whole.english[0][1])
        person, agreement = (5, 2) if plural else (2, 1)
        return NounPhrase(
            whole.german,
            whole.english,
            person,
            agreement,
            column,
            owner="plural" if plural else ("er", "sie", "")[noun.gender],
            definite=definite,
            human=noun.kind in ("person", "family"),
            negator=negator,
            kind=noun.kind,
        )

    def _adjectives(self, kind: str, superlative: bool, ending: tuple[int, int, int]) -> list[Phrase]:
        """Return adjectives with their commas and conjunctions; `ending` is declension, column and case."""
        draw, table = self.draw, self.lexicon.describing[kind]

        def inflect(adjective: Adjective) -> Phrase:
            return word_phrase(adjective_form(adjective.stem, *ending), adjective.english)

        first = draw.sample(table)
        if superlative and first.superlative and draw.bernoulli(0.1):
            return [word_phrase(adjective_form(first.superlative, *ending), *first.most)]
        parts: list[Phrase] = []
        if first.comparative and draw.bernoulli(0.12):
            parts.append(intensifier(draw.bernoulli(0.15)))
        parts.append(inflect(first))
        if draw.bernoulli(0.12):
            others = [draw.sample(table), draw.sample(table)]
            if any(previous.excludes(other) for previous, other in combinations([first, *others], 2)):
                return parts
            if draw.bernoulli(0.35):
                parts += [word_phrase(",", ","), inflect(others.pop(0))]
            parts += [word_phrase("und", "and"), inflect(others[0])]
        return parts

    def genitive(self, head: NounPhrase, kinds: Sequence[str]) -> None:
        """Append a genitive to a noun phrase, with `of` in English: `das Auto des Lehrers`."""
        choice = "the" if self.draw.bernoulli(0.6) else "own"
        owner = self.common(kinds, GEN, choice=choice, plural=self.draw.bernoulli(0.15), adjective=0.15)
        head.german += owner.german
        head.english += [("of", owner.english[0][1]), *owner.english]

    def listing(self, make: Callable[[], NounPhrase], length: int, every: bool = False) -> NounPhrase:
        """Return a list of noun phrases, joined by commas and `und`, without repeated nouns."""
        parts: list[NounPhrase] = []
        seen: set[str] = set()
        for _ in range(4 * length):  # the list stays shorter if the class has too few nouns
            part = make()
            if part.german[-1].form not in seen:
                seen.add(part.german[-1].form)
                parts.append(part)
            if len(parts) == length:
                break
        whole = coordinate(parts, every=every)
        if len(parts) == 1:
            return parts[0]
        human = all(part.human for part in parts)
        definite = all(part.definite for part in parts)
        return NounPhrase(
            whole.german, whole.english, 5, 2, PLURAL, "plural", False, definite, human, kind=parts[0].kind
        )
