"""Inflection: German nouns, adjectives, determiners and verbs; English plurals, verbs, and `a` or `an`.

The indices of cases are in the order nominative, accusative, dative, genitive. Columns are the three genders
of the singular and the plural. Persons are in the order ich, du, er, wir, ihr, sie.
"""

import re
from typing import NamedTuple

NOM, ACC, DAT, GEN = range(4)
MASCULINE, FEMININE, NEUTER, PLURAL = range(4)
STRONG, WEAK, MIXED = range(3)

Forms = tuple[str, ...]
"""The forms of a word in the four cases."""


def _rows(text: str) -> tuple[Forms, ...]:
    return tuple(tuple(form.strip("-") for form in row.split()) for row in text.splitlines())


# Rows: masculine, feminine, neuter, plural. Columns: the cases. "-" is an empty ending.
DEFINITE_FORMS = _rows("der den dem des\n die die der der\n das das dem des\n die die den der")
_DER = _rows("er en em es\n e e er er\n es es em es\n e e en er")
_EIN = _rows("- en em es\n e e er er\n - - em es\n e e en er")
_ADJECTIVE = (
    _rows("er en em en\n e e er er\n es es em en\n e e en er"),
    _rows("e en en en\n e e en en\n e e en en\n en en en en"),
    _rows("er en en en\n e e en en\n es es en en\n en en en en"),
)


def der_word(stem: str) -> tuple[Forms, ...]:
    """Return the forms of `dies-`, `jed-`, `welch-` or `all-` by column and case."""
    return tuple(tuple(stem + ending for ending in row) for row in _DER)


def ein_word(stem: str) -> tuple[Forms, ...]:
    """Return the forms of `ein`, `kein` or a possessive by column and case; `euer` becomes `eur-`."""
    short = "eur" if stem == "euer" else stem
    return tuple(tuple(short + ending if ending else stem for ending in row) for row in _EIN)


def noun_forms(lemma: str, genitive: str, plural: str, weak: bool) -> tuple[Forms, Forms]:
    """Return the case forms of a noun, singular and plural; weak masculines end in -(e)n."""
    oblique = (genitive.removesuffix("s") if genitive.endswith("ns") else genitive) if weak else lemma
    dative = plural if plural.endswith(("n", "s")) else plural + "n"
    return (lemma, oblique, oblique, genitive), (plural, plural, dative, plural)


def adjective_form(stem: str, declension: int, column: int, case: int) -> str:
    """Return an attributive adjective in the strong, weak or mixed declension."""
    return stem + _ADJECTIVE[declension][column][case]


class Conjugation(NamedTuple):
    """The forms of a verb without its separable prefix, the finite ones in the six persons.

    The imperative is that of `du`.
    """

    present: tuple[str, ...]
    preterite: tuple[str, ...]
    infinitive: str
    participle: str
    imperative: str


_INSEPARABLE = ("be", "emp", "ent", "er", "ge", "miss", "ver", "zer", "über", "unter")
# Stems with a linking -e-: wart-e-t, zeichn-e-t, öffn-e-t; but lern-t, komm-t.
_NEEDS_E = re.compile(r"(?:[td]|ch[mn]|[^aeiouäöüyrlhmn][mn])$")
_HISSING = ("s", "ß", "z", "x")


def _second(third: str, stem: str) -> str:
    """Return the second person, given the third: er sieht, du siehst; er hält, du hältst."""
    if third.endswith("et"):
        return third.removesuffix("t") + "st"
    if stem.endswith("t"):
        return third + "st"
    base = third.removesuffix("t")
    return base + ("t" if base.endswith(_HISSING) else "st")


