"""Adverbials: where, where to, when, how, with whom."""

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
    """A time adverbial and its kind, by which English chooses its tense."""

    kind: str = ""


def spoken(fixed: Fixed) -> Phrase:
    """A fixed phrase, with words of its own."""
    return linked(fixed.german, fixed.english, fixed.links)


class Adverbials:
    """Draws adverbials.

    Args:
        draw: Where the choices come from.
        lexicon: The words.
        nouns: Draws the noun phrases in them.
    """

    def __init__(self, draw: Draw, lexicon: Lexicon, nouns: NounPhrases) -> None:
        """Take what it draws with."""
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
        """Where: `im alten Garten`, `in Berlin`, `zu Hause`; one does not live everywhere."""
        draw = self.draw
        home = verb in LIVING
        if draw.chance(0.2):
            return spoken(draw.pick(self.lexicon.fixed_places))
        if draw.chance(0.4 if home else 0.18):
            town, english = draw.pick(self.lexicon.towns)
            return linked(("in", town), ("in", english), ((0,), (1,)))
        return self._place(False, owner, home=home)

    def direction(self, owner: str = "", verb: str = "") -> Phrase:
        """Where to: `in den Garten`, `nach Berlin`, `nach Hause`; the verb decides how far."""
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
        """Where a thing lies or stands: `auf dem Tisch`, `unter dem Bett`, `vor der Tür`."""
        draw = self.draw
        preposition, english = draw.pick(POSITIONS)
        choice = DEFINITE if draw.chance(0.75) else draw.pick(PLACE_CHOICES)
        phrase = self.nouns.common(
            ("furniture",), de.DAT, choice=choice, plural=draw.chance(0.1), adjective=0.2
        )
        return contract(preposition, phrase, english)

    def time(self, kind: str) -> Time:
        """When; the kind is past, future, now, today, general, weekday or since."""
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
        """How: `schnell`, `sehr, sehr langsam`."""
        return spoken(self.draw.pick(self.lexicon.manners))

    def middle(self) -> Phrase:
        """How often, how surely: stands before the English main verb."""
        return spoken(self.draw.pick(self.lexicon.middle))

    def sentence(self) -> Phrase:
        """An adverb on the whole sentence, which opens it: `leider`, `zum Glück`."""
        return spoken(self.draw.pick(self.lexicon.sentence_adverbs))

    def company(self, owner: str) -> Phrase:
        """With whom: `mit meiner Schwester`."""
        kinds = ("family", "person") if self.draw.chance(0.6) else ("person",)
        phrase: NounPhrase = self.nouns.common(kinds, de.DAT, owner, adjective=0.12)
        return contract("mit", phrase, "with")

    def cause(self) -> Phrase:
        """Because of what, in spite of what: `wegen des Regens`, `trotz der Kälte`."""
        phrase = self.nouns.common(("trouble",), de.GEN, choice=DEFINITE, plural=False)
        german, english = (
            ("wegen", ("because", "of")) if self.draw.chance(0.6) else ("trotz", ("in", "spite", "of"))
        )
        item = Word(german)
        words: list[Token] = [(form, (item,)) for form in english]
        return Phrase([item, *phrase.german], words + phrase.english)

    def vehicle(self) -> Phrase:
        """By what: `mit dem Zug`, whose article English drops."""
        noun, english = self.draw.pick(VEHICLES)
        return linked(("mit", "der" if noun == "Straßenbahn" else "dem", noun), ("by", english), ((0,), (2,)))


def _parts(phrase: Phrase) -> tuple[list[Word], list[Token]]:
    return phrase.german, phrase.english


POSITIONS = Table(
    [("auf", "on"), ("unter", "under"), ("neben", "beside"), ("hinter", "behind"), ("vor", "in_front_of")],
    [40, 18, 16, 14, 12],
)
# Places that can be somebody's; verbs that take one to a town; verbs that do not.
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
