"""Draws clauses: a subject, a verb with its complements, tense, adverbials, negation, relative clauses."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from regard.data.phrasebook import morphology_de as de
from regard.data.phrasebook.adverbials import Adverbials, Time
from regard.data.phrasebook.clauses import Clause, Order, bare_clause, order_clause
from regard.data.phrasebook.lexicon import Draw, Lexicon, Table, Verb, zipf
from regard.data.phrasebook.noun_phrases import (
    DEFINITE,
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
)
from regard.data.phrasebook.pair import Phrase, Token, Word
from regard.data.phrasebook.predicates import Predicates
from regard.data.phrasebook.verb_group import COPULAS, Plan, Tense, english_tense

__all__ = ["ANY", "PAST", "PRESENT", "QUESTION", "ClauseBuilder", "Wish"]

# How the verb may be put: a tense, a modal in one of its tenses ("modal", "modal past"), or gern.
ANY = Table(
    ["present", "past", "perfect", "modal", "modal past", "future", "gern"], [37, 20, 22, 9, 3.5, 5, 3]
)
QUESTION = Table(["present", "perfect", "modal", "past", "future"], [40, 30, 18, 7, 5])
PRESENT = Table(["present", "modal", "perfect"], [76, 19, 5])
PAST = Table(["past", "modal past"], [85, 15])
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
    "present": Table(["general", "now", "future", "weekday", "today", "since"], [35, 25, 16, 8, 6, 10]),
    "past": Table(["past", "general", "weekday", "today"], [55, 25, 15, 5]),
    "perfect": Table(["past", "weekday", "today", "general"], [50, 16, 17, 17]),
    "modal": Table(["future", "today", "general", "weekday"], [30, 25, 28, 17]),
    "modal past": Table(["past", "general", "weekday"], [55, 25, 20]),
    "future": Table(["future", "weekday"], [70, 30]),
}
_PRONOUNS = Table(["ich", "er", "sie", "wir", "plural", "du", "Sie", "ihr"], [25, 20, 17, 13, 11, 8, 4, 2])
_TOLD = Table(
    ["ich", "er", "sie", "wir", "plural", "Sie"], [24, 20, 17, 13, 11, 2]
)  # who preterites are told of
_ASKED = Table(
    ["du", "er", "sie", "plural", "Sie", "wir", "ihr", "ich"], [24, 19, 17, 13, 12, 9, 4, 4]
)  # who one asks of
_DATIVES = Table(["ich", "er", "sie", "wir", "plural", "du", "Sie", "ihr"], [22, 18, 16, 12, 12, 10, 5, 3])
_ACCUSATIVES = Table(["ich", "er", "sie", "wir", "du", "ihr"], [26, 24, 18, 14, 14, 3])
_CLEAR = Table(["ich", "er", "wir", "du"], [30, 30, 20, 10])
_SECOND = ("du", "ihr", "Sie")
_SURE: Table[Choice] = Table([DEFINITE, OWN, DIES], [70, 18, 12])
_NEGATED: Table[Choice] = Table([DEFINITE, KEIN, OWN, DIES], [38, 40, 13, 9])
_FRAMES = Table(
    [
        "transitive",
        "motion",
        "location",
        "intransitive",
        "copula",
        "prepositional",
        "ditransitive",
        "dative",
        "reflexive",
        "reflexive prepositional",
        "passive",
        "explaining",
        "pleasing",
        "weather",
    ],
    [330, 115, 95, 95, 130, 75, 65, 45, 30, 32, 40, 18, 18, 10],
)
_WHAT = Table(["thing", "food", "text", "clothes", "drink", "sound"], [30, 20, 20, 12, 10, 5])
_LISTED = (
    ("kaufen", "food foodstuff", 30),
    ("kaufen", "thing clothes", 14),
    ("essen", "food foodstuff", 20),
    ("sehen", "animal vehicle", 12),
    ("brauchen", "thing", 14),
    ("haben", "animal", 8),
    ("haben", "thing clothes", 10),
    ("finden", "thing", 8),
    ("trinken", "drink", 8),
    ("bestellen", "food drink", 8),
)
# Verbs that may have lasted for a while: `er wohnt seit zwei Jahren in Berlin`.
_LASTING = frozenset("wohnen arbeiten warten leben schlafen kennen sitzen lernen suchen".split())
# Verbs of lasting states, which German seldom puts in the perfect.
_PRETERITES = frozenset(
    "haben sein gefallen kennen brauchen lieben gehören glauben vertrauen wissen hoffen stehen liegen sitzen leben wohnen meinen".split()
)
_PASSIVE = frozenset(
    "kaufen lesen finden essen schreiben besuchen öffnen verkaufen anrufen bauen reparieren waschen bestellen schließen "
    "malen einladen zeichnen backen beobachten abholen putzen fotografieren lösen beantworten vorbereiten stehlen "
    "wegwerfen zerstören erfinden unterschreiben verstecken füttern".split()
)
# Verbs that can be done quickly, quietly, carefully...
_CAREFUL = frozenset(
    "arbeiten spielen singen tanzen kochen schwimmen lernen lesen schreiben essen trinken öffnen schließen waschen putzen "
    "reparieren bauen malen zeichnen gehen fahren laufen rennen kommen".split()
)
_DUTY = ("müssen", "sollen", "dürfen")
_PASSIVE_TENSES = Table(["past", "present", "modal", "perfect", "future"], [50, 20, 15, 10, 5])
_POSSESSED = ("thing", "clothes", "vehicle", "text", "building", "animal", "furniture")


@dataclass(frozen=True, slots=True)
class Wish:
    """What the sentence wants of a clause.

    Attributes:
        subject: Its subject, if it must be one.
        tenses: How the verb may be put.
        timed: How often there is a time adverbial.
        wh: Whether a question word opens it.
        negation: How often it is negated.
        frame: The complements, if they must be some.
        personal: Whether the subject must be a person.
        pronouns: How often a person is a pronoun.
        relative: How often a noun phrase has a relative clause.
        owner: Who possessives may mean before there is a subject.
    """

    subject: NounPhrase | None = None
    tenses: Table[str] = ANY
    timed: float = 0.36
    wh: bool = False
    negation: float = 0.11
    frame: str = ""
    personal: bool = False
    pronouns: float = 0.42
    relative: float = 0.06


class ClauseBuilder:
    """Draws clauses.

    Args:
        draw: Where the choices come from.
        lexicon: The words.
    """

    def __init__(self, draw: Draw, lexicon: Lexicon) -> None:
        self.draw = draw
        self.lexicon = lexicon
        self.nouns = NounPhrases(draw, lexicon)
        self.adverbials = Adverbials(draw, lexicon, self.nouns)
        self.predicates = Predicates(draw, lexicon, self.nouns, self.adverbials)
        transitive = lexicon.verbs["transitive"].items
        kinds = sorted({kind for verb in transitive for kind in verb.objects})
        self._taking = {kind: zipf([verb for verb in transitive if kind in verb.objects]) for kind in kinds}
        self._passive = zipf([verb for verb in transitive if verb.prefix + verb.forms.infinitive in _PASSIVE])
        by_name = {verb.forms.infinitive: verb for verb in transitive if not verb.prefix}
        self._listed = Table(
            [(by_name[name], tuple(kinds.split())) for name, kinds, _ in _LISTED], [w for *_, w in _LISTED]
        )
        self._doing = zipf([verb for verb in lexicon.verbs["transitive"].items if "person" in verb.subjects])

    def subject(self, kinds: Sequence[str], wish: Wish, negated: bool) -> NounPhrase:
        """A subject of one of the kinds."""
        draw = self.draw
        kind = kinds[0] if wish.personal or draw.chance(0.75) else kinds[draw.below(len(kinds))]
        if kind == "es":
            item = Word("es")
            return NounPhrase([item], [("it", (item,))], column=de.NEUTER, pronoun=True)
        if kind in ("person", "child", "pupil") and draw.chance(wish.pronouns):
            return self.nouns.pronoun(
                draw.pick(_TOLD if wish.tenses is PAST else _ASKED if wish.tenses is QUESTION else _PRONOUNS),
                de.NOM,
            )
        if kind == "person" and draw.chance(0.25):
            return self.nouns.listing(lambda: self.nouns.name(de.NOM), 2 if draw.chance(0.15) else 1)
        if kind == "person" and draw.chance(0.25):
            kind = "family"
        choice = draw.pick(_SURE) if negated else KEIN_SUBJECT if draw.chance(0.02) else None

        def make() -> NounPhrase:
            return self.nouns.common((kind,), de.NOM, choice=choice, subject=True)

        if choice is None and draw.chance(0.05):
            return self.nouns.listing(make, 3 if draw.chance(0.3) else 2)
        found = make()
        self._extend(found, wish)
        return found

    def object(
        self, kinds: Sequence[str], case: int, subject: NounPhrase, wish: Wish, negated: bool = False
    ) -> NounPhrase:
        """An object of one of the kinds; its possessives may mean the subject."""
        draw = self.draw
        if kinds[0] == "person" or "family" in kinds:
            if draw.chance(0.3):
                key = draw.pick(_ACCUSATIVES if case == de.ACC else _DATIVES)
                both = key in _SECOND and subject.owner in _SECOND
                wrong = key == subject.owner or (key in ("ich", "wir") and subject.owner in ("ich", "wir"))
                if not (both or wrong):
                    return self.nouns.pronoun(key, case)
            if draw.chance(0.2):
                return self.nouns.name(case)
        choice = (draw.pick(_NEGATED) if case == de.ACC else draw.pick(_SURE)) if negated else None
        if choice is None and draw.chance(0.06):
            every = draw.chance(0.12)
            length = 2 + draw.chance(0.5) + draw.chance(0.3)
            bare = draw.chance(0.4)
            adjective = 0.0 if bare else 0.35

            def make() -> NounPhrase:
                return self.nouns.common(
                    kinds,
                    case,
                    subject.owner,
                    EIN if bare and kinds[0] != "foodstuff" else None,
                    False,
                    adjective,
                )

            return self.nouns.listing(make, length, every)
        found = self.nouns.common(kinds, case, subject.owner, choice)
        if choice is not KEIN:
            self._extend(found, wish)
        return found

    def _extend(self, found: NounPhrase, wish: Wish) -> None:
        draw = self.draw
        if found.kind in _POSSESSED and found.definite and found.column != de.PLURAL and draw.chance(0.12):
            if len(found.english) > 1 and found.english[0][0] == "the":
                self.nouns.genitive(found, ("person", "family"))
        elif wish.relative and draw.chance(wish.relative):
            self.relative(found)

    def relative(self, head: NounPhrase) -> None:
        """Let a relative clause follow a noun phrase: `der Mann, der dort wohnt,`."""
        draw = self.draw
        wish = Wish(relative=0.0, timed=0.2, negation=0.08)
        gap = de.NOM
        if head.kind in self._taking and draw.chance(0.45 if head.human else 0.75):
            gap = de.ACC
        elif head.human and draw.chance(0.15):
            gap = de.DAT
        form = "denen" if gap == de.DAT and head.column == de.PLURAL else de.DEFINITE[head.column][gap]
        item = Word(form)
        english = ("who" if gap == de.NOM else "whom") if head.human else "that"
        pronoun = NounPhrase(
            [item],
            [(english, (item,))],
            head.person,
            head.agreement,
            head.column,
            head.owner,
            True,
            human=head.human,
        )
        if gap == de.NOM:
            if head.human:
                clause = self.clause(replace(wish, subject=pronoun))
            elif head.kind in ("thing", "text", "clothes", "furniture", "vehicle"):
                verbs = self.lexicon.verbs["location"].items
                verb = verbs[2] if head.kind in ("thing", "text", "clothes") else verbs[3]
                clause = self._with(verb, "location", replace(wish, subject=pronoun), head.kind)
            else:
                clause = self._copula(replace(wish, subject=pronoun), head.kind)
            body = order_clause(clause, Order.FINAL, pronoun)
        else:
            verb = draw.pick(self._taking[head.kind] if gap == de.ACC else self.lexicon.verbs["dative"])
            while "person" not in verb.subjects:
                verb = draw.pick(self._taking[head.kind] if gap == de.ACC else self.lexicon.verbs["dative"])
            frame = "transitive" if gap == de.ACC else "dative"
            subject = None
            if gap == de.ACC and form != "den" and head.kind not in _POSSESSED[:5]:
                subject = self.nouns.pronoun(draw.pick(_CLEAR), de.NOM)  # else it might be the object
            clause = self._with(
                verb, frame, replace(wish, subject=subject, personal=True, pronouns=0.6), hole=pronoun
            )
            body = order_clause(clause, Order.FINAL, pronoun, pronoun)
        head.german += [Word(","), *body.german, Word(",")]
        head.english += body.english

    def clause(self, wish: Wish, hole: NounPhrase | None = None) -> Clause:
        """A clause.

        Args:
            wish: What the sentence wants.
            hole: An accusative object given from outside (a question word).
        """
        draw = self.draw
        frame = wish.frame or draw.pick(_FRAMES)
        given = wish.subject
        if given is not None or wish.personal:
            while frame in ("passive", "pleasing", "weather"):
                frame = draw.pick(_FRAMES)
        if frame == "copula":
            return self._copula(wish)
        if frame == "passive":
            return self._passive_clause(wish)
        verb = draw.pick(self._doing if frame == "transitive" else self.lexicon.verbs[frame])
        while (given is not None or wish.personal) and verb.subjects[0] not in ("person", "child", "pupil"):
            verb = draw.pick(self.lexicon.verbs[frame])
        return self._with(verb, frame, wish, hole=hole)

    def _with(
        self, verb: Verb, frame: str, wish: Wish, kind: str = "", hole: NounPhrase | None = None
    ) -> Clause:
        draw, adverbials = self.draw, self.adverbials
        negated = draw.chance(wish.negation)
        subject = wish.subject or self.subject(verb.subjects, wish, negated)
        plan, time = self.plan(verb, subject, wish, negated)
        clause = Clause(verb, plan, subject, time=time)
        if time is not None:
            wish = replace(wish, relative=0.0)
        dative = hole if hole is not None and frame == "dative" else None
        accusative = hole if dative is None else None
        if frame in ("dative", "ditransitive", "explaining"):
            clause.dative = dative or self.object(
                ("person", "family"), de.DAT, subject, replace(wish, relative=0.0), negated
            )
        if frame in ("transitive", "ditransitive", "explaining"):
            clause.accusative = accusative or self.object(verb.objects, de.ACC, subject, wish, negated)
            clause.to_dative = frame == "explaining"
        elif frame == "pleasing":
            self._pleasing(clause, wish)
        elif frame in ("prepositional", "reflexive prepositional"):
            preposition, case, english = verb.preposition
            clause.complement = contract(
                preposition, self.object(verb.objects, case, subject, replace(wish, relative=0.0)), english
            )
        elif frame == "motion":
            clause.complement = adverbials.direction(subject.owner, verb.forms.infinitive)
            if verb.english.base == "return":
                clause.complement.english[0] = ("to", clause.complement.english[0][1])
            if (
                verb.forms.infinitive in ("fahren", "reisen")
                and "person" in verb.subjects
                and draw.chance(0.35)
            ):
                if subject.human:
                    clause.company = adverbials.vehicle()
        elif frame == "location":
            inanimate = (kind or subject.kind) in ("thing", "text", "clothes", "furniture")
            clause.place = (
                adverbials.position() if inanimate else adverbials.place(subject.owner, verb.forms.infinitive)
            )
        self._adorn(clause, frame, negated)
        if negated:
            self._negate(clause)
        return clause

    def _adorn(self, clause: Clause, frame: str, negated: bool) -> None:
        draw, adverbials, subject = self.draw, self.adverbials, clause.subject
        doing = subject.human and not clause.verb.state
        told = clause.plan.tense is Tense.PLUPERFECT
        if clause.time is None and clause.plan.gern is None and not (told or negated) and draw.chance(0.13):
            if not clause.verb.state or draw.chance(0.3):
                clause.middle = adverbials.middle()
        if clause.accusative is not None and clause.accusative.german[-1].form == ",":
            return  # after a relative clause nobody would know what the place belongs to
        if doing and frame in ("transitive", "intransitive") and draw.chance(0.14):
            clause.place = adverbials.place(subject.owner)
        elif doing and frame in ("intransitive", "motion", "transitive") and draw.chance(0.07):
            if clause.verb.forms.infinitive in _CAREFUL and not clause.verb.prefix:
                clause.manner = adverbials.manner()
        elif doing and clause.company is None and frame in ("motion", "intransitive") and draw.chance(0.1):
            clause.company = adverbials.company(subject.owner)
        if clause.time is None and clause.middle is None and doing and draw.chance(0.012):
            clause.time = adverbials.cause()

    def _negate(self, clause: Clause) -> None:
        if clause.middle is not None or clause.plan.gern is not None:
            return
        kein = clause.accusative.negator if clause.accusative is not None else None
        if kein is None:
            clause.nicht = Word("nicht")
        clause.negator = kein or clause.nicht

    def _pleasing(self, clause: Clause, wish: Wish) -> None:
        """`Das Buch gefällt dem Kind`: English makes the dative its subject."""
        dative = self.object(("person", "family"), de.DAT, clause.subject, replace(wish, relative=0.0))
        clause.dative = clause.english_subject = dative
        if dative.pronoun:
            subject = self.nouns.pronoun(dative.owner, de.NOM)
            tokens: list[Token] = [(subject.english[0][0], (dative.german[0],))]
            clause.dative = replace(dative)
            clause.english_subject = replace(subject, german=dative.german, english=tokens)

    def plan(self, verb: Verb, subject: NounPhrase, wish: Wish, negated: bool) -> tuple[Plan, Time | None]:
        """Tense, modal and time adverbial, which go together."""
        draw = self.draw
        way = draw.pick(wish.tenses)
        if way == "gern" and (verb.state or negated or not subject.human or subject.english[0][0] == "who"):
            way = "present"
        if way in ("modal", "modal past") and (not subject.human or verb in COPULAS.values()):
            way = "present" if way == "modal" else "past"
        if way in ("past", "modal past") and subject.owner in ("du", "ihr"):
            way = "perfect" if way == "past" else "modal"
        if way == "perfect" and verb.prefix + verb.forms.infinitive in _PRETERITES:
            way = "present" if subject.owner in ("du", "ihr") else "past"
        modal = None
        if way.startswith("modal"):
            modal = draw.pick(self.lexicon.modals)
            while (way == "modal past" and modal.past is None) or (
                verb.state and modal.forms.infinitive in _DUTY
            ):
                modal = draw.pick(self.lexicon.modals)
        time = None
        if way in _TIMES and draw.chance(wish.timed * (0.4 if verb.state else 1.0)):
            kind = draw.pick(_TIMES[way])
            if kind == "since" and (verb.forms.infinitive not in _LASTING or negated):
                kind = "general"
            if not (verb.state and kind in ("now", "general", "today", "future") and way == "present"):
                time = self.adverbials.time(kind)
        tense = _TENSES[way]
        english = english_tense(tense, time.kind if time else "", wish.wh, verb.state)
        if modal is not None:
            english = tense
        return Plan(tense, english, modal, Word("gern") if way == "gern" else None), time

    def _copula(self, wish: Wish, kind: str = "") -> Clause:
        draw = self.draw
        negated = draw.chance(wish.negation)
        subject = wish.subject
        if subject is None:
            kinds = ("person",) if wish.personal or draw.chance(0.45) else self.predicates.kinds
            subject = self.subject((kinds[draw.below(len(kinds))],), wish, negated)
        tenses = wish.tenses if wish.tenses is not ANY else Table(["present", "past"], [65, 35])
        verb = COPULAS["sein"]
        if draw.chance(0.07):
            verb = COPULAS["werden" if draw.chance(0.7) else "bleiben"]
        plan, time = self.plan(verb, subject, replace(wish, tenses=tenses, timed=0.1), negated)
        clause = Clause(verb, plan, subject, time=time)
        changing = verb is COPULAS["werden"] and not negated
        clause.complement = self.predicates.predicate(
            subject, kind, negated, changing, verb is COPULAS["sein"]
        )
        if time is None and draw.chance(0.1):
            clause.middle = self.adverbials.middle()
        if negated and isinstance(clause.complement, NounPhrase) and clause.complement.negator is not None:
            clause.middle, clause.negator = None, clause.complement.negator
        elif negated:
            self._negate(clause)
        return clause

    def _passive_clause(self, wish: Wish) -> Clause:
        draw = self.draw
        verb = draw.pick(self._passive)
        negated = draw.chance(wish.negation)
        subject = self.subject(verb.objects, replace(wish, pronouns=0.3), negated)
        tenses = _PASSIVE_TENSES if wish.tenses in (ANY, QUESTION) else wish.tenses
        plan, time = self.plan(verb, subject, replace(wish, tenses=tenses), negated)
        if wish.tenses is ANY and draw.chance(0.12) and plan.modal is None and not subject.human:
            plan.modal, plan.tense = self.lexicon.modals.items[draw.below(2)], Tense.PRESENT
            time = None
            plan.english = Tense.PRESENT
        plan.passive = True
        if plan.english is Tense.PRESENT and plan.modal is None and (time is None or time.kind != "general"):
            plan.english = Tense.PROGRESSIVE
        clause = Clause(verb, plan, subject, time=time)
        if draw.chance(0.25):
            agent = self.nouns.common(("person",), de.DAT, adjective=0.15)
            clause.company = contract("von", agent, "by")
        if negated:
            self._negate(clause)
        return clause

    def asked_object(self, hole: NounPhrase, frame: str, wish: Wish) -> Clause:
        """A clause whose accusative or dative object is a question word or `welches Buch`."""
        draw = self.draw
        if frame == "dative":
            verb = draw.pick(self.lexicon.verbs["dative"])
            while "person" not in verb.subjects:
                verb = draw.pick(self.lexicon.verbs["dative"])
            return self._with(verb, frame, wish, hole=hole)
        kind = hole.kind or ("person" if hole.human else draw.pick(_WHAT))
        verb = draw.pick(self._taking[kind])
        while "person" not in verb.subjects:
            verb = draw.pick(self._taking[kind])
        return self._with(verb, "transitive", wish, hole=hole)

    def matrix(self, verb: Verb, wish: Wish) -> Clause:
        """The clause of a verb that takes another clause."""
        negated = self.draw.chance(wish.negation)
        subject = self.subject(("person",), wish, negated)
        plan, time = self.plan(verb, subject, wish, negated)
        clause = Clause(verb, plan, subject, time=time)
        if negated:
            self._negate(clause)
        return clause

    def imperative(
        self, clause: Clause, finite: Word, right: list[Word], formal: bool, please: bool
    ) -> Phrase:
        """A request: the verb first, `Sie` without a counterpart, `bitte`."""
        main = (finite, *right)
        head: list[Token] = [(clause.verb.english.base, main)]
        head += [(form, main) for form in clause.verb.english.tail]
        inner = bare_clause(clause, head)
        bitte = Word("bitte")
        german = [
            finite,
            *(clause.subject.german if formal else []),
            *([bitte] if please else []),
            *inner.german,
            *right,
        ]
        english = inner.english
        if clause.negator is not None:
            english = [("do", (finite, *right)), *english]
        if please:
            english = [("please", (bitte,)), *english]
        return Phrase(german, english)

    def indefinite(self, plural: bool, choices: Sequence[str]) -> Choice:
        """`ein` in the singular; no determiner, a number, `viele` or `einige` in the plural."""
        if not plural:
            return EIN
        if self.draw.chance(0.3):
            return VIEL if self.draw.chance(0.6) else EINIG
        return choices[self.draw.below(len(choices))]

    def listed_verb(self) -> tuple[Verb, tuple[str, ...]]:
        """A verb whose object may be a list, and the kinds of noun in it."""
        verb, kinds = self.draw.pick(self._listed)
        return verb, kinds

    def nobody(self) -> NounPhrase:
        """The unsaid subject of an infinitive."""
        return NounPhrase([], [], human=True, pronoun=True)

    def pronoun_for(self, head: NounPhrase) -> NounPhrase | None:
        """The pronoun that takes up a noun phrase; none for neuters and things."""
        if not head.human or head.owner not in ("er", "sie", "plural"):
            return None
        return self.nouns.pronoun(head.owner, de.NOM)
