"""Sentences with special patterns: requests, lists, repetitions, greetings, `es gibt`."""

from dataclasses import replace

from regard.phrasebook import morphology_de as de
from regard.phrasebook.adverbials import fixed_phrase
from regard.phrasebook.clauses import Clause, bare_clause
from regard.phrasebook.constraints import ANY, ONLY_PRESENT, PAST, ClauseConstraints
from regard.phrasebook.lexicon import Distribution, Verb
from regard.phrasebook.main_clauses import MainClauses, subordinate
from regard.phrasebook.noun_phrases import EIN, NONE, NUMBER, NounPhrase, coordinate
from regard.phrasebook.pair import Phrase, Token, Word, concatenate, word_phrase
from regard.phrasebook.verb_group import Plan, Tense

__all__ = ["Patterns"]

# Verbs whose object may be a list, the semantic classes of its nouns, and relative frequencies.
_LISTED = (
    ("kaufen", "food foodstuff", 30),
    ("kaufen", "thing clothes", 14),
    ("essen", "food foodstuff", 20),
    ("sehen", "animal vehicle", 12),
    ("brauchen", "thing", 14),
    ("haben", "animal", 8),
    ("haben", "thing clothes", 10),
    ("finden", "thing", 8),
    ("trinken", "drink", 8),
    ("bestellen", "food drink", 8),
)
_RESTING = ("sitzen", "stehen", "liegen")
_REQUESTS = Distribution(
    [
        "transitive",
        "motion",
        "ditransitive",
        "prepositional",
        "dative",
        "intransitive",
        "location",
        "reflexive",
    ],
    [40, 18, 15, 6, 7, 8, 4, 5],
)
_WEATHER = Distribution(
    [
        ("kalt", "cold"),
        ("warm", "warm"),
        ("heiß", "hot"),
        ("dunkel", "dark"),
        ("ruhig", "quiet"),
        ("schön", "nice"),
    ],
    [6, 5, 4, 3, 2, 2],
)


