"""Constraints on the generation of a clause, and the relative frequencies of tenses."""

from dataclasses import dataclass

from regard.phrasebook.lexicon import Distribution
from regard.phrasebook.noun_phrases import NounPhrase

__all__ = [
    "AFTER_PAST",
    "ANY",
    "ONLY_PRESENT",
    "PASSIVE",
    "PAST",
    "PRESENT",
    "QUESTION",
    "TENSE_PAIRS",
    "ClauseConstraints",
]

# Verb forms: a tense, a modal verb in the present ("modal") or the past ("modal past"), or gern.
ANY = Distribution(
    ["present", "past", "perfect", "modal", "modal past", "future", "gern"], [37, 20, 22, 9, 3.5, 5, 3]
)
QUESTION = Distribution(["present", "perfect", "modal", "past", "future"], [40, 30, 18, 7, 5])
PRESENT = Distribution(["present", "modal", "perfect"], [76, 19, 5])
PAST = Distribution(["past", "modal past"], [85, 15])
PASSIVE = Distribution(["past", "present", "modal", "perfect", "future"], [50, 20, 15, 10, 5])
ONLY_PRESENT = Distribution(["present"], [1])
# Verb forms of a clause that is subordinate to a verb in the past.
AFTER_PAST = Distribution(["past", "perfect", "modal past", "present"], [60, 15, 15, 10])
# Verb forms of two clauses that refer to the same time.
TENSE_PAIRS = Distribution(
    [
        (ANY, ANY),
        (Distribution(["present", "modal", "gern", "future"], [70, 18, 6, 6]), PRESENT),
        (
            Distribution(["past", "perfect", "modal past"], [45, 40, 15]),
            Distribution(["past", "perfect", "modal past"], [60, 20, 20]),
        ),
    ],
    [15, 45, 40],
)


@dataclass(frozen=True, slots=True)
class ClauseConstraints:
    """Constraints and probabilities for the generation of a clause.

    Attributes:
        subject: The subject, if it is given.
        tenses: The possible verb forms with their frequencies.
        timed: Probability of a time adverbial.
        wh: Whether a question word opens the clause.
        negation: Probability of negation.
        frame: The valency frame of the verb, or empty for any.
        personal: Whether the subject must be a person.
        pronouns: Probability that a person is a pronoun.
        relative: Probability that a noun phrase has a relative clause.
    """

    subject: NounPhrase | None = None
    tenses: Distribution[str] = ANY
    timed: float = 0.44
    wh: bool = False
    negation: float = 0.11
    frame: str = ""
    personal: bool = False
    pronouns: float = 0.42
    relative: float = 0.1
