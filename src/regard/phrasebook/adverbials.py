"""Generation of adverbials of place, direction, time, company, cause and means."""

from regard.phrasebook import morphology_de as de
from regard.phrasebook.lexicon import Lexicon, Verb
from regard.phrasebook.noun_phrases import DEFINITE_ARTICLE, DIES, EIN, OWN, Choice, NounPhrases, contract
from regard.phrasebook.pair import Phrase, Word, arrange, concatenate, word_phrase
from regard.phrasebook.sampling import Distribution, RandomChoices

__all__ = ["Adverbials"]

_DETERMINERS: Distribution[Choice] = Distribution({DEFINITE_ARTICLE: 74, EIN: 14, OWN: 6, DIES: 6})
_HOURS = frozenset("zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split())


class Adverbials:
    """Generates adverbials.

    Args:
        draw: The random number generator.
        lexicon: The lexicon.
        nouns: The generator of noun phrases.
    """

    def __init__(self, draw: RandomChoices, lexicon: Lexicon, nouns: NounPhrases) -> None:
        """Store the generators."""
        self.draw = draw
        self.lexicon = lexicon
        self.nouns = nouns

    def fixed(self, category: str) -> Phrase:
        """Return a fixed expression of the lexicon, such as an adverb of manner."""
        return self.draw.sample(self.lexicon.expressions[category]).phrase()

    def _place(self, to: bool, owner: str, far: bool = False, home: bool = False) -> Phrase:
        place = self.draw.sample_where(
            self.lexicon.places,
            lambda place: (
                not ((far and "nearby" in place.features) or (home and "dwelling" not in place.features))
            ),
        )
        preposition, english = place.to if to else place.at
        case = de.ACC if to and preposition != "zu" else de.DAT
        plural = self.draw.bernoulli(0.06)
        choice = DEFINITE_ARTICLE if plural else self.draw.sample(_DETERMINERS)
        if choice == OWN and "owned" not in place.features:
            choice = DEFINITE_ARTICLE
        phrase = self.nouns.build(place.noun, case, plural, choice, owner, 0.18)
        return contract(preposition, phrase, english)

    def place(self, owner: str = "", home: bool = False) -> Phrase:
        """Return a place: `im alten Garten`, `in Berlin`, `zu Hause`.

        Args:
            owner: Key of the possible referent of `sein` and `ihr`, or empty.
            home: Whether people must be able to live there.
        """
        if self.draw.bernoulli(0.2):
            return self.fixed("place")
        if self.draw.bernoulli(0.4 if home else 0.18):
            return concatenate(word_phrase("in", "in"), self.fixed("town"))
        return self._place(False, owner, home=home)

    def direction(self, owner: str, verb: Verb) -> Phrase:
        """Return a direction that fits the verb: `in den Garten`, `nach Berlin`, `nach Hause`."""
        draw, infinitive = self.draw, verb.forms.infinitive
        far, near = "distant" in verb.features, "local" in verb.features
        if infinitive == "fahren" and draw.bernoulli(0.15):
            words = [Word("nach"), Word("Hause")]
            return Phrase(words, [("home", tuple(words))])
        if not far and infinitive != "fahren" and draw.bernoulli(0.15):
            return self.fixed("direction")
        if far or (not near and draw.bernoulli(0.25)):
            return concatenate(word_phrase("nach", "to"), self.fixed("town"))
        return self._place(True, owner, infinitive in ("fahren", "wandern"))

    def position(self) -> Phrase:
        """Return the position of a thing: `auf dem Tisch`, `unter dem Bett`, `vor der Tür`."""
        draw = self.draw
        preposition = draw.sample(self.lexicon.expressions["position"])
        choice = DEFINITE_ARTICLE if draw.bernoulli(0.75) else draw.sample(_DETERMINERS)
        phrase = self.nouns.common(
            ("furniture",), de.DAT, choice=choice, plural=draw.bernoulli(0.1), adjective=0.2
        )
        return contract(preposition.german[0], phrase, " ".join(preposition.english))

    def time(self, kind: str) -> Phrase:
        """Return a time adverbial of type past, future, now, today, general, weekday or since."""
        draw = self.draw
        if kind == "today":
            return word_phrase("heute", "today")
        if kind == "weekday":
            day = self.fixed("weekday")
            if draw.bernoulli(0.3):
                part = self.fixed("daytime")
                day.german[0].form += part.german[0].form
                day.english.append((part.english[0][0], (day.german[0],)))
            return concatenate(word_phrase("am", "on"), day)
        if kind == "since" or (kind == "past" and draw.bernoulli(0.25)):
            unit, number = self.fixed("unit"), self.fixed("number")
            if kind == "since":
                return concatenate(word_phrase("seit", "for"), number, unit)
            ago = word_phrase("vor", "ago")
            return arrange([ago, number, unit], [number, unit, ago])
        if kind == "general" and draw.bernoulli(0.2):
            if draw.bernoulli(0.6):
                numbers = self.lexicon.expressions["number"]
                hour = draw.sample_where(numbers, lambda number: number.german[0] in _HOURS).phrase()
                return concatenate(word_phrase("um", "at"), hour, word_phrase("Uhr", "o'clock"))
            return concatenate(word_phrase("im", "in"), self.fixed("month"))
        return self.fixed(kind)

    def company(self, owner: str) -> Phrase:
        """Return an adverbial of company: `mit meiner Schwester`."""
        kinds = ("family", "person") if self.draw.bernoulli(0.6) else ("person",)
        return contract("mit", self.nouns.common(kinds, de.DAT, owner, adjective=0.12), "with")

    def cause(self) -> Phrase:
        """Return an adverbial of cause or concession: `wegen des Regens`, `trotz der Kälte`."""
        phrase = self.nouns.common(("trouble",), de.GEN, choice=DEFINITE_ARTICLE, plural=False)
        if self.draw.bernoulli(0.6):
            return concatenate(word_phrase("wegen", "because", "of"), phrase)
        return concatenate(word_phrase("trotz", "in", "spite", "of"), phrase)
