"""Joint choice of tense, modal verb and time adverbial of a clause, which depend on each other."""

from regard.phrasebook.adverbials import Adverbials, Time
from regard.phrasebook.constraints import ClauseConstraints
from regard.phrasebook.lexicon import Distribution, Lexicon, RandomChoices, Verb
from regard.phrasebook.noun_phrases import NounPhrase
from regard.phrasebook.pair import Word
from regard.phrasebook.verb_group import COPULAS, Plan, Tense, english_tense

__all__ = ["Planner"]

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
_TIMES = {
    "present": Distribution(
        ["general", "now", "future", "weekday", "today", "since"], [35, 25, 16, 8, 6, 10]
    ),
    "past": Distribution(["past", "general", "weekday", "today"], [55, 25, 15, 5]),
    "perfect": Distribution(["past", "weekday", "today", "general"], [50, 16, 17, 17]),
    "modal": Distribution(["future", "today", "general", "weekday"], [30, 25, 28, 17]),
    "modal past": Distribution(["past", "general", "weekday"], [55, 25, 20]),
    "future": Distribution(["future", "weekday"], [70, 30]),
}
# Verbs of activities with a duration: `er wohnt seit zwei Jahren in Berlin`.
_LASTING = frozenset("wohnen arbeiten warten leben schlafen kennen sitzen lernen suchen".split())
# Stative verbs, which are rare in the German perfect.
_PRETERITES = frozenset(
    "haben sein gefallen kennen brauchen lieben gehören glauben vertrauen wissen hoffen stehen liegen sitzen "
    "leben wohnen meinen".split()
)
# Modal verbs that do not combine with stative verbs.
_DUTY = ("müssen", "sollen", "dürfen")


class Planner:
    """Chooses the tense, the modal verb and the time adverbial of clauses.

    Args:
        draw: The random number generator.
        lexicon: The lexicon.
        adverbials: The generator of time adverbials.
    """

    def __init__(self, draw: RandomChoices, lexicon: Lexicon, adverbials: Adverbials) -> None:
        """Store the generators."""
        self.draw = draw
        self.lexicon = lexicon
        self.adverbials = adverbials

    def plan(
        self, verb: Verb, subject: NounPhrase, constraints: ClauseConstraints, negated: bool
    ) -> tuple[Plan, Time | None]:
        """Return the plan of a verb and its time adverbial, or None without one."""
        draw = self.draw
        form = draw.sample(constraints.tenses)
        if form == "gern" and (verb.state or negated or not subject.human or subject.english[0][0] == "who"):
            form = "present"
        unwilling = verb in COPULAS.values() or verb.forms.infinitive == "brauchen"
        # The choices below replace forms that are rare or wrong in German, such as `du gingst`.
        if form in ("modal", "modal past") and (not subject.human or unwilling):
            form = "present" if form == "modal" else "past"
        if form in ("past", "modal past") and subject.owner in ("du", "ihr"):
            form = "perfect" if form == "past" else "modal"
        if form == "perfect" and verb.prefix + verb.forms.infinitive in _PRETERITES:
            form = "present" if subject.owner in ("du", "ihr") else "past"
        modal = None
        if form.startswith("modal"):
            modal = draw.sample(self.lexicon.modals)
            while (form == "modal past" and modal.past is None) or (
                verb.state and modal.forms.infinitive in _DUTY
            ):
                modal = draw.sample(self.lexicon.modals)
        time = None
        if form in _TIMES and draw.bernoulli(constraints.timed * (0.4 if verb.state else 1.0)):
            kind = draw.sample(_TIMES[form])
            if kind == "since" and (verb.forms.infinitive not in _LASTING or negated):
                kind = "general"
            if negated and kind == "general":
                kind = "future" if form in ("present", "modal") else "past"
            if not (verb.state and kind in ("now", "general", "today", "future") and form == "present"):
                time = self.adverbials.time(kind)
        tense = _TENSES[form]
        english = english_tense(tense, time.kind if time else "", constraints.wh, verb.state)
        if modal is not None:
            english = tense
        return Plan(tense, english, modal, Word("gern") if form == "gern" else None), time
