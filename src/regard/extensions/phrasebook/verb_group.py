"""The verbs of a clause: the German finite verb and right bracket, the English operator and main verb.

The English tense depends only on the German sentence (`english_tense`), so that the translation is a function
of the source.
"""

from dataclasses import dataclass
from enum import Enum

from regard.extensions.phrasebook.lexicon import Token, Verb, Word, zipf_distribution
from regard.extensions.phrasebook.morphology import (
    BE,
    BLEIBEN,
    HABEN,
    SEIN,
    WERDEN,
    Conjugation,
    EnglishVerb,
    english_verb,
)


class Tense(Enum):
    """The tenses of German and English."""

    PRESENT = 0
    PAST = 1  # the German preterite
    PERFECT = 2
    PLUPERFECT = 3
    FUTURE = 4
    PROGRESSIVE = 5  # English only


INVARIABLE = ("can", "could", "may", "should", "would")
LIKE = english_verb(["like"], ("to",))  # gern


@dataclass(frozen=True, slots=True)
class Modal:
    """A modal verb, which is translated as an invariable word or as a verb with a tail (`to`).

    Without an English verb for the past, the German preterite is not used.
    """

    forms: Conjugation
    present: EnglishVerb
    past: EnglishVerb | None = None


def _modal(german: str, present: EnglishVerb, past: EnglishVerb | None = None) -> Modal:
    """Return a modal verb; its German forms are infinitive, present (ich, du) and preterite."""
    infinitive, singular, second, preterite = german.split()
    polite = infinitive.removesuffix("en") + ("et" if infinitive == "möchten" else "t")
    forms = Conjugation(
        (singular, second, singular, infinitive, polite, infinitive),
        (preterite, preterite + "st", preterite, preterite + "n", preterite + "t", preterite + "n"),
        infinitive,
        "",
        "",
    )
    return Modal(forms, present, past)


_HAVE_TO = english_verb(["have", "had", "had"], ("to",))
_WANT_TO = english_verb(["want"], ("to",))
MODALS = zipf_distribution(
    [
        _modal("können kann kannst konnte", english_verb(["can"]), english_verb(["could"])),
        _modal("müssen muss musst musste", _HAVE_TO, _HAVE_TO),
        _modal("wollen will willst wollte", _WANT_TO, _WANT_TO),
        _modal("dürfen darf darfst durfte", english_verb(["may"]), english_verb(["be"], ("allowed", "to"))),
        _modal("sollen soll sollst -", english_verb(["should"])),
        _modal("möchten möchte möchtest -", english_verb(["would"], ("like", "to"))),
    ]
)
COPULAS = {
    "sein": Verb("", SEIN, BE, ("stative", "preterite"), sein=True),
    "werden": Verb("", WERDEN, english_verb(["become", "became", "become"]), ("stative",), sein=True),
    "bleiben": Verb("", BLEIBEN, english_verb(["remain"]), ("stative",), sein=True),
}


@dataclass(slots=True)
class Plan:
    """Tense, modality and voice of a clause.

    Attributes:
        tense: The German tense.
        english: The English tense.
        gern: The word `gern`, which is translated as `like to`.
        time: Type of the time adverbial, or empty without one.
    """

    tense: Tense
    english: Tense
    modal: Modal | None = None
    gern: Word | None = None
    passive: bool = False
    time: str = ""


def english_tense(tense: Tense, time: str, wh: bool, state: bool) -> Tense:
    """Return the English tense of a German clause.

    It depends on the type of the time adverbial (past, future, now, today, general, weekday, since, or
    empty), on a question word (`wh`), and on the verb: stative ones have no progressive.
    """
    if tense is Tense.PRESENT:
        if time in ("future", "weekday"):
            return Tense.FUTURE
        if time == "since":
            return Tense.PERFECT
        return Tense.PROGRESSIVE if time in ("now", "today") and not state else Tense.PRESENT
    if tense is Tense.PERFECT and (wh or time in ("past", "weekday", "general")):
        return Tense.PAST
    return tense


@dataclass(slots=True)
class Group:
    """The verbs of a clause.

    Attributes:
        finite: The German finite verb, with its prefix in a verb-final clause.
        right: The German right bracket (prefix, participle, infinitive), without the finite verb.
        operator: The English operator, which precedes the subject in questions and takes `not`, or None.
        rest: The English verbs after the operator, with their particles.
    """

    finite: Word
    right: list[Word]
    operator: Token | None
    rest: list[Token]


