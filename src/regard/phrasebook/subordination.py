"""Generation of sentences with several clauses: subordinate clauses, infinitives, coordination."""

from dataclasses import replace

from regard.phrasebook.clauses import Order, infinitive_clause, order_clause
from regard.phrasebook.constraints import (
    AFTER_PAST,
    ANY,
    ONLY_PRESENT,
    PAST,
    PRESENT,
    QUESTION,
    TENSE_PAIRS,
    ClauseConstraints,
)
from regard.phrasebook.lexicon import Distribution
from regard.phrasebook.main_clauses import MainClauses, subordinate
from regard.phrasebook.noun_phrases import NounPhrase
from regard.phrasebook.pair import Phrase, Token, Word, concatenate, word_phrase
from regard.phrasebook.participants import implicit_subject
from regard.phrasebook.questions import Questions
from regard.phrasebook.verb_group import Tense

__all__ = ["Subordination"]

# German subordinator, English subordinator, verb forms of the subordinate and of the main clause.
_SUBORDINATORS = Distribution(
    [
        ("weil", "because", ANY, ANY),
        ("wenn", "if", PRESENT, PRESENT),
        ("als", "when", PAST, PAST),
        ("obwohl", "although", ANY, ANY),
        ("bevor", "before", PAST, PAST),
        ("nachdem", "after", Distribution(["pluperfect"], [1]), PAST),
        ("während", "while", PAST, PAST),
        ("sobald", "as_soon_as", PRESENT, PRESENT),
        ("damit", "so_that", Distribution(["present"], [1]), PRESENT),
        ("bis", "until", PAST, PAST),
    ],
    [30, 18, 14, 10, 8, 8, 5, 4, 3, 3],
)
# Subordinators of a point in time, which do not combine with adverbs such as `often` and `never`.
_ONCE = ("als", "bevor", "nachdem", "sobald", "bis", "damit")
_COORDINATORS = Distribution([("und", "and"), ("aber", "but"), ("denn", "because")], [50, 36, 14])
ACTIONS = Distribution(
    ["transitive", "motion", "ditransitive", "dative", "prepositional", "intransitive"],
    [45, 20, 10, 10, 8, 7],
)
_VERDICTS = Distribution(
    [
        ("wichtig", "important"),
        ("schön", "nice"),
        ("schwierig", "difficult"),
        ("gefährlich", "dangerous"),
        ("langweilig", "boring"),
        ("einfach", "easy"),
        ("richtig", "right"),
        ("teuer", "expensive"),
    ],
    [8, 6, 6, 3, 3, 3, 2, 2],
)


