"""Whole sentences: statements, questions, requests, subordinate clauses, lists; how often each comes is long-tailed."""

from collections.abc import Callable
from dataclasses import replace

from regard.data.phrasebook import morphology_de as de
from regard.data.phrasebook.adverbials import spoken
from regard.data.phrasebook.clause_builder import ANY, PAST, PRESENT, QUESTION, ClauseBuilder, Wish
from regard.data.phrasebook.clauses import Clause, Order, infinitive_clause, order_clause
from regard.data.phrasebook.lexicon import Draw, Lexicon, Table, lexicon, zipf
from regard.data.phrasebook.noun_phrases import EIN, NONE, NUMBER, WELCH, NounPhrase, series
from regard.data.phrasebook.pair import Pair, Phrase, Token, Word, join, linked, realise, word
from regard.data.phrasebook.verb_group import Plan, Tense

__all__ = ["Sentences"]

# Subordinator, English, tenses of the subordinate and of the main clause.
_SUBORDINATORS = Table(
    [
        ("weil", "because", ANY, ANY),
        ("wenn", "if", PRESENT, PRESENT),
        ("als", "when", PAST, PAST),
        ("obwohl", "although", ANY, ANY),
        ("bevor", "before", PAST, PAST),
        ("nachdem", "after", Table(["pluperfect"], [1]), PAST),
        ("während", "while", PAST, PAST),
        ("sobald", "as_soon_as", PRESENT, PRESENT),
        ("damit", "so_that", Table(["present"], [1]), PRESENT),
        ("bis", "until", PAST, PAST),
    ],
    [30, 18, 14, 10, 8, 8, 5, 4, 3, 3],
)
_COORDINATORS = Table([("und", "and"), ("aber", "but"), ("denn", "because")], [50, 36, 14])
_ERAS = Table(
    [
        (ANY, ANY),
        (Table(["present", "modal", "gern", "future"], [70, 18, 6, 6]), PRESENT),
        (
            Table(["past", "perfect", "modal past"], [45, 40, 15]),
            Table(["past", "perfect", "modal past"], [60, 20, 20]),
        ),
    ],
    [15, 45, 40],
)
_WH = Table(
    ["wer", "was", "wo", "wann", "warum", "welch", "wohin", "wie lange", "wen", "wem"],
    [16, 16, 12, 12, 12, 9, 9, 4, 5, 4],
)
_ADVERBS = {"wann": ("when",), "warum": ("why",), "wo": ("where",), "wie lange": ("how", "long")}
_ONLY_PRESENT = Table(["present"], [1])
_THEN = Table(["past", "perfect", "modal past", "present"], [60, 15, 15, 10])