def _finite_english(
    verb: EnglishVerb,
    past: bool,
    agreement: int,
    needed: bool,
    helper: tuple[Word, ...],
    main: tuple[Word, ...],
) -> tuple[Token | None, list[Token]]:
    """Return the operator and the other verbs in the simple present or past, with `do` if needed."""
    if verb.base == "be":
        form = ("was", "was", "were")[agreement] if past else ("am", "is", "are")[agreement]
        return (form, main), []
    if verb.base in INVARIABLE:
        return (verb.base, main), []
    if needed:
        return ("did" if past else "does" if agreement == 1 else "do", helper), [(verb.base, main)]
    return None, [(verb.past if past else verb.third if agreement == 1 else verb.base, main)]


def _english(
    verb: EnglishVerb,
    plan: Plan,
    agreement: int,
    needed: bool,
    helper: tuple[Word, ...],
    main: tuple[Word, ...],
    tail: list[Token],
) -> tuple[Token | None, list[Token]]:
    tense = plan.english
    semi = (
        LIKE if plan.gern else plan.modal and (plan.modal.past if tense is Tense.PAST else plan.modal.present)
    )
    if semi:
        links = (plan.gern,) if plan.gern else helper
        operator, rest = _finite_english(semi, tense is Tense.PAST, agreement, needed, links, links)
        rest += [(form, links) for form in semi.tail]
        return operator, [*rest, (verb.base, main), *tail]
    if tense in (Tense.PRESENT, Tense.PAST):
        # If only English uses a simple tense (`hat gekauft`: bought), both German verbs are linked to it.
        same = main if tense.value == plan.tense.value else (*helper, *main)
        operator, rest = _finite_english(verb, tense is Tense.PAST, agreement, needed, helper, same)
        # `do` is linked to the German finite verb, and the main verb to the verb that it translates.
        if operator is not None and rest:
            rest = [(verb.base, main)]
        return operator, rest + tail
    form, after = {
        Tense.PERFECT: ("has" if agreement == 1 else "have", verb.participle),
        Tense.PLUPERFECT: ("had", verb.participle),
        Tense.FUTURE: ("will", verb.base),
        Tense.PROGRESSIVE: (("am", "is", "are")[agreement], verb.ing),
    }[tense]
    return (form, helper), [(after, main), *tail]


def verb_group(verb: Verb, plan: Plan, person: int, agreement: int, final: bool, needed: bool) -> Group:
    """Return the verbs of a finite clause in both languages.

    Args:
        verb: The verb.
        plan: Tense, modal verb and voice.
        person: German person, see `NounPhrase`.
        agreement: English person, see `NounPhrase`.
        final: Whether the order is verb-final, so that a separable prefix is attached to the finite verb.
        needed: Whether English needs an operator (negation, inversion).
    """
    forms, prefix, tense = verb.forms, verb.prefix, plan.tense
    past = tense in (Tense.PAST, Tense.PLUPERFECT)
    perfect, future = tense in (Tense.PERFECT, Tense.PLUPERFECT), tense is Tense.FUTURE
    auxiliary = None
    if plan.modal:
        auxiliary = plan.modal.forms
    elif plan.passive:
        auxiliary = SEIN if perfect else WERDEN
    elif perfect or future:
        auxiliary = WERDEN if future else SEIN if verb.sein else HABEN
    inflected = auxiliary or forms
    form = (inflected.preterite if past else inflected.present)[person]
    finite = Word(prefix + form if final and auxiliary is None else form)
    helper = extra = (finite,)
    if auxiliary is None:
        right = [Word(prefix)] if prefix and not final else []
        # A separated prefix belongs to the verb: `Er steht auf` (gets up).
        main = helper = (finite, *right)
    else:
        infinitive = not (plan.passive or perfect)
        right = [Word(prefix + (forms.infinitive if infinitive else forms.participle))]
        main = (right[0],)
        if plan.passive and (plan.modal or perfect or future):
            # The participle of `werden` is `worden` in the passive, without `ge-`.
            extra = (Word("worden" if perfect else "werden"),)
            right += extra
    if plan.passive:
        tail: list[Token] = [(verb.english.participle, main), *((form, main) for form in verb.english.tail)]
        operator, rest = _english(BE, plan, agreement, needed, helper, extra, tail)
    else:
        tail = [(form, main) for form in verb.english.tail]
        operator, rest = _english(verb.english, plan, agreement, needed, helper, main, tail)
    return Group(finite, right, operator, rest)


def infinitive_group(verb: Verb, form: str) -> tuple[list[Word], list[Token]]:
    """Return the verbs of an infinitive: `zu lesen`, `to read`, or `reading` if `form` is "ing"."""
    infinitive = verb.forms.infinitive
    words = [Word(f"{verb.prefix}zu{infinitive}")] if verb.prefix else [Word("zu"), Word(infinitive)]
    last = (words[-1],)
    head: list[Token] = [("to", (words[0],)), (verb.english.base, last)]
    if form == "ing":
        head = [(verb.english.ing, tuple(words))]
    return words, head + [(word, last) for word in verb.english.tail]