class Subordination:
    """Generates sentences with several clauses.

    Args:
        main: The generator of main clauses.
        questions: The generator of indirect questions.
    """

    def __init__(self, main: MainClauses, questions: Questions) -> None:
        """Store the generators."""
        self.draw = main.draw
        self.lexicon = main.clauses.lexicon
        self.clauses = main.clauses
        self.main = main
        self.questions = questions

    def that(self) -> Phrase:
        """Return a sentence with a clausal complement: `Ich glaube, dass ...`, `Wir fragen, ob ...`."""
        draw, build = self.draw, self.clauses
        verb = draw.sample(self.lexicon.clause_verbs)
        kind = verb.clauses[0] if draw.bernoulli(0.7) else verb.clauses[draw.sample_below(len(verb.clauses))]
        tenses = Distribution(["present", "past", "perfect"], [55, 30, 15])
        matrix = build.matrix(
            verb, ClauseConstraints(tenses=tenses, timed=0.08, negation=0.08, relative=0.02)
        )
        now = matrix.plan.tense is Tense.PRESENT
        constraints = ClauseConstraints(tenses=ANY if now else AFTER_PAST, pronouns=0.5, relative=0.03)
        if kind in ("dass", "ob"):
            linker = word_phrase(kind, "that" if kind == "dass" else "whether")
            inner = concatenate(linker, order_clause(build.clause(constraints), Order.FINAL))
        else:
            inner = self.questions.asked(
                kind,
                Order.FINAL,
                replace(constraints, tenses=QUESTION if now else AFTER_PAST, negation=0.0, timed=0.2),
            )
        matrix.tail = Phrase([Word(","), *inner.german], inner.english)
        return concatenate(self.main.main(matrix, 0.06), word_phrase(".", "."))

    def because(self) -> Phrase:
        """Return a main clause with a subordinate clause after it; only German has a comma."""
        build = self.clauses
        link, english, inner, outer = self.draw.sample(_SUBORDINATORS)
        timed = 0.1 if link in ("weil", "obwohl") else 0.0
        if outer is ANY:
            outer, inner = self.draw.sample(TENSE_PAIRS)
        first = build.clause(ClauseConstraints(tenses=outer, timed=timed, relative=0.02))
        second = build.clause(
            self.main.following(
                first, ClauseConstraints(tenses=inner, timed=timed, relative=0.02, negation=0.08)
            )
        )
        if link in _ONCE:
            second.middle = None
        tail = subordinate(link, english, second)
        first.tail = Phrase([Word(","), *tail.german], tail.english)
        return concatenate(self.main.main(first, 0.1), word_phrase(".", "."))

    def when_first(self) -> Phrase:
        """Return a subordinate clause with its main clause after it, which begins with the verb in German."""
        build = self.clauses
        link, english, inner, outer = self.draw.sample(_SUBORDINATORS)
        while link in ("damit", "bis"):
            link, english, inner, outer = self.draw.sample(_SUBORDINATORS)
        if outer is ANY:
            inner, outer = self.draw.sample(TENSE_PAIRS)
        first = build.clause(ClauseConstraints(tenses=inner, timed=0.0, relative=0.02, negation=0.06))
        second = build.clause(
            self.main.following(first, ClauseConstraints(tenses=outer, timed=0.0, relative=0.02))
        )
        if link in _ONCE:
            first.middle = None
        opening = subordinate(link, english, first)
        main = order_clause(second, Order.FIRST)
        return concatenate(opening, word_phrase(",", ","), main, word_phrase(".", "."))

    def two(self) -> Phrase:
        """Return two coordinated main clauses."""
        build = self.clauses
        link, english = self.draw.sample(_COORDINATORS)
        left, right = self.draw.sample(TENSE_PAIRS)
        first = build.clause(ClauseConstraints(tenses=left, timed=0.25, relative=0.02, negation=0.06))
        second = build.clause(
            self.main.following(first, ClauseConstraints(tenses=right, timed=0.2, relative=0.02))
        )
        comma = Phrase([], []) if link in ("und", "oder") else word_phrase(",", *("," * (link == "aber")))
        parts = [self.main.main(first, 0.2), comma, word_phrase(link, english), self.main.main(second, 0.2)]
        return concatenate(*parts, word_phrase(".", "."))

    def infinitive(self) -> Phrase:
        """Return a sentence with an infinitive clause: `Sie versucht, das Buch zu lesen`."""
        build = self.clauses
        verb = self.draw.sample(self.lexicon.infinitive_verbs)
        tenses = Distribution(["present", "past", "perfect"], [40, 30, 30])
        timed = 0.2 if verb.clauses[0] == "to" else 0.0  # not: he stopped today reading
        matrix = build.matrix(
            verb, ClauseConstraints(tenses=tenses, timed=timed, negation=0.06, relative=0.02)
        )
        matrix.tail = self._infinitive(matrix.subject, verb.clauses[0])
        return concatenate(self.main.main(matrix, 0.15), word_phrase(".", "."))

    def _infinitive(self, subject: NounPhrase, form: str) -> Phrase:
        constraints = ClauseConstraints(
            subject=subject,
            tenses=ONLY_PRESENT,
            timed=0.0,
            negation=0.0,
            relative=0.02,
            frame=self.draw.sample(ACTIONS),
        )
        inner = self.clauses.clause(constraints)
        while inner.verb.state:
            inner = self.clauses.clause(constraints)
        inner.middle = None
        phrase = infinitive_clause(inner, form)
        return Phrase([Word(","), *phrase.german], phrase.english)

    def in_order_to(self) -> Phrase:
        """Return a sentence with `um ... zu` (in order to) or `ohne ... zu` (without)."""
        build, draw = self.clauses, self.draw
        matrix = build.clause(
            ClauseConstraints(
                personal=True, frame=self.draw.sample(ACTIONS), relative=0.0, negation=0.0, timed=0.25
            )
        )
        matrix.middle = None
        without = draw.bernoulli(0.3)
        inner = self._infinitive(matrix.subject, "ing" if without else "to")
        link = word_phrase("ohne", "without") if without else word_phrase("um", "in", "order")
        comma, *rest = inner.german
        matrix.tail = Phrase([comma, *link.german, *rest], link.english + inner.english)
        return concatenate(self.main.main(matrix, 0.15), word_phrase(".", "."))

    def important(self) -> Phrase:
        """Return a sentence such as `Es ist wichtig, ... zu ...`."""
        draw = self.draw
        adjective, english = draw.sample(_VERDICTS)
        finite, item = Word("ist" if draw.bernoulli(0.7) else "war"), Word("es")
        tail = self._infinitive(implicit_subject(), "to")
        nicht = draw.bernoulli(0.2)
        words = [item, finite]
        target: list[Token] = [("it", (item,)), ("is" if finite.form == "ist" else "was", (finite,))]
        parts = [Phrase(words, target)]
        if nicht:
            parts.append(word_phrase("nicht", "not"))
        elif draw.bernoulli(0.3):
            parts.append(word_phrase("sehr", "very"))
        return concatenate(*parts, word_phrase(adjective, english), tail, word_phrase(".", "."))
