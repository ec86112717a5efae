"""What a sentence asks of its clauses, and how often a verb is put in which tense."""

from dataclasses import dataclass

from regard.data.phrasebook.lexicon import Table
from regard.data.phrasebook.noun_phrases import NounPhrase

__all__ = ["ANY", "ERAS", "ONLY_PRESENT", "PASSIVE", "PAST", "PRESENT", "QUESTION", "THEN", "Wish"]

# How the verb may be put: a tense, a modal in one of its tenses ("modal", "modal past"), or gern.
ANY = Table(
    ["present", "past", "perfect", "modal", "modal past", "future", "gern"], [37, 20, 22, 9, 3.5, 5, 3]
)
QUESTION = Table(["present", "perfect", "modal", "past", "future"], [40, 30, 18, 7, 5])
PRESENT = Table(["present", "modal", "perfect"], [76, 19, 5])
PAST = Table(["past", "modal past"], [85, 15])
PASSIVE = Table(["past", "present", "modal", "perfect", "future"], [50, 20, 15, 10, 5])
ONLY_PRESENT = Table(["present"], [1])
# In a clause below a verb in the past.
THEN = Table(["past", "perfect", "modal past", "present"], [60, 15, 15, 10])
# Two clauses of one time.
ERAS = Table(
    [
        (ANY, ANY),
        (Table(["present", "modal", "gern", "future"], [70, 18, 6, 6]), PRESENT),
        (
            Table(["past", "perfect", "modal past"], [45, 40, 15]),
            Table(["past", "perfect", "modal past"], [60, 20, 20]),
        ),
    ],
    [15, 45, 40],
)


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
    """

    subject: NounPhrase | None = None
    tenses: Table[str] = ANY
    timed: float = 0.44
    wh: bool = False
    negation: float = 0.11
    frame: str = ""
    personal: bool = False
    pronouns: float = 0.42
    relative: float = 0.1
