"""Generation of predicatives of `sein`, `werden` and `bleiben`: adjectives, comparisons, nouns, places."""

from regard.phrasebook import morphology_de as de
from regard.phrasebook.adverbials import Adverbials
from regard.phrasebook.lexicon import Adjective, Distribution, Lexicon, RandomChoices, zipf_distribution
from regard.phrasebook.morphology_en import article
from regard.phrasebook.noun_phrases import (
    DEFINITE_ARTICLE,
    EIN,
    KEIN,
    NounPhrase,
    NounPhrases,
    exclude_each_other,
)
from regard.phrasebook.pair import Phrase, Token, Word

__all__ = ["Predicates"]

_TRADES = {
    de.MASCULINE: "Lehrer Arzt Student Bäcker Maler Bauer Koch Anwalt Ingenieur Polizist Schauspieler",
    de.FEMININE: "Lehrerin Ärztin Studentin Verkäuferin Sängerin Richterin Krankenschwester",
}
_KINDS = (
    "text",
    "building",
    "thing",
    "clothes",
    "event",
    "vehicle",
    "abstract",
    "place",
    "animal",
    "food",
    "nature",
)
_SHAPES = Distribution(
    ["plain", "very", "comparative", "as", "noun", "place", "and"], [42, 14, 10, 6, 14, 9, 5]
)


class Predicates:
    """Generates predicatives.

    Args:
        draw: The random number generator.
        lexicon: The lexicon.
        nouns: The generator of noun phrases.
        adverbials: The generator of adverbials.
    """

    kinds = _KINDS

    def __init__(
        self, draw: RandomChoices, lexicon: Lexicon, nouns: NounPhrases, adverbials: Adverbials
    ) -> None:
        """Store the generators."""
        self.draw = draw
        self.nouns = nouns
        self.adverbials = adverbials
        self._describing = lexicon.describing
        by_lemma = {noun.lemma: noun for noun in lexicon.nouns["person"].items}
        self._trades = {
            gender: zipf_distribution([by_lemma[name] for name in names.split()])
            for gender, names in _TRADES.items()
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
        trade = (
            being
            and shape == "noun"
            and subject.owner in ("er", "sie")
            and subject.human
            and subject.person == 2
        )
        if trade:
            return self._trade(subject.column, negated)
        if being and shape == "place" and subject.human:
            return self.adverbials.place(subject.owner)
        first = draw.sample(self._describing[kind])
        if first.comparative and changing and draw.bernoulli(0.5):
            return _increasing(first)
        if first.comparative and shape in ("comparative", "as") and being:
            return self._compared(first, subject, kind, shape == "as")
        words = [Word(first.lemma)]
        english: list[Token] = [(first.english, (words[0],))]
        if shape == "very" and first.comparative:
            times = 2 if draw.bernoulli(0.15) else 1
            before = [Word(form) for form in ("sehr", ",", "sehr")[: 2 * times - 1]]
            english[:0] = [("," if item.form == "," else "very", (item,)) for item in before]
            words[:0] = before
        if shape == "and":
            second = draw.sample(self._describing[kind])
            if not exclude_each_other(first, second):
                link, item = Word("und"), Word(second.lemma)
                words += [link, item]
                english += [("and", (link,)), (second.english, (item,))]
        return Phrase(words, english)

    def _trade(self, gender: int, negated: bool) -> Phrase:
        """Return a profession: `Er ist Lehrer`, with an article in English; `Sie ist keine gute Lehrerin`."""
        draw = self.draw
        noun = draw.sample(self._trades[gender])
        if negated:
            return self.nouns.build(noun, de.NOM, False, KEIN, adjective=0.3)
        if draw.bernoulli(0.5):
            return self.nouns.build(noun, de.NOM, False, EIN, adjective=0.8)
        item = Word(noun.lemma)
        english = [article(noun.singular[0]), *noun.singular]
        return Phrase([item], [(form, (item,)) for form in english])

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
            words = [Word("so"), Word(adjective.lemma), Word("wie")]
            english: list[Token] = [
                ("as", (words[0],)),
                (adjective.english, (words[1],)),
                ("as", (words[2],)),
            ]
        else:
            words = [Word(adjective.comparative), Word("als")]
            english = [*((form, (words[0],)) for form in adjective.more), ("than", (words[1],))]
        return Phrase(words + other.german, english + other.english)


def _increasing(adjective: Adjective) -> Phrase:
    """Return a phrase such as `immer größer` (bigger and bigger)."""
    words = [Word("immer"), Word(adjective.comparative)]
    head, more = adjective.more[0], (words[1],)
    rest: list[Token] = [(form, more) for form in adjective.more[1:]]
    return Phrase(words, [(head, more), ("and", (words[0],)), (head, more), *rest])
