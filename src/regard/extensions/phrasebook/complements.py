"""Generation of adverbials, subjects, objects, and the predicatives of `sein`, `werden` and `bleiben`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from regard.extensions.phrasebook.clauses import PAST, QUESTION, ClauseConstraints
from regard.extensions.phrasebook.lexicon import (
    Adjective,
    Distribution,
    Lexicon,
    Phrase,
    RandomChoices,
    Token,
    Verb,
    Word,
    arrange,
    concatenate,
    weights,
    word_phrase,
    zipf_distribution,
)
from regard.extensions.phrasebook.morphology import (
    ACC,
    DAT,
    FEMININE,
    GEN,
    MASCULINE,
    NEUTER,
    NOM,
    PLURAL,
    article,
)
from regard.extensions.phrasebook.noun_phrases import (
    DEFINITE_ARTICLE,
    DIES,
    EIN,
    EINIG,
    KEIN,
    KEIN_SUBJECT,
    OWN,
    VIEL,
    Choice,
    NounPhrase,
    NounPhrases,
    contract,
    intensifier,
)

_SECOND = ("du", "ihr", "Sie")
_SURE: Distribution[Choice] = Distribution({DEFINITE_ARTICLE: 70, OWN: 18, DIES: 12})
_NEGATED: Distribution[Choice] = Distribution({DEFINITE_ARTICLE: 38, KEIN: 40, OWN: 13, DIES: 9})
_DETERMINERS: Distribution[Choice] = Distribution({DEFINITE_ARTICLE: 74, EIN: 14, OWN: 6, DIES: 6})
_HOURS = frozenset("zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split())
# Classes of subjects that can be pronouns such as `ich`.
PERSONAL = ("person", "child", "pupil")
# Classes of nouns that can be possessed. The first five cannot be agents: they only lie or stand somewhere.
POSSESSABLE = ("thing", "clothes", "vehicle", "text", "building", "animal", "furniture")


@dataclass(frozen=True)
class Adverbials:
    """Generates adverbials."""

    draw: RandomChoices
    lexicon: Lexicon
    nouns: NounPhrases

    def fixed(self, category: str) -> Phrase:
        """Return a fixed expression of the lexicon, such as an adverb of manner."""
        return self.draw.sample(self.lexicon.expressions[category]).phrase()

    def _place(self, to: bool, owner: str, far: bool = False, home: bool = False) -> Phrase:
        place = self.draw.sample_where(
            self.lexicon.places,
            lambda place: (
                (not far or "nearby" not in place.features) and (not home or "dwelling" in place.features)
            ),
        )
        preposition, english = place.to if to else place.at
        # `in` and `auf` take the accusative for directions; `zu` always takes the dative.
        case = ACC if to and preposition != "zu" else DAT
        plural = self.draw.bernoulli(0.06)
        choice = DEFINITE_ARTICLE if plural else self.draw.sample(_DETERMINERS)
        if choice == OWN and "owned" not in place.features:
            choice = DEFINITE_ARTICLE
        phrase = self.nouns.build(place.noun, case, plural, choice, owner, 0.18)
        return contract(preposition, phrase, english)

    def place(self, owner: str = "", home: bool = False) -> Phrase:
        """Return a place: `im alten Garten`, `in Berlin`, `zu Hause`; `home` is one where people live."""
        if self.draw.bernoulli(0.2):
            return self.fixed("place")
        if self.draw.bernoulli(0.4 if home else 0.18):
            return concatenate(word_phrase("in", "in"), self.fixed("town"))
        return self._place(False, owner, home=home)

    def direction(self, owner: str, verb: Verb) -> Phrase:
        """Return a direction that fits the verb: `in den Garten`, `nach Berlin`, `nach Hause`."""
        draw, infinitive = self.draw, verb.forms.infinitive
        far, near = "distant" in verb.features, "local" in verb.features
        if infinitive == "fahren" and draw.bernoulli(0.15):
            words = [Word("nach"), Word("Hause")]
            return Phrase(words, [("home", tuple(words))])
        if not far and infinitive != "fahren" and draw.bernoulli(0.15):
            return self.fixed("direction")
        if far or (not near and draw.bernoulli(0.25)):
            return concatenate(word_phrase("nach", "to"), self.fixed("town"))
        return self._place(True, owner, infinitive in ("fahren", "wandern"))

    def position(self) -> Phrase:
        """Return the position of a thing: `auf dem Tisch`, `unter dem Bett`, `vor der Tür`."""
        draw = self.draw
        preposition = draw.sample(self.lexicon.expressions["position"])
        choice = DEFINITE_ARTICLE if draw.bernoulli(0.75) else draw.sample(_DETERMINERS)
        phrase = self.nouns.common(
            ("furniture",), DAT, choice=choice, plural=draw.bernoulli(0.1), adjective=0.2
        )
        return contract(preposition.german[0], phrase, " ".join(preposition.english))

    def time(self, kind: str) -> Phrase:
        """Return a time adverbial of type past, future, now, today, general, weekday or since."""
        draw = self.draw
        if kind == "today":
            return word_phrase("heute", "today")
        if kind == "weekday":
            day = self.fixed("weekday")
            if draw.bernoulli(0.3):
                part = self.fixed("daytime")
                # German writes one word, `Montagabend`, to which both English words are linked.
                day.german[0].form += part.german[0].form
                day.english.append((part.english[0][0], (day.german[0],)))
            return concatenate(word_phrase("am", "on"), day)
        if kind == "since" or (kind == "past" and draw.bernoulli(0.25)):
            unit, number = self.fixed("unit"), self.fixed("number")
            if kind == "since":
                return concatenate(word_phrase("seit", "for"), number, unit)
            # English puts the preposition last: `vor zwei Tagen`, two days ago.
            ago = word_phrase("vor", "ago")
            return arrange([ago, number, unit], [number, unit, ago])
        if kind == "general" and draw.bernoulli(0.2):
            if draw.bernoulli(0.6):
                numbers = self.lexicon.expressions["number"]
                hour = draw.sample_where(numbers, lambda number: number.german[0] in _HOURS).phrase()
                return concatenate(word_phrase("um", "at"), hour, word_phrase("Uhr", "o'clock"))
            return concatenate(word_phrase("im", "in"), self.fixed("month"))
        return self.fixed(kind)

    def cause(self) -> Phrase:
        """Return an adverbial of cause or concession: `wegen des Regens`, `trotz der Kälte`."""
        phrase = self.nouns.common(("trouble",), GEN, choice=DEFINITE_ARTICLE, plural=False)
        if self.draw.bernoulli(0.6):
            return concatenate(word_phrase("wegen", "because", "of"), phrase)
        return concatenate(word_phrase("trotz", "in", "spite", "of"), phrase)


@dataclass(frozen=True)
class Participants:
    """Generates subjects and objects."""

    draw: RandomChoices
    nouns: NounPhrases
    relative: Callable[[NounPhrase], None]  # appends a relative clause

    def subject(
        self, kinds: Sequence[str], constraints: ClauseConstraints, negated: bool = False
    ) -> NounPhrase:
        """Return a subject of one of the semantic classes."""
        draw = self.draw
        usual = constraints.personal or draw.bernoulli(0.75)
        kind = kinds[0] if usual else kinds[draw.sample_below(len(kinds))]
        if kind == "es":
            es = Word("es")
            return NounPhrase([es], [("it", (es,))], column=NEUTER, pronoun=True)
        if kind in PERSONAL and draw.bernoulli(constraints.pronouns):
            pronouns = "preterite_pronouns" if constraints.tenses is PAST else "pronouns"
            if constraints.tenses is QUESTION:
                pronouns = "question_pronouns"
            return self.nouns.pronoun(draw.sample(weights(pronouns)), NOM)
        if kind == "person" and draw.bernoulli(0.25):
            return self.nouns.listing(lambda: self.nouns.name(NOM), 2 if draw.bernoulli(0.15) else 1)
        if kind == "person" and draw.bernoulli(0.25):
            kind = "family"
        choice = draw.sample(_SURE) if negated else KEIN_SUBJECT if draw.bernoulli(0.02) else None

        make = partial(self.nouns.common, (kind,), NOM, choice=choice)
        if choice is None and draw.bernoulli(0.05):
            return self.nouns.listing(make, 3 if draw.bernoulli(0.3) else 2)
        phrase = make()
        self._extend(phrase, constraints)
        return phrase

    def object(
        self,
        kinds: Sequence[str],
        case: int,
        subject: NounPhrase,
        constraints: ClauseConstraints,
        negated: bool = False,
    ) -> NounPhrase:
        """Return an object of one of the semantic classes; its possessives may refer to the subject."""
        draw = self.draw
        if kinds[0] == "person" or "family" in kinds:
            if draw.bernoulli(0.3):
                key = draw.sample(weights("accusative_pronouns" if case == ACC else "dative_pronouns"))
                # Object pronouns that refer to the subject would have to be reflexive.
                both = key in _SECOND and subject.owner in _SECOND
                wrong = key == subject.owner or (key in ("ich", "wir") and subject.owner in ("ich", "wir"))
                if not (both or wrong):
                    return self.nouns.pronoun(key, case)
            if draw.bernoulli(0.2):
                return self.nouns.name(case)
        choice = (draw.sample(_NEGATED) if case == ACC else draw.sample(_SURE)) if negated else None
        if choice is None and draw.bernoulli(0.06):
            repeat_und = draw.bernoulli(0.12)
            length = 2 + draw.bernoulli(0.5) + draw.bernoulli(0.3)
            bare = draw.bernoulli(0.4)
            adjective = 0.0 if bare else 0.35
            choice = EIN if bare and kinds[0] != "foodstuff" else None

            make = partial(self.nouns.common, kinds, case, subject.owner, choice, False, adjective)
            return self.nouns.listing(make, length, repeat_und)
        phrase = self.nouns.common(kinds, case, subject.owner, choice)
        if choice is not KEIN:
            self._extend(phrase, constraints)
        return phrase

    def _extend(self, found: NounPhrase, constraints: ClauseConstraints) -> None:
        draw = self.draw
        if found.kind in POSSESSABLE and found.definite and found.column != PLURAL and draw.bernoulli(0.12):
            if len(found.english) > 1 and found.english[0][0] == "the":
                self.nouns.genitive(found, ("person", "family"))
        elif constraints.relative and draw.bernoulli(constraints.relative):
            self.relative(found)

    def indefinite(self, plural: bool, choices: Sequence[str]) -> Choice:
        """Return an indefinite determiner: `ein`, or in the plural none, a number, `viele` or `einige`."""
        if not plural:
            return EIN
        if self.draw.bernoulli(0.3):
            return VIEL if self.draw.bernoulli(0.6) else EINIG
        return choices[self.draw.sample_below(len(choices))]


KINDS = tuple("text building thing clothes event vehicle abstract place animal food nature".split())
"""The semantic classes of subjects that are not persons."""


class Predicates:
    """Generates predicatives."""

    def __init__(
        self, draw: RandomChoices, lexicon: Lexicon, nouns: NounPhrases, adverbials: Adverbials
    ) -> None:
        """Store the generators."""
        self.draw = draw
        self.nouns = nouns
        self.adverbials = adverbials
        self._describing = lexicon.describing
        professions = lexicon.nouns["profession"].items
        self._professions = {
            gender: zipf_distribution(noun for noun in professions if noun.gender == gender)
            for gender in (MASCULINE, FEMININE)
        }

    def predicate(self, subject: NounPhrase, kind: str, negated: bool, changing: bool, being: bool) -> Phrase:
        """Return a predicative that fits the subject.

        Args:
            subject: The subject of the clause.
            kind: Semantic class of the head noun if the subject is a relative pronoun.
            negated: Whether nouns have the determiner `kein`.
            changing: Whether the verb is `werden`, which combines with `immer größer`.
            being: Whether the verb is `sein`, which also combines with nouns and places.
        """
        draw = self.draw
        kind = kind or subject.kind or "person"
        # A class without adjectives of its own uses those for people.
        kind = "person" if kind not in self._describing else kind
        shape = draw.sample(weights("predicates"))
        single = subject.human and subject.owner in ("er", "sie") and subject.person == 2
        if being and shape == "noun" and single:
            return self._profession(subject.column, negated)
        if being and shape == "place" and subject.human:
            return self.adverbials.place(subject.owner)
        first = draw.sample(self._describing[kind])
        if first.comparative and changing and draw.bernoulli(0.5):
            return _increasing(first)
        if first.comparative and shape in ("comparative", "as") and being:
            return self._compared(first, subject, kind, shape == "as")
        phrase = word_phrase(first.lemma, first.english)
        if shape == "very" and first.comparative:
            return concatenate(intensifier(draw.bernoulli(0.15)), phrase)
        if shape == "and":
            second = draw.sample(self._describing[kind])
            if not first.excludes(second):
                und = word_phrase("und", "and")
                return concatenate(phrase, und, word_phrase(second.lemma, second.english))
        return phrase

    def _profession(self, gender: int, negated: bool) -> Phrase:
        """Return a profession: `Er ist Lehrer`, with an article in English; `Sie ist keine gute Lehrerin`."""
        draw = self.draw
        noun = draw.sample(self._professions[gender])
        if negated:
            return self.nouns.build(noun, NOM, False, KEIN, adjective=0.3)
        if draw.bernoulli(0.5):
            return self.nouns.build(noun, NOM, False, EIN, adjective=0.8)
        # German has no article here, so that the English one is linked to the noun.
        return word_phrase(noun.lemma, article(noun.singular[0]), *noun.singular)

    def _compared(self, adjective: Adjective, subject: NounPhrase, kind: str, equal: bool) -> Phrase:
        if subject.kind in ("", "person", "family"):
            named = self.draw.bernoulli(0.4)
            other = self.nouns.name(NOM) if named else self.nouns.common(("person", "family"), NOM)
        else:
            other = self.nouns.common((kind,), NOM, choice=DEFINITE_ARTICLE, plural=subject.column == PLURAL)
        if equal:
            so, wie = word_phrase("so", "as"), word_phrase("wie", "as")
            return concatenate(so, word_phrase(adjective.lemma, adjective.english), wie, other)
        more = word_phrase(adjective.comparative, *adjective.more)
        return concatenate(more, word_phrase("als", "than"), other)


def _increasing(adjective: Adjective) -> Phrase:
    """Return a phrase such as `immer größer` (bigger and bigger)."""
    # English repeats the comparative: `bigger and bigger`; `and` is linked to `immer`.
    words = [Word("immer"), Word(adjective.comparative)]
    head, more = adjective.more[0], (words[1],)
    rest: list[Token] = [(form, more) for form in adjective.more[1:]]
    return Phrase(words, [(head, more), ("and", (words[0],)), (head, more), *rest])
