"""The constituents of a clause, their word order in German and English, and constraints on random clauses.

The German order is: prefield, finite verb, middle field, right bracket, postfield. In a verb-final clause,
the finite verb is at the end of the right bracket. The English order is: subject, operator, adverb, verb,
objects, manner, place, time.
"""

from dataclasses import dataclass
from typing import Literal

from regard.extensions.phrasebook.lexicon import Phrase, Token, Verb, Word
from regard.extensions.phrasebook.noun_phrases import PRONOUNS, NounPhrase
from regard.extensions.phrasebook.verb_group import Plan, verb_group

Order = Literal["second", "first", "final"]
"""The position of the German finite verb; it is first in yes-or-no questions."""


@dataclass(slots=True)
class Clause:
    """The unordered constituents of a clause.

    Attributes:
        subject: The German subject.
        english_subject: The English subject if it is a different constituent (`gefallen`).
        to_dative: Whether the English indirect object follows the direct object, with `to`.
        middle: The adverb before the English main verb.
        negator: The word to which English `not` is linked: `nicht` or `kein`.
        company: The adverbial of company or means.
        complement: The predicative, prepositional object or direction.
        tail: The postfield, after the right bracket.
        reflexive: The reflexive pronoun, which is set from the verb.
    """

    verb: Verb
    plan: Plan
    subject: NounPhrase
    english_subject: NounPhrase | None = None
    dative: NounPhrase | None = None
    accusative: NounPhrase | None = None
    to_dative: bool = False
    time: Phrase | None = None
    middle: Phrase | None = None
    nicht: Word | None = None
    negator: Word | None = None
    company: Phrase | None = None
    manner: Phrase | None = None
    place: Phrase | None = None
    complement: Phrase | None = None
    tail: Phrase | None = None
    reflexive: Word | None = None

    def __post_init__(self) -> None:
        """Set the pronoun of a reflexive verb."""
        if self.verb.reflexive:
            key = {0: "ich", 1: "du", 3: "wir", 4: "ihr"}.get(self.subject.person, "er")
            self.reflexive = Word(PRONOUNS[key].reflexive)


# Object pronouns that look like subjects. After them, the German would be ambiguous: `gestern sah sie die
# Frau` must mean that she saw the woman, so that a full subject precedes these pronouns.
_EITHER = ("sie", "ihr")
_GOING = ("go", "come", "run", "travel", "return", "hike", "fly")


def _middle_field(clause: Clause, front: Phrase | None) -> list[Word]:
    """Return the words between the finite verb and the right bracket, without the constituent in front."""
    words: list[Word] = []
    subject = clause.subject if clause.subject is not front else None
    if subject is not None and subject.pronoun:
        words += subject.german
        subject = None
    if clause.reflexive is not None:
        words.append(clause.reflexive)
    objects = [o for o in (clause.dative, clause.accusative) if o is not None and o is not front]
    pronouns = [item for item in objects if item.pronoun]
    if subject is not None and any(item.german[0].form in _EITHER for item in pronouns):
        words += subject.german
        subject = None
    for item in pronouns:
        words += item.german
    if subject is not None:
        words += subject.german
    full = [item for item in objects if not item.pronoun]
    time = clause.time if clause.time is not front else None
    # With `nicht` or an adverb, definite objects precede it and indefinite objects follow it. Otherwise all
    # objects follow the time.
    early: list[Phrase | None] = [item for item in full if item.definite]
    late: list[Phrase | None] = [item for item in full if not item.definite]
    if clause.nicht is None and clause.middle is None:
        early, late = [], [*full]
    for item in (*early, time, clause.middle):
        if item is not None:
            words += item.german
    if clause.nicht is not None:
        words.append(clause.nicht)
    for item in (*late, clause.company, clause.manner, clause.place, clause.complement):
        if item is not None and item is not front:
            words += item.german
    return words


