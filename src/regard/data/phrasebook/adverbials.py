"""Generation of adverbials of place, direction, time, manner, company and cause."""

from dataclasses import dataclass

from regard.data.phrasebook import morphology_de as de
from regard.data.phrasebook.lexicon import Draw, Fixed, Lexicon, Table
from regard.data.phrasebook.noun_phrases import (
    DEFINITE,
    DIES,
    EIN,
    OWN,
    Choice,
    NounPhrase,
    NounPhrases,
    contract,
)
from regard.data.phrasebook.pair import Phrase, Token, Word, linked

__all__ = ["Adverbials", "Time"]

PLACE_CHOICES: Table[Choice] = Table([DEFINITE, EIN, OWN, DIES], [74, 14, 6, 6])


@dataclass(slots=True)
class Time(Phrase):
    """A time adverbial and its type, on which the English tense depends."""

    kind: str = ""


def spoken(fixed: Fixed) -> Phrase:
    """Return a new phrase from a fixed expression."""
    return linked(fixed.german, fixed.english, fixed.links)


class Adverbials:
    """Generates adverbials.

    Args:
        draw: The random number generator.
        lexicon: The lexicon.
        nouns: The generator of noun phrases.
    """

    def __init__(self, draw: Draw, lexicon: Lexicon, nouns: NounPhrases) -> None:
        """Store the generators."""
        self.draw = draw
        self.lexicon = lexicon
        self.nouns = nouns

    def _place(self, to: bool, owner: str, far: bool = False, home: bool = False) -> Phrase:
        place = self.draw.pick(self.lexicon.places)
        while (far and place.noun.lemma in INDOORS) or (home and place.noun.lemma not in HOMES):
            place = self.draw.pick(self.lexicon.places)
        preposition, english = place.to if to else place.at
        case = de.ACC if to and preposition != "zu" else de.DAT
        plural = self.draw.chance(0.06)
        choice = DEFINITE if plural else self.draw.pick(PLACE_CHOICES)
        if choice == OWN and place.noun.lemma not in OWNED:
            choice = DEFINITE
        phrase = self.nouns.build(place.noun, case, plural, choice, owner, 0.18)
        return contract(preposition, phrase, english)

    def place(self, owner: str = "", verb: str = "") -> Phrase:
        """Return a place: `im alten Garten`, `in Berlin`, `zu Hause`; some verbs restrict the choice."""
        draw = self.draw
        home = verb in LIVING
        if draw.chance(0.2):
            return spoken(draw.pick(self.lexicon.fixed_places))
        if draw.chance(0.4 if home else 0.18):
            town, english = draw.pick(self.lexicon.towns)
            return linked(("in", town), ("in", english), ((0,), (1,)))
        return self._place(False, owner, home=home)

    def direction(self, owner: str = "", verb: str = "") -> Phrase:
        """Return a direction that fits the verb: `in den Garten`, `nach Berlin`, `nach Hause`."""
        draw = self.draw
        far, near = verb in FAR, verb in NEAR
        if verb == "fahren" and draw.chance(0.15):
            return linked(("nach", "Hause"), ("home",), ((0, 1),))
        if not far and verb != "fahren" and draw.chance(0.15):
            return spoken(draw.pick(self.lexicon.fixed_directions))
        if far or (not near and draw.chance(0.25)):
            town, english = draw.pick(self.lexicon.towns)
            return linked(("nach", town), ("to", english), ((0,), (1,)))
        return self._place(True, owner, verb in ("fahren", "wandern"))

    def position(self) -> Phrase:
        """Return the position of a thing: `auf dem Tisch`, `unter dem Bett`, `vor der Tür`."""
        draw = self.draw
        preposition, english = draw.pick(POSITIONS)
        choice = DEFINITE if draw.chance(0.75) else draw.pick(PLACE_CHOICES)
        phrase = self.nouns.common(
            ("furniture",), de.DAT, choice=choice, plural=draw.chance(0.1), adjective=0.2
        )
        return contract(preposition, phrase, english)

    def time(self, kind: str) -> Time:
        """Return a time adverbial of type past, future, now, today, general, weekday or since."""
        draw, lexicon = self.draw, self.lexicon
        if kind == "today":
            return Time(*_parts(linked(("heute",), ("today",), ((0,),))), kind)
        if kind == "weekday":
            day, english = draw.pick(lexicon.weekdays)
            if draw.chance(0.3):
                german, words = draw.pick(DAYTIMES)
                links = ((0,), (1,), (1,))
                return Time(*_parts(linked(("am", day + german), ("on", *english, words), links)), kind)
            return Time(*_parts(linked(("am", day), ("on", *english), ((0,), (1,)))), kind)
        if kind == "since" or (kind == "past" and draw.chance(0.25)):
            unit, english = draw.pick(lexicon.units)
            number, amount = draw.pick(lexicon.numbers)
            amount_links = [(1,)] * len(amount)
            if kind == "since":
                phrase = linked(
                    ("seit", number, unit), ("for", *amount, *english), ((0,), *amount_links, (2,))
                )
            else:
                phrase = linked(
                    ("vor", number, unit), (*amount, *english, "ago"), (*amount_links, (2,), (0,))
                )
            return Time(*_parts(phrase), kind)
        if kind == "general" and draw.chance(0.2):
            if draw.chance(0.6):
                hour, english = draw.pick(lexicon.numbers)
                while hour not in HOURS:
                    hour, english = draw.pick(lexicon.numbers)
                return Time(
                    *_parts(linked(("um", hour, "Uhr"), ("at", *english, "o'clock"), ((0,), (1,), (2,)))),
                    kind,
                )
            month, english = draw.pick(lexicon.months)
            return Time(*_parts(linked(("im", month), ("in", *english), ((0,), (1,)))), kind)
        return Time(*_parts(spoken(draw.pick(lexicon.times[kind]))), kind)

    def manner(self) -> Phrase:
        """Return an adverb of manner: `schnell`, `sehr, sehr langsam`."""
        return spoken(self.draw.pick(self.lexicon.manners))

    def middle(self) -> Phrase:
        """Return an adverb of frequency or certainty, which precedes the English main verb."""
        return spoken(self.draw.pick(self.lexicon.middle))

    def sentence(self) -> Phrase:
        """Return a sentence adverb: `leider`, `zum Glück`."""
        return spoken(self.draw.pick(self.lexicon.sentence_adverbs))

    def company(self, owner: str) -> Phrase:
        """Return an adverbial of company: `mit meiner Schwester`."""
        kinds = ("family", "person") if self.draw.chance(0.6) else ("person",)
        phrase: NounPhrase = self.nouns.common(kinds, de.DAT, owner, adjective=0.12)
        return contract("mit", phrase, "with")

    def cause(self) -> Phrase:
        """Return an adverbial of cause or concession: `wegen des Regens`, `trotz der Kälte`."""
        phrase = self.nouns.common(("trouble",), de.GEN, choice=DEFINITE, plural=False)
        german, english = (
            ("wegen", ("because", "of")) if self.draw.chance(0.6) else ("trotz", ("in", "spite", "of"))
        )
        item = Word(german)
        words: list[Token] = [(form, (item,)) for form in english]
        return Phrase([item, *phrase.german], words + phrase.english)

    def vehicle(self) -> Phrase:
        """Return a means of transport: `mit dem Zug`, without an article in English."""
        noun, english = self.draw.pick(VEHICLES)
        return linked(("mit", "der" if noun == "Straßenbahn" else "dem", noun), ("by", english), ((0,), (2,)))


