"""Generation of yes-no questions, questions with a question word, and indirect questions."""

from dataclasses import replace

from regard.phrasebook import morphology_de as de
from regard.phrasebook.clauses import Order, order_clause
from regard.phrasebook.constraints import QUESTION, ClauseConstraints
from regard.phrasebook.lexicon import Distribution
from regard.phrasebook.main_clauses import MainClauses
from regard.phrasebook.noun_phrases import WELCH, NounPhrase
from regard.phrasebook.pair import Phrase, Word, concatenate, linked_phrase, word_phrase
from regard.phrasebook.verb_group import Plan, Tense

__all__ = ["Questions"]

_WH = Distribution(
    ["wer", "was", "wo", "wann", "warum", "welch", "wohin", "wie lange", "wen", "wem"],
    [16, 16, 12, 12, 12, 9, 9, 4, 5, 4],
)
_ADVERBS = {"wann": ("when",), "warum": ("why",), "wo": ("where",), "wie lange": ("how", "long")}


class Questions:
    """Generates questions.

    Args:
        main: The generator of main clauses.
    """

    def __init__(self, main: MainClauses) -> None:
        """Store the generators."""
        self.draw = main.draw
        self.lexicon = main.clauses.lexicon
        self.clauses = main.clauses
        self.main = main

    def yes_or_no(self) -> Phrase:
        """Return a yes-no question: `Hast du das Buch gelesen?`."""
        constraints = ClauseConstraints(
            tenses=QUESTION, negation=0.0, pronouns=0.75, timed=0.25, relative=0.02
        )
        clause = self.clauses.clause(constraints)
        return concatenate(order_clause(clause, Order.FIRST, inverted=True), word_phrase("?", "?"))

    def question(self) -> Phrase:
        """Return a question with a question word."""
        return concatenate(self.asked(self.draw.sample(_WH), Order.SECOND), word_phrase("?", "?"))

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
        if kind in ("wo", "wohin", "wie lange"):
            frame = "motion" if kind == "wohin" else "location"
            clause = build.clause(replace(constraints, frame=frame, personal=True))
            while kind == "wie lange" and clause.verb.forms.infinitive == "übernachten":
                clause = build.clause(replace(constraints, frame=frame, personal=True))
            words = tuple(kind.split())
            front = linked_phrase(
                words, ("where",) if len(words) == 1 else ("how", "long"), ((0,), (1,))[: len(words)]
            )
            if kind == "wohin":
                clause.complement = None
            elif kind == "wo":
                clause.place = None
            else:
                clause.time = clause.middle = None
                clause.plan = (
                    Plan(Tense.PAST, Tense.PAST)
                    if clause.subject.owner not in ("du", "ihr")
                    else Plan(Tense.PERFECT, Tense.PAST if direct else Tense.PERFECT)
                )
            clause.company = clause.manner = None
            return order_clause(clause, order, front, front, direct)
        clause = build.clause(replace(constraints, personal=True, timed=0.2 if kind == "warum" else 0.0))
        front = word_phrase(kind, *_ADVERBS[kind])
        return order_clause(clause, order, front, front, direct)

    def _object_word(self, kind: str) -> tuple[NounPhrase, str]:
        if kind == "welch":
            return self.clauses.nouns.common(
                ("text", "event", "thing", "clothes", "vehicle"), de.ACC, choice=WELCH, adjective=0.2
            ), "transitive"
        item = Word(kind)
        english = {"was": "what", "wen": "who", "wem": "who"}[kind]
        phrase = NounPhrase([item], [(english, (item,))], human=kind != "was", pronoun=True)
        return phrase, "dative" if kind == "wem" else "transitive"
