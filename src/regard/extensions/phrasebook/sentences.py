"""Generation of sentences: statements, questions, subordinate clauses, infinitives and coordination."""

from dataclasses import replace

from regard.extensions.phrasebook.clause_builder import ClauseBuilder
from regard.extensions.phrasebook.clauses import Clause, ClauseConstraints, Order, bare_clause, order_clause
from regard.extensions.phrasebook.lexicon import Phrase, Word, concatenate, sentence, weights, word_phrase
from regard.extensions.phrasebook.morphology import ACC, NOM
from regard.extensions.phrasebook.noun_phrases import NounPhrase, coordinate
from regard.extensions.phrasebook.verb_group import Plan, Tense, infinitive_group

_STAYING = ("sit", "stand", "live", "stay", "spend")


class MainClauses:
    """Generates statements and questions."""

    def __init__(self, clauses: ClauseBuilder) -> None:
        """Store the generator of clauses."""
        self.draw, self.clauses = clauses.draw, clauses

    def main(self, clause: Clause, fronted: float = 0.3) -> Phrase:
        """Return a main clause in verb-second order, sometimes with an adverbial or object in front."""
        draw = self.draw
        formal = clause.subject.owner == "Sie" and clause.subject.pronoun
        place = clause.place if clause.negator is None else None
        if clause.subject.pronoun and clause.verb.english.base in _STAYING:
            place = None  # not: in the garden I sit
        choices = [
            item for item in (clause.time, place) if item is not None and item.german[0].form != "gerade"
        ]
        if choices and (formal or draw.bernoulli(fronted + 0.12)):
            front = choices[0]
            return order_clause(clause, "second", front, front)
        if formal or draw.bernoulli(fronted * 0.2):
            front = self.clauses.phrases.fixed("comment")
            return order_clause(clause, "second", front, front)
        accusative = clause.accusative
        if accusative is not None and clause.subject.pronoun and clause.negator is not accusative.negator:
            if accusative.definite and accusative.owner not in ("ich", "wir") and draw.bernoulli(0.05):
                plain = accusative.german[0].form in ("den", "diesen", "dieses", "das")
                if plain and clause.subject.owner in ("ich", "wir", "du", "er"):
                    return order_clause(clause, "second", accusative)
        return order_clause(clause, "second")

    def following(self, first: Clause, constraints: ClauseConstraints) -> ClauseConstraints:
        """Return the constraints of a following clause; its subject may refer to the first subject."""
        if not self.draw.bernoulli(0.45):
            return constraints
        head = first.subject
        # No pronoun refers to another pronoun, and those of neuters and things would be ambiguous.
        referable = head.human and not head.pronoun and head.owner in ("er", "sie", "plural")
        return replace(
            constraints, subject=self.clauses.phrases.pronoun(head.owner, NOM) if referable else None
        )

    def yes_or_no(self) -> Phrase:
        """Return a yes-no question: `Hast du das Buch gelesen?`."""
        constraints = ClauseConstraints(
            tenses="question", negation=0.0, pronouns=0.75, timed=0.25, relative=0.02
        )
        clause = self.clauses.clause(constraints)
        return sentence(order_clause(clause, "first", inverted=True), mark="?")

    def question(self) -> Phrase:
        """Return a question with a question word."""
        return sentence(self.asked(self.draw.sample_named("question_words"), "second"), mark="?")

    def asked(self, kind: str, order: Order, constraints: ClauseConstraints | None = None) -> Phrase:
        """Return a question clause; verb-final order makes it an indirect question."""
        direct = order != "final"
        if constraints is None:
            constraints = ClauseConstraints(
                tenses="question", negation=0.0, pronouns=0.7, timed=0.2, relative=0.0
            )
        constraints = replace(constraints, wh=direct)
        build = self.clauses
        if kind == "wer":
            item = Word("wer")
            who = NounPhrase([item], [("who", (item,))], owner="er", human=True, pronoun=True)
            clause = build.clause(replace(constraints, subject=who))
            return order_clause(clause, order, who, who, direct)
        if kind in ("was", "wen", "wem", "welch"):
            asked_object, frame = self._object_word(kind)
            clause = build.asked_object(asked_object, frame, replace(constraints, personal=True))
            return order_clause(clause, order, asked_object, asked_object, direct)
        if kind in ("wann", "warum"):
            timed = 0.2 if kind == "warum" else 0.0
            clause = build.clause(replace(constraints, personal=True, timed=timed))
            front = word_phrase(kind, "why" if kind == "warum" else "when")
            return order_clause(clause, order, front, front, direct)
        frame = "motion" if kind == "wohin" else "location"
        clause = build.clause(replace(constraints, frame=frame, personal=True))
        while kind == "wie lange" and clause.verb.forms.infinitive == "übernachten":
            clause = build.clause(replace(constraints, frame=frame, personal=True))
        front = word_phrase(kind, "where")
        if kind == "wohin":
            clause.complement = None
        elif kind == "wo":
            clause.place = None
        else:
            front = concatenate(word_phrase("wie", "how"), word_phrase("lange", "long"))
            clause.time = clause.middle = None
            # Only the past: `Wie lange wohnt er dort?` would need the English present perfect.
            clause.plan = Plan(Tense.PAST, Tense.PAST)
            if clause.subject.owner in ("du", "ihr"):
                clause.plan = Plan(Tense.PERFECT, Tense.PAST if direct else Tense.PERFECT)
        clause.company = clause.manner = None
        return order_clause(clause, order, front, front, direct)

    def _object_word(self, kind: str) -> tuple[NounPhrase, str]:
        if kind == "welch":
            kinds = ("text", "event", "thing", "clothes", "vehicle")
            return self.clauses.phrases.common(kinds, ACC, choice="welcher", adjective=0.2), "transitive"
        item = Word(kind)
        english = {"was": "what", "wen": "who", "wem": "who"}[kind]
        phrase = NounPhrase([item], [(english, (item,))], human=kind != "was", pronoun=True)
        return phrase, "dative" if kind == "wem" else "transitive"