def _parts(phrase: Phrase) -> tuple[list[Word], list[Token]]:
    return phrase.german, phrase.english


POSITIONS = Table(
    [("auf", "on"), ("unter", "under"), ("neben", "beside"), ("hinter", "behind"), ("vor", "in_front_of")],
    [40, 18, 16, 14, 12],
)
# Places that combine with possessives (OWNED); destinations that are too near for `fahren` and `wandern`
# (INDOORS); verbs of dwelling (LIVING) and their places (HOMES); verbs with distant (FAR) and near
# destinations (NEAR).
OWNED = frozenset(
    "Garten Zimmer Küche Büro Schule Dorf Stadt Wohnzimmer Schlafzimmer Keller Bauernhof Hotel".split()
)
INDOORS = frozenset("Garten Küche Zimmer Keller Wohnzimmer Schlafzimmer Straße".split())
LIVING = ("wohnen", "leben", "übernachten")
HOMES = frozenset("Stadt Dorf Hotel Wald Insel Bauernhof".split())
FAR = ("umziehen", "fliegen", "reisen", "ziehen")
NEAR = ("laufen", "rennen", "wandern")
DAYTIMES = Table([("abend", "evening"), ("morgen", "morning"), ("nachmittag", "afternoon")], [5, 4, 3])
HOURS = frozenset("zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split())
VEHICLES = Table(
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
