"""Generation of adverbials, subjects, objects, and the predicatives of `sein`, `werden` and `bleiben`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from regard.extensions.phrasebook.clauses import ClauseConstraints
from regard.extensions.phrasebook.lexicon import (
    Adjective,
    Phrase,
    Token,
    Verb,
    Word,
    arrange,
    concatenate,
    word_phrase,
)
from regard.extensions.phrasebook.morphology import ACC, DAT, GEN, NEUTER, NOM, PLURAL, article
from regard.extensions.phrasebook.noun_phrases import NounPhrase, NounPhrases, contract, intensifier

_SECOND = ("du", "ihr", "Sie")
_HOURS = frozenset("zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split())
# Classes of subjects that can be pronouns such as `ich`.
PERSONAL = ("person", "child", "pupil")
# Classes of nouns that can be possessed. The first five cannot be agents: they only lie or stand somewhere.
POSSESSABLE = ("thing", "clothes", "vehicle", "text", "building", "animal", "furniture")


class Complements(NounPhrases):
    """Generates adverbials and predicatives."""

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
        choice = "the" if plural else self.draw.sample_named("determiners: place")
        if choice == "own" and "owned" not in place.features:
            choice = "the"
        phrase = self.build(place.noun, case, plural, choice, owner, 0.18)
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
        choice = "the" if draw.bernoulli(0.75) else draw.sample_named("determiners: place")
        phrase = self.common(("furniture",), DAT, choice=choice, plural=draw.bernoulli(0.1), adjective=0.2)
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
        phrase = self.common(("trouble",), GEN, choice="the", plural=False)
        if self.draw.bernoulli(0.6):
            return concatenate(word_phrase("wegen", "because", "of"), phrase)
        return concatenate(word_phrase("trotz", "in", "spite", "of"), phrase)

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
        kind = "person" if kind not in self.lexicon.describing else kind
        shape = draw.sample_named("predicates")
        single = subject.human and subject.owner in ("er", "sie") and subject.person == 2
        if being and shape == "noun" and single:
            return self._profession(subject.column, negated)
        if being and shape == "place" and subject.human:
            return self.place(subject.owner)
        first = draw.sample(self.lexicon.describing[kind])
        if first.comparative and changing and draw.bernoulli(0.5):
            return _increasing(first)
        if first.comparative and shape in ("comparative", "as") and being:
            return self._compared(first, subject, kind, shape == "as")
        phrase = word_phrase(first.lemma, first.english)
        if shape == "very" and first.comparative:
            return concatenate(intensifier(draw.bernoulli(0.15)), phrase)
        if shape == "and":
            second = draw.sample(self.lexicon.describing[kind])
            if not first.excludes(second):
                und = word_phrase("und", "and")
                return concatenate(phrase, und, word_phrase(second.lemma, second.english))
        return phrase

    def _profession(self, gender: int, negated: bool) -> Phrase:
        """Return a profession: `Er ist Lehrer`, with an article in English; `Sie ist keine gute Lehrerin`."""
        draw = self.draw
        noun = draw.sample(self.lexicon.professions[gender])
        if negated:
            return self.build(noun, NOM, False, "kein", adjective=0.3)
        if draw.bernoulli(0.5):
            return self.build(noun, NOM, False, "ein", adjective=0.8)
        # German has no article here, so that the English one is linked to the noun.
        return word_phrase(noun.lemma, article(noun.singular[0]), *noun.singular)

    def _compared(self, adjective: Adjective, subject: NounPhrase, kind: str, equal: bool) -> Phrase:
        if subject.kind in ("", "person", "family"):
            named = self.draw.bernoulli(0.4)
            other = self.name(NOM) if named else self.common(("person", "family"), NOM)
        else:
            other = self.common((kind,), NOM, choice="the", plural=subject.column == PLURAL)
        if equal:
            so, wie = word_phrase("so", "as"), word_phrase("wie", "as")
            return concatenate(so, word_phrase(adjective.lemma, adjective.english), wie, other)
        more = word_phrase(adjective.comparative, *adjective.more)
        return concatenate(more, word_phrase("als", "than"), other)


@dataclass(frozen=True)
class Participants(NounPhrases):
    """Generates subjects and objects.

    Attributes:
        relative: A function that appends a relative clause.
    """

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
            pronouns = "preterite_pronouns" if constraints.tenses == "past" else "pronouns"
            if constraints.tenses == "question":
                pronouns = "question_pronouns"
            return self.pronoun(draw.sample_named(pronouns), NOM)
        if kind == "person" and draw.bernoulli(0.25):
            return self.listing(lambda: self.name(NOM), 2 if draw.bernoulli(0.15) else 1)
        if kind == "person" and draw.bernoulli(0.25):
            kind = "family"
        choice = draw.sample_named("determiners: sure") if negated else "no" if draw.bernoulli(0.02) else None

        make = partial(self.common, (kind,), NOM, choice=choice)
        if choice is None and draw.bernoulli(0.05):
            return self.listing(make, 3 if draw.bernoulli(0.3) else 2)
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
                key = draw.sample_named("accusative_pronouns" if case == ACC else "dative_pronouns")
                # Object pronouns that refer to the subject would have to be reflexive.
                both = key in _SECOND and subject.owner in _SECOND
                wrong = key == subject.owner or (key in ("ich", "wir") and subject.owner in ("ich", "wir"))
                if not (both or wrong):
                    return self.pronoun(key, case)
            if draw.bernoulli(0.2):
                return self.name(case)
        kind = "negated" if case == ACC else "sure"
        choice = draw.sample_named(f"determiners: {kind}") if negated else None
        if choice is None and draw.bernoulli(0.06):
            repeat_und = draw.bernoulli(0.12)
            length = 2 + draw.bernoulli(0.5) + draw.bernoulli(0.3)
            bare = draw.bernoulli(0.4)
            adjective = 0.0 if bare else 0.35
            choice = "ein" if bare and kinds[0] != "foodstuff" else None

            make = partial(self.common, kinds, case, subject.owner, choice, False, adjective)
            return self.listing(make, length, repeat_und)
        phrase = self.common(kinds, case, subject.owner, choice)
        if choice != "kein":
            self._extend(phrase, constraints)
        return phrase

    def _extend(self, phrase: NounPhrase, constraints: ClauseConstraints) -> None:
        draw = self.draw
        possessable = phrase.kind in POSSESSABLE and phrase.definite and phrase.column != PLURAL
        if possessable and draw.bernoulli(0.12):
            if len(phrase.english) > 1 and phrase.english[0][0] == "the":
                self.genitive(phrase, ("person", "family"))
        elif constraints.relative and draw.bernoulli(constraints.relative):
            self.relative(phrase)

    def indefinite(self, kinds: Sequence[str], plural: bool, adjective: float) -> NounPhrase:
        """Return an object with `ein`, or in the plural with no determiner, a number, `viele` or `einige`."""
        choice = "ein"
        if plural and self.draw.bernoulli(0.3):
            choice = "viele" if self.draw.bernoulli(0.6) else "einige"
        elif plural:
            choice = ("none", "number")[self.draw.sample_below(2)]
        return self.common(kinds, ACC, choice=choice, plural=plural, adjective=adjective)


KINDS = tuple("text building thing clothes event vehicle abstract place animal food nature".split())
"""The semantic classes of subjects that are not persons."""


def _increasing(adjective: Adjective) -> Phrase:
    """Return a phrase such as `immer größer` (bigger and bigger)."""
    # English repeats the comparative: `bigger and bigger`; `and` is linked to `immer`.
    words = [Word("immer"), Word(adjective.comparative)]
    head, more = adjective.more[0], (words[1],)
    rest: list[Token] = [(form, more) for form in adjective.more[1:]]
    return Phrase(words, [(head, more), ("and", (words[0],)), (head, more), *rest])