def subordinate(link: str, english: str, clause: Clause) -> Phrase:
    """Return a subordinate clause in verb-final order, with its German and its English subordinator."""
    return concatenate(word_phrase(link, *english.split()), order_clause(clause, "final"))


# Subordinators of a point in time, which do not combine with adverbs such as `often` and `never`.
_ONCE = ("als", "bevor", "nachdem", "sobald", "bis", "damit")


class Subordination(MainClauses):
    """Generates sentences with several clauses."""

    def that(self) -> Phrase:
        """Return a sentence with a clausal complement: `Ich glaube, dass ...`, `Wir fragen, ob ...`."""
        draw, build = self.draw, self.clauses
        verb = draw.sample(self.clauses.lexicon.verbs["clause"])
        kinds = verb.complements
        kind = kinds[0] if draw.bernoulli(0.7) else kinds[draw.sample_below(len(kinds))]
        matrix = build.matrix(
            verb, ClauseConstraints(tenses="clause", timed=0.08, negation=0.08, relative=0.02)
        )
        now = matrix.plan.tense is Tense.PRESENT
        constraints = ClauseConstraints(tenses="any" if now else "after past", pronouns=0.5, relative=0.03)
        if kind in ("dass", "ob"):
            linker = word_phrase(kind, "that" if kind == "dass" else "whether")
            inner = concatenate(linker, order_clause(build.clause(constraints), "final"))
        else:
            tenses = "question" if now else "after past"
            constraints = replace(constraints, tenses=tenses, negation=0.0, timed=0.2)
            inner = self.asked(kind, "final", constraints)
        matrix.tail = concatenate(word_phrase(","), inner)
        return sentence(self.main(matrix, 0.06))

    def because(self) -> Phrase:
        """Return a main clause with a subordinate clause after it; only German has a comma."""
        build = self.clauses
        link, english, inner, outer = self.draw.sample_named("subordinators").split(": ")
        timed = 0.1 if link in ("weil", "obwohl") else 0.0
        if outer == "any":
            outer, inner = self.draw.sample_named("tense_pairs").split(": ")
        first = build.clause(ClauseConstraints(tenses=outer, timed=timed, relative=0.02))
        second = build.clause(
            self.following(first, ClauseConstraints(tenses=inner, timed=timed, relative=0.02, negation=0.08))
        )
        if link in _ONCE:
            second.middle = None
        first.tail = concatenate(word_phrase(","), subordinate(link, english, second))
        return sentence(self.main(first, 0.1))

    def when_first(self) -> Phrase:
        """Return a subordinate clause with its main clause after it, which begins with the verb in German."""
        build = self.clauses
        choice = self.draw.sample_where(
            weights("subordinators"), lambda item: not item.startswith(("damit", "bis"))
        )
        link, english, inner, outer = choice.split(": ")
        if outer == "any":
            inner, outer = self.draw.sample_named("tense_pairs").split(": ")
        first = build.clause(ClauseConstraints(tenses=inner, timed=0.0, relative=0.02, negation=0.06))
        second = build.clause(
            self.following(first, ClauseConstraints(tenses=outer, timed=0.0, relative=0.02))
        )
        if link in _ONCE:
            first.middle = None
        opening = subordinate(link, english, first)
        return sentence(opening, word_phrase(",", ","), order_clause(second, "first"))

    def two(self) -> Phrase:
        """Return two coordinated main clauses."""
        build = self.clauses
        link, english = self.draw.sample_named("coordinators").split(": ")
        left, right = self.draw.sample_named("tense_pairs").split(": ")
        first = build.clause(ClauseConstraints(tenses=left, timed=0.25, relative=0.02, negation=0.06))
        second = build.clause(
            self.following(first, ClauseConstraints(tenses=right, timed=0.2, relative=0.02))
        )
        parts = [self.main(first, 0.2), word_phrase(link, english), self.main(second, 0.2)]
        if link != "und":
            # German has a comma before `aber` and `denn`; English only before `but`.
            parts.insert(1, word_phrase(",", ",") if link == "aber" else word_phrase(","))
        return sentence(*parts)

    def series(self) -> Phrase:
        """Return one to five coordinated main clauses: `Er liest, sie schläft und ich warte`."""
        clauses = [
            self.main(
                self.clauses.clause(
                    ClauseConstraints(
                        frame=self.draw.sample_named("actions"),
                        tenses="copula",
                        timed=0.1,
                        negation=0.0,
                        relative=0.0,
                    )
                )
            )
            for _ in range(1 + self.draw.sample_below(5))
        ]
        return sentence(coordinate(clauses))

    def infinitive(self) -> Phrase:
        """Return a sentence with an infinitive clause: `Sie versucht, das Buch zu lesen`."""
        build = self.clauses
        verb = self.draw.sample(self.clauses.lexicon.verbs["infinitive"])
        (form,) = verb.complements
        timed = 0.2 if form == "to" else 0.0  # not: he stopped today reading
        matrix = build.matrix(
            verb, ClauseConstraints(tenses="infinitive", timed=timed, negation=0.06, relative=0.02)
        )
        matrix.tail = concatenate(word_phrase(","), self._infinitive(matrix.subject, form))
        return sentence(self.main(matrix, 0.15))

    def _infinitive(self, subject: NounPhrase, form: str) -> Phrase:
        """Return an infinitive clause without its subject: `das Buch zu lesen`, `to read the book`.

        `form` is "to" for an English infinitive, "ing" for a gerund (`reading the book`).
        """
        constraints = ClauseConstraints(
            subject=subject,
            tenses="only present",
            timed=0.0,
            negation=0.0,
            relative=0.02,
            frame=self.draw.sample_named("actions"),
        )
        inner = self.clauses.clause(constraints)
        # Not: he tries to own a house.
        while inner.verb.stative:
            inner = self.clauses.clause(constraints)
        inner.middle = None
        verbs, head = infinitive_group(inner.verb, form)
        phrase = bare_clause(inner, head)
        return Phrase(phrase.german + verbs, phrase.english)

    def in_order_to(self) -> Phrase:
        """Return a sentence with `um ... zu` (in order to) or `ohne ... zu` (without)."""
        matrix = self.clauses.clause(
            ClauseConstraints(
                personal=True,
                frame=self.draw.sample_named("actions"),
                relative=0.0,
                negation=0.0,
                timed=0.25,
            )
        )
        matrix.middle = None
        without = self.draw.bernoulli(0.3)
        inner = self._infinitive(matrix.subject, "ing" if without else "to")
        link = word_phrase("ohne", "without") if without else word_phrase("um", "in", "order")
        matrix.tail = concatenate(word_phrase(","), link, inner)
        return sentence(self.main(matrix, 0.15))

    def important(self) -> Phrase:
        """Return a sentence such as `Es ist wichtig, ... zu ...`."""
        draw = self.draw
        verdict = self.clauses.phrases.fixed("verdict")
        be = word_phrase("ist", "is") if draw.bernoulli(0.7) else word_phrase("war", "was")
        parts = [word_phrase("es", "it"), be]
        # The implicit subject has no words.
        infinitive = self._infinitive(NounPhrase([], [], human=True, pronoun=True), "to")
        if draw.bernoulli(0.2):
            parts.append(word_phrase("nicht", "not"))
        elif draw.bernoulli(0.3):
            parts.append(word_phrase("sehr", "very"))
        return sentence(*parts, verdict, word_phrase(","), infinitive)
