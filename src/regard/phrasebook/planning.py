"""Constraints on clauses, and the joint choice of tense, modal verb and time adverbial within them."""

from dataclasses import dataclass

from regard.phrasebook.adverbials import Adverbials
from regard.phrasebook.clauses import Clause
from regard.phrasebook.lexicon import Verb
from regard.phrasebook.noun_phrases import NounPhrase
from regard.phrasebook.pair import Word
from regard.phrasebook.sampling import Distribution, RandomChoices
from regard.phrasebook.verb_group import COPULAS, MODALS, Plan, Tense, english_tense

__all__ = [
    "AFTER_PAST",
    "ANY",
    "ONLY_PRESENT",
    "PASSIVE",
    "PAST",
    "PRESENT",
    "QUESTION",
    "TENSE_PAIRS",
    "ClauseConstraints",
    "Planner",
]

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
# Types of time adverbials.
_TIMES = {
    "present": Distribution({"general": 35, "now": 25, "future": 16, "weekday": 8, "today": 6, "since": 10}),
    "past": Distribution({"past": 55, "general": 25, "weekday": 15, "today": 5}),
    "perfect": Distribution({"past": 50, "weekday": 16, "today": 17, "general": 17}),
    "modal": Distribution({"future": 30, "today": 25, "general": 28, "weekday": 17}),
    "modal past": Distribution({"past": 55, "general": 25, "weekday": 20}),
    "future": Distribution({"future": 70, "weekday": 30}),
}
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


class Planner:
    """Chooses the tense, the modal verb and the time adverbial of clauses.

    Args:
        draw: The random number generator.
        adverbials: The generator of time adverbials.
    """

    def __init__(self, draw: RandomChoices, adverbials: Adverbials) -> None:
        """Store the generators."""
        self.draw = draw
        self.adverbials = adverbials

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
        modal = None
        if form.startswith("modal"):
            modal = draw.sample_where(
                MODALS,
                lambda modal: (
                    not (
                        (form == "modal past" and modal.past is None)
                        or (verb.stative and modal.forms.infinitive in _DUTY)
                    )
                ),
            )
        time, time_kind = None, ""
        if form in _TIMES and draw.bernoulli(constraints.timed * (0.4 if verb.stative else 1.0)):
            kind = draw.sample(_TIMES[form])
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
