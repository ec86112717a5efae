"""Generation of clauses: a verb with complements, adverbials, negation and relative clauses."""

from dataclasses import replace

from regard.extensions.phrasebook.clauses import Clause, ClauseConstraints, order_clause
from regard.extensions.phrasebook.complements import KINDS, PERSONAL, POSSESSABLE, Complements, Participants
from regard.extensions.phrasebook.lexicon import (
    Distribution,
    Lexicon,
    RandomChoices,
    Token,
    Verb,
    Word,
)
from regard.extensions.phrasebook.morphology import ACC, DAT, DEFINITE_FORMS, NOM, PLURAL
from regard.extensions.phrasebook.noun_phrases import NounPhrase, contract
from regard.extensions.phrasebook.verb_group import COPULAS, MODALS, Plan, Tense, english_tense

# The tenses of verb forms that are not named like a tense.
_TENSES = {"modal": Tense.PRESENT, "modal past": Tense.PAST, "gern": Tense.PRESENT}
# Verb forms with a time adverbial.
_TIMED = ("present", "past", "perfect", "modal", "modal past", "future")
# Modal verbs that do not combine with stative verbs.
_DUTY = ("müssen", "sollen", "dürfen")


class ClauseBuilder:
    """Generates random clauses."""

    def __init__(self, draw: RandomChoices, lexicon: Lexicon) -> None:
        """Create the generators of the constituents."""
        self.draw = draw
        self.lexicon = lexicon
        self.phrases = Complements(draw, lexicon)
        self.participants = Participants(draw, lexicon, self.relative)
        transitive = lexicon.verbs["transitive"].items
        kinds = sorted({kind for verb in transitive for kind in verb.objects})
        self._taking = {
            kind: lexicon.zipf(verb for verb in transitive if kind in verb.objects) for kind in kinds
        }
        self._passive = lexicon.zipf(verb for verb in transitive if "passive" in verb.features)
        self._located = {verb.forms.infinitive: verb for verb in lexicon.verbs["location"].items}
        self._doing = lexicon.zipf(verb for verb in transitive if "person" in verb.subjects)

    def clause(self, constraints: ClauseConstraints, given_object: NounPhrase | None = None) -> Clause:
        """Return a random clause; `given_object` is its accusative or dative object (a question word)."""
        draw = self.draw
        frame = constraints.frame or draw.sample_named("frames")
        personal = constraints.personal or constraints.subject is not None
        if personal:
            while frame in ("passive", "pleasing", "weather"):
                frame = draw.sample_named("frames")
        if frame == "copula":
            return self._copula(constraints)
        if frame == "passive":
            return self._passive_clause(constraints)
        verb = draw.sample(self._doing if frame == "transitive" else self.lexicon.verbs[frame])
        while personal and verb.subjects[0] not in PERSONAL:
            verb = draw.sample(self.lexicon.verbs[frame])
        return self._with(verb, frame, constraints, given_object=given_object)

    def _with(
        self,
        verb: Verb,
        frame: str,
        constraints: ClauseConstraints,
        kind: str = "",
        given_object: NounPhrase | None = None,
    ) -> Clause:
        draw, phrases = self.draw, self.phrases
        negated = draw.bernoulli(constraints.negation)
        subject = constraints.subject or self.participants.subject(verb.subjects, constraints, negated)
        clause = self.plan(verb, subject, constraints, negated)
        if clause.time is not None:
            # A relative clause between the objects and the time would be hard to read.
            constraints = replace(constraints, relative=0.0)
        plain = replace(constraints, relative=0.0)
        make_object = self.participants.object
        if frame in ("dative", "ditransitive", "explaining"):
            dative = given_object if frame == "dative" else None
            clause.dative = dative or make_object(("person", "family"), DAT, subject, plain, negated)
        if frame in ("transitive", "ditransitive", "explaining"):
            clause.accusative = given_object or make_object(verb.objects, ACC, subject, constraints, negated)
            clause.to_dative = frame == "explaining"
        elif frame == "pleasing":
            self._pleasing(clause, constraints)
        elif frame in ("prepositional", "reflexive prepositional"):
            preposition, case, english = verb.preposition
            noun_phrase = make_object(verb.objects, case, subject, plain)
            clause.complement = contract(preposition, noun_phrase, english)
        elif frame == "motion":
            clause.complement = phrases.direction(subject.owner, verb)
            # English: return to the house, not into it.
            if verb.english.base == "return" and clause.complement.english[0][0] == "into":
                clause.complement.english[0] = ("to", clause.complement.english[0][1])
            driving = verb.forms.infinitive in ("fahren", "reisen") and "person" in verb.subjects
            if driving and draw.bernoulli(0.35) and subject.human:
                clause.company = phrases.fixed("vehicle")
        elif frame == "location":
            inanimate = (kind or subject.kind) in ("thing", "text", "clothes", "furniture")
            home = "dwelling" in verb.features
            clause.place = phrases.position() if inanimate else phrases.place(subject.owner, home)
        self._add_adverbials(clause, frame, negated)
        if negated:
            self._negate(clause)
        return clause

    def _add_adverbials(self, clause: Clause, frame: str, negated: bool) -> None:
        draw, phrases, subject = self.draw, self.phrases, clause.subject
        doing = subject.human and not clause.verb.stative
        prior = clause.plan.tense is Tense.PLUPERFECT
        plain = clause.time is None and clause.plan.gern is None and not (prior or negated)
        if plain and draw.bernoulli(0.13) and (not clause.verb.stative or draw.bernoulli(0.3)):
            clause.middle = phrases.fixed("frequency")
        if clause.accusative is not None and clause.accusative.german[-1].form == ",":
            return  # after a relative clause, the attachment of an adverbial would be ambiguous
        resting = clause.verb.english.base in ("sleep", "fall", "wake", "get")
        moving = clause.verb.prefix in ("zurück", "weg")
        accompanied = doing and clause.company is None and frame in ("motion", "intransitive") and not resting
        if doing and not moving and frame in ("transitive", "intransitive") and draw.bernoulli(0.14):
            clause.place = phrases.place(subject.owner)
        elif doing and frame in ("intransitive", "motion", "transitive") and draw.bernoulli(0.07):
            if "manner" in clause.verb.features:
                clause.manner = phrases.fixed("manner")
        elif accompanied and draw.bernoulli(0.1):
            kinds = ("family", "person") if draw.bernoulli(0.6) else ("person",)
            company = self.phrases.common(kinds, DAT, subject.owner, adjective=0.12)
            clause.company = contract("mit", company, "with")
        if clause.time is None and clause.middle is None and doing and draw.bernoulli(0.012):
            clause.time = phrases.cause()

    def _negate(self, clause: Clause) -> None:
        if clause.middle is not None or clause.plan.gern is not None:
            return
        kein = clause.accusative.negator if clause.accusative is not None else None
        if kein is None:
            # Without an indefinite object that `kein` could negate, `nicht` negates the clause.
            clause.nicht = Word("nicht")
        clause.negator = kein or clause.nicht

    def _pleasing(self, clause: Clause, constraints: ClauseConstraints) -> None:
        """Set the objects of `Das Buch gefällt dem Kind`, whose dative object is the English subject."""
        dative = self.participants.object(
            ("person", "family"), DAT, clause.subject, replace(constraints, relative=0.0)
        )
        clause.dative = clause.english_subject = dative
        if dative.pronoun:
            subject = self.phrases.pronoun(dative.owner, NOM)
            tokens: list[Token] = [(subject.english[0][0], (dative.german[0],))]
            clause.dative = replace(dative)
            clause.english_subject = replace(subject, german=dative.german, english=tokens)

    def _copula(self, constraints: ClauseConstraints, kind: str = "") -> Clause:
        draw = self.draw
        negated = draw.bernoulli(constraints.negation)
        subject = constraints.subject
        if subject is None:
            kinds = ("person",) if constraints.personal or draw.bernoulli(0.45) else KINDS
            subject = self.participants.subject((kinds[draw.sample_below(len(kinds))],), constraints, negated)
        tenses = "copula" if constraints.tenses == "any" else constraints.tenses
        verb = COPULAS["sein"]
        if draw.bernoulli(0.07):
            verb = COPULAS["werden" if draw.bernoulli(0.7) else "bleiben"]
        constraints = replace(constraints, tenses=tenses, timed=0.1)
        clause = self.plan(verb, subject, constraints, negated)
        changing = verb is COPULAS["werden"] and not negated
        clause.complement = self.phrases.predicate(subject, kind, negated, changing, verb is COPULAS["sein"])
        if clause.time is None and draw.bernoulli(0.1):
            clause.middle = self.phrases.fixed("frequency")
        if negated and isinstance(clause.complement, NounPhrase) and clause.complement.negator is not None:
            clause.middle, clause.negator = None, clause.complement.negator
        elif negated:
            self._negate(clause)
        return clause

    def _passive_clause(self, constraints: ClauseConstraints) -> Clause:
        draw = self.draw
        verb = draw.sample(self._passive)
        negated = draw.bernoulli(constraints.negation)
        subject = self.participants.subject(verb.objects, replace(constraints, pronouns=0.3), negated)
        tenses = "passive" if constraints.tenses in ("any", "question") else constraints.tenses
        clause = self.plan(verb, subject, replace(constraints, tenses=tenses), negated)
        plan = clause.plan
        if constraints.tenses == "any" and draw.bernoulli(0.12) and plan.modal is None and not subject.human:
            # Only `können` and `müssen`: `wollen` needs a subject with a will.
            plan.modal = MODALS.items[draw.sample_below(2)]
            plan.tense = plan.english = Tense.PRESENT
            clause.time, plan.time = None, ""
        plan.passive = True
        # `Das Haus wird gebaut` is an event in progress: the house is being built.
        if plan.english is Tense.PRESENT and plan.modal is None and plan.time != "general":
            plan.english = Tense.PROGRESSIVE
        if draw.bernoulli(0.25):
            agent = self.phrases.common(("person",), DAT, adjective=0.15)
            clause.company = contract("von", agent, "by")
        if negated:
            self._negate(clause)
        return clause

    def relative(self, head: NounPhrase) -> None:
        """Append a relative clause to a noun phrase: `der Mann, der dort wohnt,`."""
        draw = self.draw
        constraints = ClauseConstraints(relative=0.0, timed=0.2, negation=0.08)
        gap = NOM
        if head.kind in self._taking and draw.bernoulli(0.45 if head.human else 0.75):
            gap = ACC
        elif head.human and draw.bernoulli(0.15):
            gap = DAT
        form = "denen" if gap == DAT and head.column == PLURAL else DEFINITE_FORMS[head.column][gap]
        item = Word(form)
        english = ("who" if gap == NOM else "whom") if head.human else "that"
        pronoun = replace(head, german=[item], english=[(english, (item,))], pronoun=True, definite=True)
        pronoun.negator, pronoun.kind = None, ""
        if gap == NOM:
            if head.human:
                clause = self.clause(replace(constraints, subject=pronoun))
            elif head.kind in ("thing", "text", "clothes", "furniture", "vehicle"):
                verb = self._located["liegen" if head.kind in ("thing", "text", "clothes") else "stehen"]
                clause = self._with(verb, "location", replace(constraints, subject=pronoun), head.kind)
            else:
                clause = self._copula(replace(constraints, subject=pronoun), head.kind)
            body = order_clause(clause, "final", pronoun)
        else:
            verb = self._personal(self._taking[head.kind] if gap == ACC else self.lexicon.verbs["dative"])
            frame = "transitive" if gap == ACC else "dative"
            subject = None
            if gap == ACC and form != "den" and head.kind not in POSSESSABLE[:5]:
                # Of nominative and accusative relative pronouns only `der` and `den` differ: an unambiguous
                # subject pronoun shows that the relative pronoun is the object.
                subject = self.phrases.pronoun(draw.sample_named("clear_pronouns"), NOM)
            clause = self._with(
                verb,
                frame,
                replace(constraints, subject=subject, personal=True, pronouns=0.6),
                given_object=pronoun,
            )
            body = order_clause(clause, "final", pronoun, pronoun)
        # German encloses relative clauses in commas; English defining ones have none.
        head.german += [Word(","), *body.german, Word(",")]
        head.english += body.english

    def asked_object(self, given_object: NounPhrase, frame: str, constraints: ClauseConstraints) -> Clause:
        """Return a clause whose accusative or dative object is a question word or `welches Buch`."""
        if frame == "dative":
            verb = self._personal(self.lexicon.verbs["dative"])
        else:
            kind = given_object.kind or ("person" if given_object.human else self.draw.sample_named("what"))
            verb = self._personal(self._taking[kind])
        return self._with(verb, frame, constraints, given_object=given_object)

    def _personal(self, verbs: Distribution[Verb]) -> Verb:
        """Sample a verb whose subject may be a person."""
        return self.draw.sample_where(verbs, lambda verb: "person" in verb.subjects)

    def matrix(self, verb: Verb, constraints: ClauseConstraints) -> Clause:
        """Return the matrix clause of a verb with a clausal complement."""
        negated = self.draw.bernoulli(constraints.negation)
        subject = self.participants.subject(("person",), constraints, negated)
        clause = self.plan(verb, subject, constraints, negated)
        if negated:
            self._negate(clause)
        return clause

    def plan(
        self, verb: Verb, subject: NounPhrase, constraints: ClauseConstraints, negated: bool = False
    ) -> Clause:
        """Return a clause with a verb, its subject, its plan and sometimes a time adverbial."""
        draw = self.draw
        form = draw.sample_named(f"tenses: {constraints.tenses}")
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
            kind = draw.sample_named(f"times: {form}")
            if kind == "since" and ("durative" not in verb.features or negated):
                kind = "general"
            if negated and kind == "general":
                kind = "future" if form in ("present", "modal") else "past"
            if not (verb.stative and kind in ("now", "general", "today", "future") and form == "present"):
                time, time_kind = self.phrases.time(kind), kind
        tense = _TENSES[form] if form in _TENSES else Tense[form.upper()]
        english = tense if modal else english_tense(tense, time_kind, constraints.wh, verb.stative)
        gern = Word("gern") if form == "gern" else None
        return Clause(verb, Plan(tense, english, modal, gern, time=time_kind), subject, time=time)
