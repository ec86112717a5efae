"""Main clauses in verb-second order, and how two clauses hang together."""

from dataclasses import replace

from regard.data.phrasebook.clause_builder import ClauseBuilder
from regard.data.phrasebook.clauses import Clause, Order, order_clause
from regard.data.phrasebook.pair import Phrase, join, word
from regard.data.phrasebook.wishes import Wish

__all__ = ["MainClauses", "subordinate"]


_STAYING = ("sit", "stand", "live", "stay", "spend")


class MainClauses:
    """Puts clauses in the order of a statement.

    Args:
        clauses: Draws the clauses.
    """

    def __init__(self, clauses: ClauseBuilder) -> None:
        """Take what it draws with."""
        self.draw = clauses.draw
        self.clauses = clauses

    def main(self, clause: Clause, fronted: float = 0.3) -> Phrase:
        """A main clause in verb-second order, sometimes opened by an adverbial or an object."""
        draw = self.draw
        formal = clause.subject.owner == "Sie" and clause.subject.pronoun
        place = clause.place if clause.negator is None else None
        if clause.subject.pronoun and clause.verb.english.base in _STAYING:
            place = None  # not: in the garden I sit
        choices = [
            item for item in (clause.time, place) if item is not None and item.german[0].form != "gerade"
        ]
        if choices and (formal or draw.chance(fronted + 0.12)):
            front = choices[0]
            return order_clause(clause, Order.SECOND, front, front)
        if formal or draw.chance(fronted * 0.2):
            front = self.clauses.adverbials.sentence()
            return order_clause(clause, Order.SECOND, front, front)
        accusative = clause.accusative
        if accusative is not None and clause.subject.pronoun and clause.negator is not accusative.negator:
            if accusative.definite and accusative.owner not in ("ich", "wir") and draw.chance(0.05):
                plain = accusative.german[0].form in ("den", "diesen", "dieses", "das")
                if plain and clause.subject.owner in ("ich", "wir", "du", "er"):
                    return order_clause(clause, Order.SECOND, accusative)
        return order_clause(clause, Order.SECOND)

    def following(self, first: Clause, wish: Wish) -> Wish:
        """Sometimes a pronoun takes up the first clause's subject."""
        if self.draw.chance(0.45):
            subject = first.subject
            pronoun = None if subject.pronoun else self.clauses.participants.pronoun_for(subject)
            return replace(wish, subject=pronoun)
        return wish


def subordinate(link: str, english: str, clause: Clause) -> Phrase:
    """A clause with its subordinator, the verb last.

    Args:
        link: German subordinator.
        english: Its English, `_` between the words.
        clause: The parts of the clause.
    """
    return join(word(link, *english.split("_")), order_clause(clause, Order.FINAL))