class Sentences:
    """Draws sentences.

    Args:
        seed: Not negative; the same seed draws the same sentences everywhere.
    """

    def __init__(self, seed: int) -> None:
        self.draw = Draw(seed)
        self.lexicon: Lexicon = lexicon()
        self.clauses = ClauseBuilder(self.draw, self.lexicon)
        kinds: list[tuple[Callable[[], Phrase], float]] = [
            (self.statement, 400),
            (self.yes_or_no, 75),
            (self.question, 80),
            (self.that, 85),
            (self.because, 75),
            (self.when_first, 45),
            (self.two, 60),
            (self.infinitive, 40),
            (self.in_order_to, 25),
            (self.request, 32),
            (self.there_is, 25),
            (self.list_of_things, 22),
            (self.weather, 8),
            (self.greeting, 6),
            (self.exclamation, 7),
            (self.important, 12),
            (self.neither, 7),
            (self.more_and_more, 6),
        ]
        self._kinds = Table([kind for kind, _ in kinds], [weight for _, weight in kinds])

    def sentence(self) -> Pair:
        """The next sentence pair."""
        return realise(self.draw.pick(self._kinds)())

    def _main(self, clause: Clause, fronted: float = 0.3) -> Phrase:
        """A main clause in verb-second order, sometimes opened by an adverbial or an object."""
        draw = self.draw
        formal = clause.subject.owner == "Sie" and clause.subject.pronoun
        place = clause.place if clause.negator is None else None
        choices = [
            item for item in (clause.time, place) if item is not None and item.german[0].form != "gerade"
        ]
        if choices and (formal or draw.chance(fronted + 0.12)):
            front = choices[0]
            return order_clause(clause, Order.SECOND, front, front)
        if formal or draw.chance(fronted * 0.2):
            front = self.clauses.adverbials.sentence()
            return order_clause(clause, Order.SECOND, front, front)
        accusative = clause.accusative
        if accusative is not None and clause.subject.pronoun and clause.negator is not accusative.negator:
            if accusative.definite and accusative.owner not in ("ich", "wir") and draw.chance(0.05):
                plain = accusative.german[0].form in ("den", "diesen", "dieses", "das")
                if plain and clause.subject.owner in ("ich", "wir", "du", "er"):
                    return order_clause(clause, Order.SECOND, accusative)
        return order_clause(clause, Order.SECOND)

    def statement(self) -> Phrase:
        """A main clause."""
        return join(self._main(self.clauses.clause(Wish())), word(".", "."))

    def yes_or_no(self) -> Phrase:
        """`Hast du das Buch gelesen?`."""
        wish = Wish(tenses=QUESTION, negation=0.0, pronouns=0.75, timed=0.25, relative=0.02)
        clause = self.clauses.clause(wish)
        return join(order_clause(clause, Order.FIRST, inverted=True), word("?", "?"))

    def question(self) -> Phrase:
        """A question with a question word."""
        return join(self._asked(self.draw.pick(_WH), Order.SECOND), word("?", "?"))

    def _asked(self, kind: str, order: Order, wish: Wish | None = None) -> Phrase:
        """A question clause; in verb-final order, an indirect one."""
        direct = order is not Order.FINAL
        if wish is None:
            wish = Wish(tenses=QUESTION, negation=0.0, pronouns=0.7, timed=0.2, relative=0.0)
        wish = replace(wish, wh=direct)
        build, draw = self.clauses, self.draw
        if kind == "wer":
            item = Word("wer")
            who = NounPhrase([item], [("who", (item,))], owner="er", human=True, pronoun=True)
            clause = build.clause(replace(wish, subject=who))
            return order_clause(clause, order, who, who, direct)
        if kind in ("was", "wen", "wem", "welch"):
            hole, frame = self._object_word(kind)
            clause = build.asked_object(hole, frame, replace(wish, personal=True))
            return order_clause(clause, order, hole, hole, direct)
        if kind in ("wo", "wohin", "wie lange"):
            frame = "motion" if kind == "wohin" else "location"
            clause = build.clause(replace(wish, frame=frame, personal=True))
            words = tuple(kind.split())
            front = linked(
                words, ("where",) if len(words) == 1 else ("how", "long"), ((0,), (1,))[: len(words)]
            )
            if kind == "wohin":
                clause.complement = None
            elif kind == "wo":
                clause.place = None
            else:
                clause.time = clause.middle = None
                clause.plan = (
                    Plan(Tense.PAST, Tense.PAST)
                    if clause.subject.owner not in ("du", "ihr")
                    else Plan(Tense.PERFECT, Tense.PAST if direct else Tense.PERFECT)
                )
            clause.company = clause.manner = None
            return order_clause(clause, order, front, front, direct)
        clause = build.clause(replace(wish, personal=True, timed=0.2 if kind == "warum" else 0.0))
        front = word(kind, *_ADVERBS[kind])
        return order_clause(clause, order, front, front, direct)

    def _object_word(self, kind: str) -> tuple[NounPhrase, str]:
        if kind == "welch":
            return self.clauses.nouns.common(
                ("text", "event", "thing", "clothes", "vehicle"), de.ACC, choice=WELCH, adjective=0.2
            ), "transitive"
        item = Word(kind)
        english = {"was": "what", "wen": "who", "wem": "who"}[kind]
        phrase = NounPhrase([item], [(english, (item,))], human=kind != "was", pronoun=True)
        return phrase, "dative" if kind == "wem" else "transitive"

    def that(self) -> Phrase:
        """`Ich glaube, dass ...`, `Wir fragen, ob ...`."""
        draw, build = self.draw, self.clauses
        verb = draw.pick(self.lexicon.clause_verbs)
        kind = verb.clauses[0] if draw.chance(0.7) else verb.clauses[draw.below(len(verb.clauses))]
        tenses = Table(["present", "past", "perfect"], [55, 30, 15])
        matrix = build.matrix(verb, Wish(tenses=tenses, timed=0.08, negation=0.08, relative=0.02))
        now = matrix.plan.tense is Tense.PRESENT
        wish = Wish(tenses=ANY if now else _THEN, pronouns=0.5, relative=0.03)
        if kind in ("dass", "ob"):
            linker = word(kind, "that" if kind == "dass" else "whether")
            inner = join(linker, order_clause(build.clause(wish), Order.FINAL))
        else:
            inner = self._asked(
                kind, Order.FINAL, replace(wish, tenses=QUESTION if now else _THEN, negation=0.0, timed=0.2)
            )
        matrix.tail = Phrase([Word(","), *inner.german], inner.english)
        return join(self._main(matrix, 0.06), word(".", "."))

    def _subordinate(self, link: str, english: str, clause: Clause) -> Phrase:
        return join(word(link, *english.split("_")), order_clause(clause, Order.FINAL))

    def because(self) -> Phrase:
        """A main clause and then a subordinate one; the comma is German."""
        build = self.clauses
        link, english, inner, outer = self.draw.pick(_SUBORDINATORS)
        timed = 0.1 if link in ("weil", "obwohl") else 0.0
        if outer is ANY:
            outer, inner = self.draw.pick(_ERAS)
        first = build.clause(Wish(tenses=outer, timed=timed, relative=0.02))
        second = build.clause(
            self._following(first, Wish(tenses=inner, timed=timed, relative=0.02, negation=0.08))
        )
        tail = self._subordinate(link, english, second)
        first.tail = Phrase([Word(","), *tail.german], tail.english)
        return join(self._main(first, 0.1), word(".", "."))

    def when_first(self) -> Phrase:
        """A subordinate clause and then the main one, which begins with its verb."""
        build = self.clauses
        link, english, inner, outer = self.draw.pick(_SUBORDINATORS)
        while link in ("damit", "bis"):
            link, english, inner, outer = self.draw.pick(_SUBORDINATORS)
        if outer is ANY:
            inner, outer = self.draw.pick(_ERAS)
        first = build.clause(Wish(tenses=inner, timed=0.0, relative=0.02, negation=0.06))
        second = build.clause(self._following(first, Wish(tenses=outer, timed=0.0, relative=0.02)))
        opening = self._subordinate(link, english, first)
        main = order_clause(second, Order.FIRST)
        return join(opening, word(",", ","), main, word(".", "."))

    def _following(self, first: Clause, wish: Wish) -> Wish:
        """Sometimes a pronoun takes up the first clause's subject."""
        if self.draw.chance(0.45):
            subject = first.subject
            pronoun = None if subject.pronoun else self.clauses.pronoun_for(subject)
            return replace(wish, subject=pronoun)
        return wish

    def two(self) -> Phrase:
        """Two main clauses."""
        build = self.clauses
        link, english = self.draw.pick(_COORDINATORS)
        left, right = self.draw.pick(_ERAS)
        first = build.clause(Wish(tenses=left, timed=0.25, relative=0.02, negation=0.06))
        second = build.clause(self._following(first, Wish(tenses=right, timed=0.2, relative=0.02)))
        comma = Phrase([], []) if link in ("und", "oder") else word(",", *("," * (link == "aber")))
        parts = [self._main(first, 0.2), comma, word(link, english), self._main(second, 0.2)]
        return join(*parts, word(".", "."))

    def infinitive(self) -> Phrase:
        """`Sie versucht, das Buch zu lesen`."""
        build = self.clauses
        verb = self.draw.pick(self.lexicon.infinitive_verbs)
        tenses = Table(["present", "past", "perfect"], [40, 30, 30])
        matrix = build.matrix(verb, Wish(tenses=tenses, timed=0.2, negation=0.06, relative=0.02))
        matrix.tail = self._infinitive(matrix.subject, verb.clauses[0])
        return join(self._main(matrix, 0.15), word(".", "."))

    def _infinitive(self, subject: NounPhrase, form: str) -> Phrase:
        wish = Wish(
            subject=subject,
            tenses=_ONLY_PRESENT,
            timed=0.0,
            negation=0.0,
            relative=0.02,
            frame=self._action(),
        )
        inner = self.clauses.clause(wish)
        while inner.verb.state:
            inner = self.clauses.clause(wish)
        inner.middle = None
        phrase = infinitive_clause(inner, form)
        return Phrase([Word(","), *phrase.german], phrase.english)

    def _action(self) -> str:
        return self.draw.pick(_ACTIONS)

    def in_order_to(self) -> Phrase:
        """`um ... zu`, in order to; `ohne ... zu`, without."""
        build, draw = self.clauses, self.draw
        matrix = build.clause(
            Wish(personal=True, frame=self._action(), relative=0.0, negation=0.0, timed=0.25)
        )
        matrix.middle = None
        without = draw.chance(0.3)
        inner = self._infinitive(matrix.subject, "ing" if without else "to")
        link = word("ohne", "without") if without else word("um", "in", "order")
        comma, *rest = inner.german
        matrix.tail = Phrase([comma, *link.german, *rest], link.english + inner.english)
        return join(self._main(matrix, 0.15), word(".", "."))

    def request(self) -> Phrase:
        """`Öffne bitte das Fenster!`, `Kommen Sie bitte herein!`."""
        build, draw = self.clauses, self.draw
        formal = draw.chance(0.45)
        subject = build.nouns.pronoun("Sie" if formal else "du", de.NOM)
        wish = Wish(subject=subject, tenses=_ONLY_PRESENT, timed=0.0, negation=0.12, relative=0.02)
        clause = build.clause(replace(wish, frame=draw.pick(_REQUESTS)))
        while clause.verb.state or clause.verb.english.base == "be":
            clause = build.clause(replace(wish, frame=draw.pick(_REQUESTS)))
        clause.middle = None
        please = draw.chance(0.6) and clause.negator is None
        forms = clause.verb.forms
        finite = Word(forms.infinitive if formal else forms.imperative)
        right = [Word(clause.verb.prefix)] if clause.verb.prefix else []
        return join(build.imperative(clause, finite, right, formal, please), word("!", "!"))

    def there_is(self) -> Phrase:
        """`Es gibt viele Bücher in der Bibliothek`; `In der Bibliothek gibt es ...`."""
        build, draw = self.clauses, self.draw
        plural = draw.chance(0.65)
        kinds = ("thing", "furniture", "nature", "text", "building", "animal", "vehicle")
        past = draw.chance(0.3)

        def make() -> NounPhrase:
            choice = build.indefinite(plural, (NONE, NUMBER))
            return build.nouns.common(kinds, de.ACC, choice=choice, plural=plural, adjective=0.4)

        listed = draw.chance(0.12)
        there = build.nouns.listing(make, 2 + draw.chance(0.4)) if listed else make()
        place = build.adverbials.place()
        finite, es = Word("gab" if past else "gibt"), Word("es")
        many = there.agreement == 2 and (plural or not listed)
        be: Token = (("were" if many else "was") if past else ("are" if many else "is"), (finite,))
        exist: Token = ("there", (es,))
        if len(place.german) > 1 and draw.chance(0.4):
            german = [*place.german, finite, es, *there.german]
            english = [*place.english, exist, be, *there.english]
        elif draw.chance(0.25):
            phrase = Phrase(
                [finite, es, *there.german, *place.german], [be, exist, *there.english, *place.english]
            )
            return join(phrase, word("?", "?"))
        else:
            german = [es, finite, *there.german, *place.german]
            english = [exist, be, *there.english, *place.english]
        return join(Phrase(german, english), word(".", "."))

    def list_of_things(self) -> Phrase:
        """A long list: `Auf dem Markt kaufen wir Brot, Käse, drei Äpfel und ...`."""
        build, draw = self.clauses, self.draw
        subject = build.subject(("person",), Wish(relative=0.0), False)
        verb, kinds = build.listed_verb()
        every = draw.chance(0.2)
        plural = draw.chance(0.5)
        same = draw.chance(0.4)

        def make() -> NounPhrase:
            choice = build.indefinite(plural, (NONE, NUMBER))
            return build.nouns.common(
                kinds, de.ACC, choice=choice, plural=plural, adjective=0.75 if same else 0.15
            )

        things = build.nouns.listing(make, 3 + draw.below(3) + draw.below(3) * draw.below(2), every)
        plan, time = build.plan(verb, subject, Wish(tenses=ANY, timed=0.5), False)
        clause = Clause(verb, plan, subject, accusative=things, time=time)
        if draw.chance(0.25) and verb.objects[0] != "food":
            clause.place = build.adverbials.place()
        return join(self._main(clause, 0.35), word(".", "."))

    def weather(self) -> Phrase:
        """`Es ist heute kalt`."""
        draw = self.draw
        item, finite = Word("es"), Word("ist" if draw.chance(0.6) else "war")
        be: Token = ("is" if finite.form == "ist" else "was", (finite,))
        adjective, english = draw.pick(_WEATHER)
        kind = "today" if finite.form == "ist" else "past"
        time = self.clauses.adverbials.time(kind)
        place = self.clauses.adverbials.place() if draw.chance(0.5) else Phrase([], [])
        much = Phrase([], [])
        if draw.chance(0.4):
            much = word("sehr", "very")
        what = word(adjective, english)
        if draw.chance(0.5):
            words = [*time.german, finite, item, *place.german, *much.german, *what.german]
            target = [*time.english, ("it", (item,)), be, *much.english, *what.english, *place.english]
        else:
            words = [item, finite, *time.german, *place.german, *much.german, *what.german]
            target = [("it", (item,)), be, *much.english, *what.english, *place.english, *time.english]
        return join(Phrase(words, target), word(".", "."))

    def greeting(self) -> Phrase:
        """`Guten Morgen, Herr Müller!`."""
        greeting = spoken(self.draw.pick(self.lexicon.greetings))
        return join(greeting, word(",", ","), self.clauses.nouns.name(de.NOM), word("!", "!"))

    def exclamation(self) -> Phrase:
        """`Was für ein schöner Tag!`."""
        draw, build = self.draw, self.clauses
        plural = draw.chance(0.3)
        kinds = ("text", "event", "building", "animal", "clothes", "thing", "vehicle", "place")
        choice = NONE if plural else EIN
        noun = build.nouns.common(kinds, de.NOM, choice=choice, plural=plural, adjective=1.0)
        was, fuer = Word("was"), Word("für")
        return join(Phrase([was, fuer, *noun.german], [("what", (was, fuer)), *noun.english]), word("!", "!"))

    def important(self) -> Phrase:
        """`Es ist wichtig, ... zu ...`."""
        draw = self.draw
        adjective, english = draw.pick(_VERDICTS)
        finite, item = Word("ist" if draw.chance(0.7) else "war"), Word("es")
        tail = self._infinitive(self.clauses.nobody(), "to")
        nicht = draw.chance(0.2)
        words = [item, finite]
        target: list[Token] = [("it", (item,)), ("is" if finite.form == "ist" else "was", (finite,))]
        parts = [Phrase(words, target)]
        if nicht:
            parts.append(word("nicht", "not"))
        elif draw.chance(0.3):
            parts.append(word("sehr", "very"))
        return join(*parts, word(adjective, english), tail, word(".", "."))

    def neither(self) -> Phrase:
        """`Er hat weder ein Auto noch ein Fahrrad`, `sowohl ... als auch`."""
        build, draw = self.clauses, self.draw
        subject = build.subject(("person",), Wish(relative=0.0), False)
        verb, kinds = build.listed_verb()

        def make() -> NounPhrase:
            return build.nouns.common(kinds, de.ACC, choice=EIN, plural=False, adjective=0.3)

        first, second = make(), make()
        while first.german[-1].form == second.german[-1].form:
            second = make()
        if draw.chance(0.6):
            whole = series([first, second], "noch", "nor")
            whole = join(word("weder", "neither"), whole)
        else:
            both, als, auch = Word("sowohl"), Word("als"), Word("auch")
            whole = Phrase(
                [both, *first.german, als, auch, *second.german],
                [("both", (both,)), *first.english, ("and", (als, auch)), *second.english],
            )
        things = NounPhrase(whole.german, whole.english, 5, 2, de.PLURAL, definite=False)
        plan, time = build.plan(verb, subject, Wish(tenses=ANY, timed=0.2), False)
        return join(
            self._main(Clause(verb, plan, subject, accusative=things, time=time), 0.2), word(".", ".")
        )

    def more_and_more(self) -> Phrase:
        """`Der Hund lief und lief, bis ...`: a verb said twice or three times."""
        build, draw = self.clauses, self.draw
        verb = draw.pick(self.lexicon.verbs["intransitive"])
        while verb.prefix or verb.english.tail or verb.subjects[0] != "person" or verb.sein:
            verb = draw.pick(self.lexicon.verbs["intransitive"])
        subject = build.subject(("person",), Wish(relative=0.0, pronouns=0.3), False)
        while subject.owner in ("du", "ihr", "Sie"):
            subject = build.subject(("person",), Wish(relative=0.0, pronouns=0.3), False)
        times = 3 if draw.chance(0.3) else 2
        verbs = [Word(verb.forms.preterite[subject.person]) for _ in range(times)]
        parts = [Phrase([item], [(verb.english.past, (item,))]) for item in verbs]
        again = series(parts, every=True)
        inner = build.clause(
            self._following(
                Clause(verb, Plan(Tense.PAST, Tense.PAST), subject),
                Wish(tenses=PAST, timed=0.0, negation=0.0),
            )
        )
        until = self._subordinate("bis", "until", inner)
        return join(subject, again, Phrase([Word(",")], []), until, word(".", "."))


_ACTIONS = Table(
    ["transitive", "motion", "ditransitive", "dative", "prepositional", "intransitive"],
    [45, 20, 10, 10, 8, 7],
)
_REQUESTS = Table(
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
_WEATHER = Table(
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
_VERDICTS = Table(
    [
        ("wichtig", "important"),
        ("schön", "nice"),
        ("schwierig", "difficult"),
        ("gefährlich", "dangerous"),
        ("langweilig", "boring"),
        ("einfach", "easy"),
        ("richtig", "right"),
        ("teuer", "expensive"),
    ],
    [8, 6, 6, 3, 3, 3, 2, 2],
)
