"""Generation of subjects and objects, and of the predicatives of `sein`, `werden` and `bleiben`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from regard.extensions.phrasebook.lexicon import (
    Adjective,
    Distribution,
    Lexicon,
    RandomChoices,
    weights,
    zipf_distribution,
)
from regard.extensions.phrasebook.morphology import ACC, FEMININE, MASCULINE, NEUTER, NOM, PLURAL, article
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
    intensifier,
)
from regard.extensions.phrasebook.pair import Phrase, Token, Word, concatenate, word_phrase
from regard.extensions.phrasebook.planning import PAST, QUESTION, Adverbials, ClauseConstraints

__all__ = [
    "KINDS",
    "PERSONAL",
    "POSSESSABLE",
    "Participants",
    "Predicates",
]

_SECOND = ("du", "ihr", "Sie")
_SURE: Distribution[Choice] = Distribution({DEFINITE_ARTICLE: 70, OWN: 18, DIES: 12})
_NEGATED: Distribution[Choice] = Distribution({DEFINITE_ARTICLE: 38, KEIN: 40, OWN: 13, DIES: 9})
# Classes of subjects that can be pronouns such as `ich`.
PERSONAL = ("person", "child", "pupil")
# Classes of nouns that can be possessed. The first five cannot be agents: they only lie or stand somewhere.
POSSESSABLE = ("thing", "clothes", "vehicle", "text", "building", "animal", "furniture")


@dataclass(frozen=True)
class Participants:
    """Generates subjects and objects.

    Attributes:
        draw: The random number generator.
        nouns: The generator of noun phrases.
        relative: Function that appends a relative clause to a noun phrase.
    """

    draw: RandomChoices
    nouns: NounPhrases
    relative: Callable[[NounPhrase], None]

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
