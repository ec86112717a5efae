"""Adverbials, constraints on clauses, and the joint choice of tense, modal verb and time adverbial."""

from dataclasses import dataclass

from regard.extensions.phrasebook.clauses import Clause
from regard.extensions.phrasebook.lexicon import Distribution, Lexicon, RandomChoices, Verb, weights
from regard.extensions.phrasebook.morphology import ACC, DAT, GEN
from regard.extensions.phrasebook.noun_phrases import (
    DEFINITE_ARTICLE,
    DIES,
    EIN,
    OWN,
    Choice,
    NounPhrase,
    NounPhrases,
    contract,
)
from regard.extensions.phrasebook.pair import Phrase, Word, arrange, concatenate, word_phrase
from regard.extensions.phrasebook.verb_group import COPULAS, MODALS, Plan, Tense, english_tense

__all__ = [
    "AFTER_PAST",
    "ANY",
    "ONLY_PRESENT",
    "PASSIVE",
    "PAST",
    "PRESENT",
    "QUESTION",
    "TENSE_PAIRS",
    "Adverbials",
    "ClauseConstraints",
    "Planner",
]

_DETERMINERS: Distribution[Choice] = Distribution({DEFINITE_ARTICLE: 74, EIN: 14, OWN: 6, DIES: 6})
_HOURS = frozenset("zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split())


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
        """Return a place: `im alten Garten`, `in Berlin`, `zu Hause`.

        Args:
            owner: Key of the possible referent of `sein` and `ihr`, or empty.
            home: Whether people must be able to live there.
        """
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


# Verb forms: a tense, a modal verb in the present ("modal") or the past ("modal past"), or gern.
ANY = Distribution(
    {"present": 37, "past": 20, "perfect": 22, "modal": 9, "modal past": 3.5, "future": 5, "gern": 3}
)
QUESTION = Distribution({"present": 40, "perfect": 30, "modal": 18, "past": 7, "future": 5})
PRESENT = Distribution({"present": 76, "modal": 19, "perfect": 5})
PAST = Distribution({"past": 85, "modal past": 15})
PASSIVE = Distribution({"past": 50, "present": 20, "modal": 15, "perfect": 10, "future": 5})
ONLY_PRESENT = Distribution({"present": 1})
# Verb forms of a clause that is subordinate to a verb in the past.
AFTER_PAST = Distribution({"past": 60, "perfect": 15, "modal past": 15, "present": 10})
# Verb forms of two clauses that refer to the same time.
TENSE_PAIRS = Distribution(
    {
        (ANY, ANY): 15,
        (Distribution({"present": 70, "modal": 18, "gern": 6, "future": 6}), PRESENT): 45,
        (
            Distribution({"past": 45, "perfect": 40, "modal past": 15}),
            Distribution({"past": 60, "perfect": 20, "modal past": 20}),
        ): 40,
    }
)
_TENSES = {
    "present": Tense.PRESENT,
    "past": Tense.PAST,
    "perfect": Tense.PERFECT,
    "pluperfect": Tense.PLUPERFECT,
    "modal": Tense.PRESENT,
    "modal past": Tense.PAST,
    "future": Tense.FUTURE,
    "gern": Tense.PRESENT,
}
# Verb forms with a time adverbial.
_TIMED = ("present", "past", "perfect", "modal", "modal past", "future")
# Modal verbs that do not combine with stative verbs.
_DUTY = ("müssen", "sollen", "dürfen")


@dataclass(frozen=True, slots=True)
class ClauseConstraints:
    """Constraints and probabilities for the generation of a clause.

    Attributes:
        subject: The subject, if it is given.
        tenses: The possible verb forms with their frequencies.
        timed: Probability of a time adverbial.
        wh: Whether a question word opens the clause.
        negation: Probability of negation.
        frame: The valency frame of the verb, or empty for any.
        personal: Whether the subject must be a person.
        pronouns: Probability that a person is a pronoun.
        relative: Probability that a noun phrase has a relative clause.
    """

    subject: NounPhrase | None = None
    tenses: Distribution[str] = ANY
    timed: float = 0.44
    wh: bool = False
    negation: float = 0.11
    frame: str = ""
    personal: bool = False
    pronouns: float = 0.42
    relative: float = 0.1


@dataclass(frozen=True)
class Planner:
    """Chooses the tense, the modal verb and the time adverbial of clauses."""

    draw: RandomChoices
    adverbials: Adverbials

    def clause(
        self, verb: Verb, subject: NounPhrase, constraints: ClauseConstraints, negated: bool = False
    ) -> Clause:
        """Return a clause with a verb, its subject, its plan and sometimes a time adverbial."""
        draw = self.draw
        form = draw.sample(constraints.tenses)
        if form == "gern" and (
            verb.stative or negated or not subject.human or subject.english[0][0] == "who"
        ):
            form = "present"
        unwilling = verb in COPULAS.values() or verb.forms.infinitive == "brauchen"
        # The choices below replace forms that are rare or wrong in German, such as `du gingst`.
        if form in ("modal", "modal past") and (not subject.human or unwilling):
            form = "present" if form == "modal" else "past"
        if form in ("past", "modal past") and subject.owner in ("du", "ihr"):
            form = "perfect" if form == "past" else "modal"
        if form == "perfect" and "preterite" in verb.features:
            form = "present" if subject.owner in ("du", "ihr") else "past"
        # A modal verb is sampled only if the form needs one, so that other forms use no random number.
        modal = None
        if form.startswith("modal"):
            modal = draw.sample_where(
                MODALS,
                lambda modal: (
                    (form != "modal past" or modal.past is not None)
                    and not (verb.stative and modal.forms.infinitive in _DUTY)
                ),
            )
        time, time_kind = None, ""
        if form in _TIMED and draw.bernoulli(constraints.timed * (0.4 if verb.stative else 1.0)):
            kind = draw.sample(weights(f"times: {form}"))
            if kind == "since" and ("durative" not in verb.features or negated):
                kind = "general"
            if negated and kind == "general":
                kind = "future" if form in ("present", "modal") else "past"
            if not (verb.stative and kind in ("now", "general", "today", "future") and form == "present"):
                time, time_kind = self.adverbials.time(kind), kind
        tense = _TENSES[form]
        english = tense if modal else english_tense(tense, time_kind, constraints.wh, verb.stative)
        gern = Word("gern") if form == "gern" else None
        return Clause(verb, Plan(tense, english, modal, gern, time=time_kind), subject, time=time)
