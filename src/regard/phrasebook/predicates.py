"""Generation of predicatives of `sein`, `werden` and `bleiben`: adjectives, comparisons, nouns, places."""

from regard.phrasebook import morphology_de as de
from regard.phrasebook.adverbials import Adverbials
from regard.phrasebook.lexicon import Adjective, Lexicon
from regard.phrasebook.morphology_en import article
from regard.phrasebook.noun_phrases import (
    DEFINITE_ARTICLE,
    EIN,
    KEIN,
    NounPhrase,
    NounPhrases,
    intensifier,
)
from regard.phrasebook.pair import Phrase, Token, Word, concatenate, word_phrase
from regard.phrasebook.sampling import Distribution, RandomChoices, zipf_distribution

__all__ = ["KINDS", "Predicates"]

KINDS = tuple("text building thing clothes event vehicle abstract place animal food nature".split())
"""The semantic classes of subjects that are not persons."""
_SHAPES = Distribution(
    {"plain": 42, "very": 14, "comparative": 10, "as": 6, "noun": 14, "place": 9, "and": 5}
)


class Predicates:
    """Generates predicatives.

    Args:
        draw: The random number generator.
        lexicon: The lexicon.
        nouns: The generator of noun phrases.
        adverbials: The generator of adverbials.
    """

    def __init__(
        self, draw: RandomChoices, lexicon: Lexicon, nouns: NounPhrases, adverbials: Adverbials
    ) -> None:
        """Store the generators."""
        self.draw = draw
        self.nouns = nouns
        self.adverbials = adverbials
        self._describing = lexicon.describing
        professions = lexicon.nouns["profession"].items
        self._professions = {
            gender: zipf_distribution(noun for noun in professions if noun.gender == gender)
            for gender in (de.MASCULINE, de.FEMININE)
        }

    def predicate(self, subject: NounPhrase, kind: str, negated: bool, changing: bool, being: bool) -> Phrase:
        """Return a predicative that fits the subject.

        Args:
            subject: The subject of the clause.
            kind: Semantic class of the head noun if the subject is a relative pronoun.
            negated: Whether the clause is negated, so that nouns have the determiner `kein`.
            changing: Whether the verb is `werden`, which combines with `immer größer`.
            being: Whether the verb is `sein`, which also combines with nouns and places.
        """
        draw = self.draw
        kind = kind or subject.kind or "person"
        kind = "person" if kind not in self._describing else kind
        shape = draw.sample(_SHAPES)
        if (
            being
            and shape == "noun"
            and subject.owner in ("er", "sie")
            and subject.human
            and subject.person == 2
        ):
            return self._profession(subject.column, negated)
        if being and shape == "place" and subject.human:
            return self.adverbials.place(subject.owner)
        first = draw.sample(self._describing[kind])
        if first.comparative and changing and draw.bernoulli(0.5):
            return _increasing(first)
        if first.comparative and shape in ("comparative", "as") and being:
            return self._compared(first, subject, kind, shape == "as")
        found = word_phrase(first.lemma, first.english)
        if shape == "very" and first.comparative:
            return concatenate(intensifier(draw.bernoulli(0.15)), found)
        if shape == "and":
            second = draw.sample(self._describing[kind])
            if not first.excludes(second):
                und = word_phrase("und", "and")
                return concatenate(found, und, word_phrase(second.lemma, second.english))
        return found

    def _profession(self, gender: int, negated: bool) -> Phrase:
        """Return a profession: `Er ist Lehrer`, with an article in English; `Sie ist keine gute Lehrerin`."""
        draw = self.draw
        noun = draw.sample(self._professions[gender])
        if negated:
            return self.nouns.build(noun, de.NOM, False, KEIN, adjective=0.3)
        if draw.bernoulli(0.5):
            return self.nouns.build(noun, de.NOM, False, EIN, adjective=0.8)
        return word_phrase(noun.lemma, article(noun.singular[0]), *noun.singular)

    def _compared(self, adjective: Adjective, subject: NounPhrase, kind: str, equal: bool) -> Phrase:
        if subject.kind in ("", "person", "family"):
            other = (
                self.nouns.name(de.NOM)
                if self.draw.bernoulli(0.4)
                else self.nouns.common(("person", "family"), de.NOM)
            )
        else:
            other = self.nouns.common(
                (kind,), de.NOM, choice=DEFINITE_ARTICLE, plural=subject.column == de.PLURAL
            )
        if equal:
            so, wie = word_phrase("so", "as"), word_phrase("wie", "as")
            return concatenate(so, word_phrase(adjective.lemma, adjective.english), wie, other)
        more = word_phrase(adjective.comparative, *adjective.more)
        return concatenate(more, word_phrase("als", "than"), other)


def _increasing(adjective: Adjective) -> Phrase:
    """Return a phrase such as `immer größer` (bigger and bigger)."""
    words = [Word("immer"), Word(adjective.comparative)]
    head, more = adjective.more[0], (words[1],)
    rest: list[Token] = [(form, more) for form in adjective.more[1:]]
    return Phrase(words, [(head, more), ("and", (words[0],)), (head, more), *rest])
