"""Generation of adverbials of place, direction, time, manner, company and cause."""

from dataclasses import dataclass

from regard.phrasebook import morphology_de as de
from regard.phrasebook.lexicon import Distribution, FixedExpression, Lexicon, RandomChoices
from regard.phrasebook.noun_phrases import (
    DEFINITE_ARTICLE,
    DIES,
    EIN,
    OWN,
    Choice,
    NounPhrase,
    NounPhrases,
    contract,
)
from regard.phrasebook.pair import Phrase, Token, Word, linked_phrase

__all__ = ["Adverbials", "Time"]

PLACE_CHOICES: Distribution[Choice] = Distribution([DEFINITE_ARTICLE, EIN, OWN, DIES], [74, 14, 6, 6])


@dataclass(slots=True)
class Time(Phrase):
    """A time adverbial and its type, on which the English tense depends."""

    kind: str = ""


def fixed_phrase(fixed: FixedExpression) -> Phrase:
    """Return a new phrase from a fixed expression."""
    return linked_phrase(fixed.german, fixed.english, fixed.links)


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

    def _place(self, to: bool, owner: str, far: bool = False, home: bool = False) -> Phrase:
        place = self.draw.sample(self.lexicon.places)
        while (far and place.noun.lemma in NEARBY_PLACES) or (
            home and place.noun.lemma not in DWELLING_PLACES
        ):
            place = self.draw.sample(self.lexicon.places)
        preposition, english = place.to if to else place.at
        case = de.ACC if to and preposition != "zu" else de.DAT
        plural = self.draw.bernoulli(0.06)
        choice = DEFINITE_ARTICLE if plural else self.draw.sample(PLACE_CHOICES)
        if choice == OWN and place.noun.lemma not in OWNED:
            choice = DEFINITE_ARTICLE
        phrase = self.nouns.build(place.noun, case, plural, choice, owner, 0.18)
        return contract(preposition, phrase, english)

    def place(self, owner: str = "", verb: str = "") -> Phrase:
        """Return a place: `im alten Garten`, `in Berlin`, `zu Hause`; some verbs restrict the choice."""
        draw = self.draw
        home = verb in DWELLING_VERBS
        if draw.bernoulli(0.2):
            return fixed_phrase(draw.sample(self.lexicon.fixed_places))
        if draw.bernoulli(0.4 if home else 0.18):
            town, english = draw.sample(self.lexicon.towns)
            return linked_phrase(("in", town), ("in", english), ((0,), (1,)))
        return self._place(False, owner, home=home)

    def direction(self, owner: str = "", verb: str = "") -> Phrase:
        """Return a direction that fits the verb: `in den Garten`, `nach Berlin`, `nach Hause`."""
        draw = self.draw
        far, near = verb in DISTANT_MOTION_VERBS, verb in LOCAL_MOTION_VERBS
        if verb == "fahren" and draw.bernoulli(0.15):
            return linked_phrase(("nach", "Hause"), ("home",), ((0, 1),))
        if not far and verb != "fahren" and draw.bernoulli(0.15):
            return fixed_phrase(draw.sample(self.lexicon.fixed_directions))
        if far or (not near and draw.bernoulli(0.25)):
            town, english = draw.sample(self.lexicon.towns)
            return linked_phrase(("nach", town), ("to", english), ((0,), (1,)))
        return self._place(True, owner, verb in ("fahren", "wandern"))

    def position(self) -> Phrase:
        """Return the position of a thing: `auf dem Tisch`, `unter dem Bett`, `vor der Tür`."""
        draw = self.draw
        preposition, english = draw.sample(POSITION_PREPOSITIONS)
        choice = DEFINITE_ARTICLE if draw.bernoulli(0.75) else draw.sample(PLACE_CHOICES)
        phrase = self.nouns.common(
            ("furniture",), de.DAT, choice=choice, plural=draw.bernoulli(0.1), adjective=0.2
        )
        return contract(preposition, phrase, english)

    def time(self, kind: str) -> Time:
        """Return a time adverbial of type past, future, now, today, general, weekday or since."""
        draw, lexicon = self.draw, self.lexicon
        if kind == "today":
            return Time(*_parts(linked_phrase(("heute",), ("today",), ((0,),))), kind)
        if kind == "weekday":
            day, english = draw.sample(lexicon.weekdays)
            if draw.bernoulli(0.3):
                german, words = draw.sample(DAYTIMES)
                links = ((0,), (1,), (1,))
                return Time(
                    *_parts(linked_phrase(("am", day + german), ("on", *english, words), links)), kind
                )
            return Time(*_parts(linked_phrase(("am", day), ("on", *english), ((0,), (1,)))), kind)
        if kind == "since" or (kind == "past" and draw.bernoulli(0.25)):
            unit, english = draw.sample(lexicon.units)
            number, amount = draw.sample(lexicon.numbers)
            amount_links = [(1,)] * len(amount)
            if kind == "since":
                phrase = linked_phrase(
                    ("seit", number, unit), ("for", *amount, *english), ((0,), *amount_links, (2,))
                )
            else:
                phrase = linked_phrase(
                    ("vor", number, unit), (*amount, *english, "ago"), (*amount_links, (2,), (0,))
                )
            return Time(*_parts(phrase), kind)
        if kind == "general" and draw.bernoulli(0.2):
            if draw.bernoulli(0.6):
                hour, english = draw.sample(lexicon.numbers)
                while hour not in HOURS:
                    hour, english = draw.sample(lexicon.numbers)
                return Time(
                    *_parts(
                        linked_phrase(("um", hour, "Uhr"), ("at", *english, "o'clock"), ((0,), (1,), (2,)))
                    ),
                    kind,
                )
            month, english = draw.sample(lexicon.months)
            return Time(*_parts(linked_phrase(("im", month), ("in", *english), ((0,), (1,)))), kind)
        return Time(*_parts(fixed_phrase(draw.sample(lexicon.times[kind]))), kind)

    def manner(self) -> Phrase:
        """Return an adverb of manner: `schnell`, `sehr, sehr langsam`."""
        return fixed_phrase(self.draw.sample(self.lexicon.manners))

    def middle(self) -> Phrase:
        """Return an adverb of frequency or certainty, which precedes the English main verb."""
        return fixed_phrase(self.draw.sample(self.lexicon.middle))

    def sentence(self) -> Phrase:
        """Return a sentence adverb: `leider`, `zum Glück`."""
        return fixed_phrase(self.draw.sample(self.lexicon.sentence_adverbs))

    def company(self, owner: str) -> Phrase:
        """Return an adverbial of company: `mit meiner Schwester`."""
        kinds = ("family", "person") if self.draw.bernoulli(0.6) else ("person",)
        phrase: NounPhrase = self.nouns.common(kinds, de.DAT, owner, adjective=0.12)
        return contract("mit", phrase, "with")

    def cause(self) -> Phrase:
        """Return an adverbial of cause or concession: `wegen des Regens`, `trotz der Kälte`."""
        phrase = self.nouns.common(("trouble",), de.GEN, choice=DEFINITE_ARTICLE, plural=False)
        german, english = (
            ("wegen", ("because", "of")) if self.draw.bernoulli(0.6) else ("trotz", ("in", "spite", "of"))
        )
        item = Word(german)
        words: list[Token] = [(form, (item,)) for form in english]
        return Phrase([item, *phrase.german], words + phrase.english)

    def vehicle(self) -> Phrase:
        """Return a means of transport: `mit dem Zug`, without an article in English."""
        noun, english = self.draw.sample(VEHICLES)
        return linked_phrase(
            ("mit", "der" if noun == "Straßenbahn" else "dem", noun), ("by", english), ((0,), (2,))
        )


