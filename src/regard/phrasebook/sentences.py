"""Generation of complete sentences; the frequencies of the constructions have a long tail."""

from collections.abc import Callable

from regard.phrasebook.clause_builder import ClauseBuilder
from regard.phrasebook.constraints import ClauseConstraints
from regard.phrasebook.lexicon import Distribution, RandomChoices, lexicon
from regard.phrasebook.main_clauses import MainClauses
from regard.phrasebook.pair import CorpusPair, Phrase, concatenate, realize, word_phrase
from regard.phrasebook.patterns import Patterns
from regard.phrasebook.questions import Questions
from regard.phrasebook.subordination import Subordination

__all__ = ["Sentences"]


class Sentences:
    """Generates random sentence pairs.

    Args:
        seed: A non-negative seed. The same seed gives the same sentences on every machine.
    """

    def __init__(self, seed: int) -> None:
        """Load the lexicon and seed the random number generator."""
        self._draw = RandomChoices(seed)
        self._clauses = ClauseBuilder(self._draw, lexicon())
        self._main = MainClauses(self._clauses)
        questions, patterns = Questions(self._main), Patterns(self._main)
        several = Subordination(self._main, questions)
        # Relative frequencies of the constructions.
        kinds: list[tuple[Callable[[], Phrase], float]] = [
            (self._statement, 350),
            (questions.yes_or_no, 75),
            (questions.question, 80),
            (several.that, 85),
            (several.because, 85),
            (several.when_first, 52),
            (several.two, 66),
            (several.infinitive, 40),
            (several.in_order_to, 25),
            (patterns.request, 32),
            (patterns.there_is, 25),
            (patterns.list_of_things, 26),
            (patterns.weather, 8),
            (patterns.greeting, 6),
            (patterns.exclamation, 7),
            (several.important, 12),
            (patterns.neither, 7),
            (patterns.more_and_more, 6),
        ]
        self._kinds = Distribution([kind for kind, _ in kinds], [weight for _, weight in kinds])

    def sentence(self) -> CorpusPair:
        """Return the next sentence pair."""
        return realize(self._draw.sample(self._kinds)())

    def _statement(self) -> Phrase:
        return concatenate(self._main.main(self._clauses.clause(ClauseConstraints())), word_phrase(".", "."))