def _english(
    clause: Clause, operator: Token | None, rest: list[Token], front: Phrase | None, inverted: bool
) -> list[Token]:
    # Locative inversion: `on the table lies a book`.
    locative = (
        front is not None and front is clause.place and clause.verb.english.base in ("lie", "stand", "sit")
    )
    locative = locative and clause.middle is None and not clause.subject.pronoun
    subject = clause.english_subject or clause.subject
    words: list[Token] = [*front.english] if front is not None else []
    nots: list[Token] = [("not", (clause.negator,))] if clause.negator is not None else []
    if operator is not None and nots and operator[0] == "can" and not inverted:
        # One English word for two German ones: it is linked to both.
        operator, nots = ("cannot", operator[1] + nots[0][1]), []
    subject_words = [] if subject is front else subject.english
    if operator is None and locative:
        words += [rest[0], *subject_words]
        rest = rest[1:]
    elif operator is None:
        words += subject_words
    elif inverted:
        words += [operator, *subject_words]
    else:
        words += [*subject_words, operator]
    words += nots
    if clause.middle is not None:
        words += clause.middle.english
    particle: list[Token] = []
    if clause.accusative is not None and clause.accusative.pronoun and rest[-1][0] == "up":
        rest, particle = rest[:-1], rest[-1:]  # pick me up
    words += rest
    first, second = clause.dative, clause.accusative
    if clause.english_subject is not None:
        first, second = clause.subject, None
    elif clause.to_dative and first is not None and second is not None:
        to: list[Token] = [("to", first.english[0][1])]
        first, second = second, Phrase(first.german, to + first.english)
        if clause.dative is front:
            second = None
    if particle and first is None and second is not None and second is not front:
        words += second.english
        second = None
    words += particle
    how, where = clause.manner, clause.complement
    if clause.verb.english.base in _GOING and where is not None and len(where.english) > 1:
        how, where = where, how  # go quickly to the station
    for item in (first, second, where, how, clause.place, clause.company, clause.time):
        if item is not None and item is not front:
            words += item.english
    return words


def order_clause(
    clause: Clause,
    order: Order,
    front: Phrase | None = None,
    english_front: Phrase | None = None,
    inverted: bool = False,
) -> Phrase:
    """Return the words of a clause in order on both sides, by default with the subject in front.

    With `inverted`, the English operator precedes the subject, as in questions.
    """
    # The German finite verb is second, so that something must precede it.
    if front is None and order == "second":
        front = clause.subject
    subject = clause.english_subject or clause.subject
    # English `do` is needed for negation, and for questions unless the subject is the question word.
    needed = clause.negator is not None or (inverted and subject is not english_front)
    final = order == "final"
    group = verb_group(clause.verb, clause.plan, clause.subject.person, subject.agreement, final, needed)
    words = [*front.german] if front is not None else []
    if not final:
        words.append(group.finite)
    words += _middle_field(clause, front)
    if clause.plan.gern is not None:
        words.append(clause.plan.gern)
        _gern_before_objects(words, clause)
    words += group.right
    if final:
        words.append(group.finite)
    inverted = inverted and subject is not english_front
    english = _english(clause, group.operator, group.rest, english_front, inverted)
    if clause.tail is not None:
        words += clause.tail.german
        english += clause.tail.english
    return Phrase(words, english)


def _gern_before_objects(words: list[Word], clause: Clause) -> None:
    """Move `gern` before an indefinite object and its successors, as in `Er trinkt gern Kaffee`."""
    following = [clause.accusative if clause.accusative and not clause.accusative.definite else None]
    following += [clause.company, clause.manner, clause.place, clause.complement]
    first = next((item for item in following if item is not None and item.german[0] in words), None)
    if first is not None:
        # `gern` was appended last; it moves in front of the first of these constituents.
        words.insert(words.index(first.german[0]), words.pop())


def bare_clause(clause: Clause, head: list[Token]) -> Phrase:
    """Return a clause without its subject and its finite verb; in English, `head` replaces them."""
    english = _english(clause, None, head, clause.subject, False)
    return Phrase(_middle_field(clause, clause.subject), english[len(clause.subject.english) :])


@dataclass(frozen=True, slots=True)
class ClauseConstraints:
    """Constraints and probabilities for the generation of a clause.

    Attributes:
        subject: The subject, if it is given.
        tenses: Name of the verb forms with their frequencies, without `tenses: `, in `tables/weights.toml`.
        timed: Probability of a time adverbial.
        wh: Whether a question word opens the clause.
        negation: Probability of negation.
        frame: The valency frame of the verb, or empty for any.
        personal: Whether the subject must be a person.
        pronouns: Probability that a person is a pronoun.
        relative: Probability that a noun phrase has a relative clause.
    """

    subject: NounPhrase | None = None
    tenses: str = "any"
    timed: float = 0.44
    wh: bool = False
    negation: float = 0.11
    frame: str = ""
    personal: bool = False
    pronouns: float = 0.42
    relative: float = 0.1
