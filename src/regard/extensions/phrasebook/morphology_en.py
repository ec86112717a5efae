"""English inflection: plurals, verb forms, and the choice between `a` and `an`."""

import re
from typing import NamedTuple

__all__ = ["BE", "EnglishVerb", "article", "english_verb", "plural"]

_SIBILANT = re.compile(r"(?:s|x|z|ch|sh)$")
_CONSONANT_Y = re.compile(r"[^aeiou]y$")
_VOWEL = re.compile(r"[aeiou]", re.IGNORECASE)
# Words whose first letter does not show whether their pronunciation begins with a vowel.
_AN = frozenset({"hour", "honest"})
_A = frozenset({"university", "European", "useful", "one"})
# Verbs with a stressed short last syllable, whose final consonant is doubled before -ed and -ing.
_DOUBLING = frozenset({"stop", "plan", "get", "run", "sit", "swim", "put", "forget", "begin", "travel"})


def plural(noun: str) -> str:
    """Return the regular plural of a noun: cats, boxes, ladies."""
    if _CONSONANT_Y.search(noun):
        return noun[:-1] + "ies"
    return noun + ("es" if _SIBILANT.search(noun) else "s")


def article(following: str) -> str:
    """Return `a` or `an`, depending on the following word."""
    if following in _AN:
        return "an"
    return "an" if _VOWEL.match(following) and following not in _A else "a"


class EnglishVerb(NamedTuple):
    """The forms of an English verb.

    Attributes:
        base: `take`.
        third: `takes`.
        past: `took`.
        participle: `taken`.
        ing: `taking`.
        tail: Particles after the verb: `("off",)`.
    """

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
    third = "has" if base == "have" else "goes" if base == "go" else plural(base)
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