class Patterns:
    """Generates sentences with special patterns.

    Args:
        main: The generator of main clauses.
    """

    def __init__(self, main: MainClauses) -> None:
        """Store the generators and the verbs for lists."""
        self.draw = main.draw
        self.lexicon = main.clauses.lexicon
        self.clauses = main.clauses
        self.main = main
        verbs = {
            verb.forms.infinitive: verb for verb in self.lexicon.verbs["transitive"].items if not verb.prefix
        }
        self._listed: Distribution[tuple[Verb, tuple[str, ...]]] = Distribution(
            [(verbs[name], tuple(kinds.split())) for name, kinds, _ in _LISTED],
            [weight for *_, weight in _LISTED],
        )

    def request(self) -> Phrase:
        """Return a request: `Öffne bitte das Fenster!`, `Kommen Sie bitte herein!`."""
        build, draw = self.clauses, self.draw
        formal = draw.bernoulli(0.45)
        subject = build.nouns.pronoun("Sie" if formal else "du", de.NOM)
        constraints = ClauseConstraints(
            subject=subject, tenses=ONLY_PRESENT, timed=0.0, negation=0.12, relative=0.02
        )
        clause = build.clause(replace(constraints, frame=draw.sample(_REQUESTS)))
        while (
            clause.verb.state or clause.verb.english.base == "be" or clause.verb.forms.infinitive in _RESTING
        ):
            clause = build.clause(replace(constraints, frame=draw.sample(_REQUESTS)))
        clause.middle = None
        please = draw.bernoulli(0.6) and clause.negator is None
        forms = clause.verb.forms
        finite = Word(forms.infinitive if formal else forms.imperative)
        right = [Word(clause.verb.prefix)] if clause.verb.prefix else []
        return concatenate(_imperative(clause, finite, right, formal, please), word_phrase("!", "!"))

    def there_is(self) -> Phrase:
        """Return a sentence such as `Es gibt viele Bücher in der Bibliothek`."""
        build, draw = self.clauses, self.draw
        plural = draw.bernoulli(0.65)
        kinds = ("thing", "furniture", "nature", "text", "building", "animal", "vehicle")
        past = draw.bernoulli(0.3)

        def make() -> NounPhrase:
            choice = build.participants.indefinite(plural, (NONE, NUMBER))
            return build.nouns.common(kinds, de.ACC, choice=choice, plural=plural, adjective=0.4)

        listed = draw.bernoulli(0.12)
        there = build.nouns.listing(make, 2 + draw.bernoulli(0.4)) if listed else make()
        place = build.adverbials.place()
        finite, es = Word("gab" if past else "gibt"), Word("es")
        many = there.agreement == 2 and (plural or not listed)
        be: Token = (("were" if many else "was") if past else ("are" if many else "is"), (finite,))
        exist: Token = ("there", (es,))
        if len(place.german) > 1 and draw.bernoulli(0.4):
            german = [*place.german, finite, es, *there.german]
            english = [*place.english, exist, be, *there.english]
        elif draw.bernoulli(0.25):
            phrase = Phrase(
                [finite, es, *there.german, *place.german], [be, exist, *there.english, *place.english]
            )
            return concatenate(phrase, word_phrase("?", "?"))
        else:
            german = [es, finite, *there.german, *place.german]
            english = [exist, be, *there.english, *place.english]
        return concatenate(Phrase(german, english), word_phrase(".", "."))

    def list_of_things(self) -> Phrase:
        """Return a sentence with a long list: `Auf dem Markt kaufen wir Brot, Käse, drei Äpfel und ...`."""
        build, draw = self.clauses, self.draw
        subject = build.participants.subject(("person",), ClauseConstraints(relative=0.0), False)
        verb, kinds = draw.sample(self._listed)
        every = draw.bernoulli(0.2)
        plural = draw.bernoulli(0.5)
        same = draw.bernoulli(0.4)

        def make() -> NounPhrase:
            choice = build.participants.indefinite(plural, (NONE, NUMBER))
            return build.nouns.common(
                kinds, de.ACC, choice=choice, plural=plural, adjective=0.75 if same else 0.15
            )

        things = build.nouns.listing(
            make, 3 + draw.sample_below(3) + draw.sample_below(3) * draw.sample_below(2), every
        )
        plan, time = build.planner.plan(verb, subject, ClauseConstraints(tenses=ANY, timed=0.5), False)
        clause = Clause(verb, plan, subject, accusative=things, time=time)
        if draw.bernoulli(0.25) and verb.objects[0] != "food":
            clause.place = build.adverbials.place()
        return concatenate(self.main.main(clause, 0.35), word_phrase(".", "."))

    def neither(self) -> Phrase:
        """Return a sentence such as `Er hat weder ein Auto noch ein Fahrrad`, or `sowohl ... als auch`."""
        build, draw = self.clauses, self.draw
        subject = build.participants.subject(("person",), ClauseConstraints(relative=0.0), False)
        verb, kinds = draw.sample(self._listed)

        def make() -> NounPhrase:
            return build.nouns.common(kinds, de.ACC, choice=EIN, plural=False, adjective=0.3)

        first, second = make(), make()
        while first.german[-1].form == second.german[-1].form:
            second = make()
        if draw.bernoulli(0.6):
            whole = coordinate([first, second], "noch", "nor")
            whole = concatenate(word_phrase("weder", "neither"), whole)
        else:
            both, als, auch = Word("sowohl"), Word("als"), Word("auch")
            whole = Phrase(
                [both, *first.german, als, auch, *second.german],
                [("both", (both,)), *first.english, ("and", (als, auch)), *second.english],
            )
        things = NounPhrase(whole.german, whole.english, 5, 2, de.PLURAL, definite=False)
        plan, time = build.planner.plan(verb, subject, ClauseConstraints(tenses=ANY, timed=0.2), False)
        return concatenate(
            self.main.main(Clause(verb, plan, subject, accusative=things, time=time), 0.2),
            word_phrase(".", "."),
        )

    def more_and_more(self) -> Phrase:
        """Return a sentence with a repeated verb: `Der Hund lief und lief, bis ...`."""
        build, draw = self.clauses, self.draw
        verb = draw.sample(self.lexicon.verbs["intransitive"])
        while verb.prefix or verb.english.tail or verb.subjects[0] != "person" or verb.sein:
            verb = draw.sample(self.lexicon.verbs["intransitive"])
        subject = build.participants.subject(
            ("person",), ClauseConstraints(relative=0.0, pronouns=0.3), False
        )
        while subject.owner in ("du", "ihr", "Sie"):
            subject = build.participants.subject(
                ("person",), ClauseConstraints(relative=0.0, pronouns=0.3), False
            )
        times = 3 if draw.bernoulli(0.3) else 2
        verbs = [Word(verb.forms.preterite[subject.person]) for _ in range(times)]
        parts = [Phrase([item], [(verb.english.past, (item,))]) for item in verbs]
        again = coordinate(parts, every=True)
        inner = build.clause(
            self.main.following(
                Clause(verb, Plan(Tense.PAST, Tense.PAST), subject),
                ClauseConstraints(tenses=PAST, timed=0.0, negation=0.0),
            )
        )
        until = subordinate("bis", "until", inner)
        return concatenate(subject, again, Phrase([Word(",")], []), until, word_phrase(".", "."))

    def weather(self) -> Phrase:
        """Return a sentence such as `Es ist heute kalt`."""
        draw = self.draw
        item, finite = Word("es"), Word("ist" if draw.bernoulli(0.6) else "war")
        be: Token = ("is" if finite.form == "ist" else "was", (finite,))
        adjective, english = draw.sample(_WEATHER)
        kind = "today" if finite.form == "ist" else "past"
        time = self.clauses.adverbials.time(kind)
        place = self.clauses.adverbials.place() if draw.bernoulli(0.5) else Phrase([], [])
        much = Phrase([], [])
        if draw.bernoulli(0.4):
            much = word_phrase("sehr", "very")
        what = word_phrase(adjective, english)
        if draw.bernoulli(0.5):
            words = [*time.german, finite, item, *place.german, *much.german, *what.german]
            target = [*time.english, ("it", (item,)), be, *much.english, *what.english, *place.english]
        else:
            words = [item, finite, *time.german, *place.german, *much.german, *what.german]
            target = [("it", (item,)), be, *much.english, *what.english, *place.english, *time.english]
        return concatenate(Phrase(words, target), word_phrase(".", "."))

    def greeting(self) -> Phrase:
        """Return a greeting: `Guten Morgen, Herr Müller!`."""
        greeting = fixed_phrase(self.draw.sample(self.lexicon.greetings))
        return concatenate(
            greeting, word_phrase(",", ","), self.clauses.nouns.name(de.NOM), word_phrase("!", "!")
        )

    def exclamation(self) -> Phrase:
        """Return an exclamation: `Was für ein schöner Tag!`."""
        draw, build = self.draw, self.clauses
        plural = draw.bernoulli(0.3)
        kinds = ("text", "event", "building", "animal", "clothes", "thing", "vehicle", "place")
        choice = NONE if plural else EIN
        noun = build.nouns.common(kinds, de.NOM, choice=choice, plural=plural, adjective=1.0)
        was, fuer = Word("was"), Word("für")
        return concatenate(
            Phrase([was, fuer, *noun.german], [("what", (was, fuer)), *noun.english]), word_phrase("!", "!")
        )


def _imperative(clause: Clause, finite: Word, right: list[Word], formal: bool, please: bool) -> Phrase:
    """Order an imperative clause: the verb first, `Sie` without a translation, `bitte` after pronouns."""
    main = (finite, *right)
    head: list[Token] = [(clause.verb.english.base, main)]
    head += [(form, main) for form in clause.verb.english.tail]
    bitte = Word("bitte")
    if please:
        clause.time = Phrase([bitte], [])
    inner = bare_clause(clause, head)
    opening: list[Token] = [("please", (bitte,))] if please else []
    if clause.negator is not None:
        opening.append(("do", main))
    polite = clause.subject.german if formal else []
    return Phrase([finite, *polite, *inner.german, *right], opening + inner.english)
