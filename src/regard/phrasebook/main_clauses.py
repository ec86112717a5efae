"""Generation of statements, questions and indirect questions, and the connection of clauses."""

from dataclasses import replace

from regard.phrasebook import morphology_de as de
from regard.phrasebook.clause_builder import ClauseBuilder
from regard.phrasebook.clauses import Clause, Order, order_clause
from regard.phrasebook.noun_phrases import WELCH, NounPhrase
from regard.phrasebook.pair import Phrase, Word, concatenate, sentence, word_phrase
from regard.phrasebook.planning import QUESTION, ClauseConstraints
from regard.phrasebook.sampling import Distribution
from regard.phrasebook.verb_group import Plan, Tense

__all__ = ["MainClauses", "subordinate"]

_WH = Distribution(
    {
        "wer": 16,
        "was": 16,
        "wo": 12,
        "wann": 12,
        "warum": 12,
        "welch": 9,
        "wohin": 9,
        "wie lange": 4,
        "wen": 5,
        "wem": 4,
    }
)
_STAYING = ("sit", "stand", "live", "stay", "spend")


class MainClauses:
    """Generates statements and questions.

    Args:
        clauses: The generator of clauses.
    """

    def __init__(self, clauses: ClauseBuilder) -> None:
        """Store the generators."""
        self.draw = clauses.draw
        self.clauses = clauses

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
            return order_clause(clause, Order.SECOND, front, front)
        if formal or draw.bernoulli(fronted * 0.2):
            front = self.clauses.adverbials.fixed("comment")
            return order_clause(clause, Order.SECOND, front, front)
        accusative = clause.accusative
        if accusative is not None and clause.subject.pronoun and clause.negator is not accusative.negator:
            if accusative.definite and accusative.owner not in ("ich", "wir") and draw.bernoulli(0.05):
                plain = accusative.german[0].form in ("den", "diesen", "dieses", "das")
                if plain and clause.subject.owner in ("ich", "wir", "du", "er"):
                    return order_clause(clause, Order.SECOND, accusative)
        return order_clause(clause, Order.SECOND)

    def following(self, first: Clause, constraints: ClauseConstraints) -> ClauseConstraints:
        """Return the constraints of a following clause; its subject may refer to the first subject."""
        if self.draw.bernoulli(0.45):
            subject = first.subject
            pronoun = None if subject.pronoun else self.clauses.participants.pronoun_for(subject)
            return replace(constraints, subject=pronoun)
        return constraints

    def yes_or_no(self) -> Phrase:
        """Return a yes-no question: `Hast du das Buch gelesen?`."""
        constraints = ClauseConstraints(
            tenses=QUESTION, negation=0.0, pronouns=0.75, timed=0.25, relative=0.02
        )
        clause = self.clauses.clause(constraints)
        return sentence(order_clause(clause, Order.FIRST, inverted=True), mark="?")

    def question(self) -> Phrase:
        """Return a question with a question word."""
        return sentence(self.asked(self.draw.sample(_WH), Order.SECOND), mark="?")

    def asked(self, kind: str, order: Order, constraints: ClauseConstraints | None = None) -> Phrase:
        """Return a question clause; verb-final order makes it an indirect question."""
        direct = order is not Order.FINAL
        if constraints is None:
            constraints = ClauseConstraints(
                tenses=QUESTION, negation=0.0, pronouns=0.7, timed=0.2, relative=0.0
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
            clause.plan = Plan(Tense.PAST, Tense.PAST)
            if clause.subject.owner in ("du", "ihr"):
                clause.plan = Plan(Tense.PERFECT, Tense.PAST if direct else Tense.PERFECT)
        clause.company = clause.manner = None
        return order_clause(clause, order, front, front, direct)

    def _object_word(self, kind: str) -> tuple[NounPhrase, str]:
        if kind == "welch":
            kinds = ("text", "event", "thing", "clothes", "vehicle")
            return self.clauses.nouns.common(kinds, de.ACC, choice=WELCH, adjective=0.2), "transitive"
        item = Word(kind)
        english = {"was": "what", "wen": "who", "wem": "who"}[kind]
        phrase = NounPhrase([item], [(english, (item,))], human=kind != "was", pronoun=True)
        return phrase, "dative" if kind == "wem" else "transitive"


def subordinate(link: str, english: str, clause: Clause) -> Phrase:
    """Return a subordinate clause in verb-final order.

    Args:
        link: The German subordinator.
        english: The words of the English subordinator.
        clause: The constituents of the clause.
    """
    return concatenate(word_phrase(link, *english.split()), order_clause(clause, Order.FINAL))