def conjugate(parts: list[str]) -> Conjugation:
    """Return all forms of a verb from its principal parts.

    Args:
        parts: The infinitive of a weak verb; or infinitive, third person present, preterite and participle.
    """
    infinitive = parts[0]
    stem = infinitive.removesuffix("n").removesuffix("e")
    link = "e" if _NEEDS_E.search(stem) else ""
    if len(parts) == 1:
        ge = "" if infinitive.endswith("ieren") or infinitive.startswith(_INSEPARABLE) else "ge"
        third, past, participle = stem + link + "t", stem + link + "te", ge + stem + link + "t"
    else:
        _, third, past, participle = parts
    first = stem + "e" if third.endswith("t") else third  # ich weiß, er weiß
    present = (first, _second(third, stem), third, infinitive, stem + link + "t", infinitive)
    if past.endswith("te"):
        preterite = (past, past + "st", past, past + "n", past + "t", past + "n")
    else:
        dental = "e" * past.endswith(("t", "d"))
        second = past + "e" * past.endswith(("t", "d", *_HISSING)) + "st"
        preterite = (past, second, past, past + "en", past + dental + "t", past + "en")
    changed = "e" in stem and "i" in third and not third.startswith(stem)
    weak_ending = bool(link) or infinitive.endswith("ern") or (len(parts) == 1 and stem.endswith("s"))
    imperative = third.removesuffix("t") if changed else stem + "e" * weak_ending
    return Conjugation(present, preterite, infinitive, participle, imperative)


HABEN = conjugate(["haben", "hat", "hatte", "gehabt"])
BLEIBEN = conjugate(["bleiben", "bleibt", "blieb", "geblieben"])
SEIN = Conjugation(
    ("bin", "bist", "ist", "sind", "seid", "sind"),
    ("war", "warst", "war", "waren", "wart", "waren"),
    "sein",
    "gewesen",
    "sei",
)
WERDEN = Conjugation(
    ("werde", "wirst", "wird", "werden", "werdet", "werden"),
    ("wurde", "wurdest", "wurde", "wurden", "wurdet", "wurden"),
    "werden",
    "geworden",
    "werde",
)

_SIBILANT = re.compile(r"(?:s|x|z|ch|sh)$")
_CONSONANT_Y = re.compile(r"[^aeiou]y$")
_VOWEL = re.compile(r"[aeiou]", re.IGNORECASE)
# Words whose first letter does not show whether their pronunciation begins with a vowel.
_AN = frozenset({"hour", "honest"})
_A = frozenset({"university", "European", "useful", "one"})
# Verbs with a stressed short last syllable, whose final consonant is doubled before -ed and -ing.
_DOUBLING = frozenset({"stop", "plan", "get", "run", "sit", "swim", "put", "forget", "begin", "travel"})


def regular_plural(noun: str) -> str:
    """Return the regular plural of a noun: cats, boxes, ladies."""
    if _CONSONANT_Y.search(noun):
        return noun[:-1] + "ies"
    return noun + ("es" if _SIBILANT.search(noun) else "s")


def article(following: str) -> str:
    """Return `a` or `an`, depending on the following word."""
    vowel = following in _AN or (_VOWEL.match(following) and following not in _A)
    return "an" if vowel else "a"


class EnglishVerb(NamedTuple):
    """The forms of an English verb (take, takes, took, taken, taking) and particles after it: `("off",)`."""

    base: str
    third: str
    past: str
    participle: str
    ing: str
    tail: tuple[str, ...] = ()


BE = EnglishVerb("be", "is", "was", "been", "being")


def english_verb(parts: list[str], tail: tuple[str, ...] = ()) -> EnglishVerb:
    """Return the forms of a verb from its base (regular verbs), or from base, past and participle."""
    base = parts[0]
    if base == "be":
        return BE._replace(tail=tail)
    third = "has" if base == "have" else "goes" if base == "go" else regular_plural(base)
    stem = base + base[-1] if base in _DOUBLING else base
    if base.endswith("ie"):
        ing = base[:-2] + "ying"
    else:
        ing = (stem[:-1] if stem.endswith("e") and not stem.endswith("ee") else stem) + "ing"
    if len(parts) == 3:
        return EnglishVerb(base, third, parts[1], parts[2], ing, tail)
    if base.endswith("e"):
        past = base + "d"
    elif _CONSONANT_Y.search(base):
        past = base[:-1] + "ied"
    else:
        past = stem + "ed"
    return EnglishVerb(base, third, past, past, ing, tail)
