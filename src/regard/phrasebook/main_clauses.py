"""Main clauses in verb-second order, and the connection of clauses."""

from dataclasses import replace

from regard.phrasebook.clause_builder import ClauseBuilder
from regard.phrasebook.clauses import Clause, Order, order_clause
from regard.phrasebook.constraints import ClauseConstraints
from regard.phrasebook.pair import Phrase, concatenate, word_phrase

__all__ = ["MainClauses", "subordinate"]


_STAYING = ("sit", "stand", "live", "stay", "spend")


class MainClauses:
    """Orders clauses as statements.

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
            front = self.clauses.adverbials.sentence()
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


def subordinate(link: str, english: str, clause: Clause) -> Phrase:
    """Return a subordinate clause in verb-final order.

    Args:
        link: The German subordinator.
        english: The English subordinator, with `_` between its words.
        clause: The constituents of the clause.
    """
    return concatenate(word_phrase(link, *english.split("_")), order_clause(clause, Order.FINAL))