def _parts(phrase: Phrase) -> tuple[list[Word], list[Token]]:
    return phrase.german, phrase.english


POSITION_PREPOSITIONS = Distribution(
    [("auf", "on"), ("unter", "under"), ("neben", "beside"), ("hinter", "behind"), ("vor", "in_front_of")],
    [40, 18, 16, 14, 12],
)
# Places that combine with possessives (OWNED); destinations that are too near for `fahren` and `wandern`
# (NEARBY_PLACES); verbs of dwelling (DWELLING_VERBS) and their places (DWELLING_PLACES); verbs with distant
# (DISTANT_MOTION_VERBS) and near destinations (LOCAL_MOTION_VERBS).
OWNED = frozenset(
    "Garten Zimmer Küche Büro Schule Dorf Stadt Wohnzimmer Schlafzimmer Keller Bauernhof Hotel".split()
)
NEARBY_PLACES = frozenset("Garten Küche Zimmer Keller Wohnzimmer Schlafzimmer Straße".split())
DWELLING_VERBS = ("wohnen", "leben", "übernachten")
DWELLING_PLACES = frozenset("Stadt Dorf Hotel Wald Insel Bauernhof".split())
DISTANT_MOTION_VERBS = ("umziehen", "fliegen", "reisen", "ziehen")
LOCAL_MOTION_VERBS = ("laufen", "rennen", "wandern")
DAYTIMES = Distribution([("abend", "evening"), ("morgen", "morning"), ("nachmittag", "afternoon")], [5, 4, 3])
HOURS = frozenset("zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split())
VEHICLES = Distribution(
    [
        ("Zug", "train"),
        ("Bus", "bus"),
        ("Auto", "car"),
        ("Fahrrad", "bicycle"),
        ("Taxi", "taxi"),
        ("Schiff", "ship"),
        ("Straßenbahn", "tram"),
    ],
    [6, 5, 4, 3, 2, 2, 2],
)
