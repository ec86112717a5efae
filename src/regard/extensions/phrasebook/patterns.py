"""Sentences with special patterns: requests, lists, repetitions, greetings, `es gibt`."""

from dataclasses import replace
from functools import partial

from regard.extensions.phrasebook.clauses import Clause, ClauseConstraints, bare_clause
from regard.extensions.phrasebook.lexicon import (
    Phrase,
    Token,
    Verb,
    Word,
    arrange,
    concatenate,
    sentence,
    word_phrase,
)
from regard.extensions.phrasebook.morphology import ACC, NOM, PLURAL
from regard.extensions.phrasebook.noun_phrases import NounPhrase, coordinate
from regard.extensions.phrasebook.sentences import MainClauses, subordinate
from regard.extensions.phrasebook.verb_group import Plan, Tense

_RESTING = ("sitzen", "stehen", "liegen")


class Patterns(MainClauses):
    """Generates sentences with special patterns."""

    def request(self) -> Phrase:
        """Return a request: `Öffne bitte das Fenster!`, `Kommen Sie bitte herein!`."""
        build, draw = self.clauses, self.draw
        formal = draw.bernoulli(0.45)
        subject = build.phrases.pronoun("Sie" if formal else "du", NOM)
        constraints = ClauseConstraints(
            subject=subject, tenses="only present", timed=0.0, negation=0.12, relative=0.02
        )
        clause = build.clause(replace(constraints, frame=draw.sample_named("requests")))
        # Not: own a house, or lie on the table.
        while clause.verb.stative or clause.verb.forms.infinitive in _RESTING:
            clause = build.clause(replace(constraints, frame=draw.sample_named("requests")))
        clause.middle = None
        please = draw.bernoulli(0.6) and clause.negator is None
        forms = clause.verb.forms
        finite = Word(forms.infinitive if formal else forms.imperative)
        right = [Word(clause.verb.prefix)] if clause.verb.prefix else []
        return sentence(_imperative(clause, finite, right, formal, please), mark="!")

    def there_is(self) -> Phrase:
        """Return a sentence such as `Es gibt viele Bücher in der Bibliothek`."""
        build, draw = self.clauses, self.draw
        plural = draw.bernoulli(0.65)
        kinds = ("thing", "furniture", "nature", "text", "building", "animal", "vehicle")
        past = draw.bernoulli(0.3)

        make = partial(build.participants.indefinite, kinds, plural, 0.4)
        listed = draw.bernoulli(0.12)
        there = build.phrases.listing(make, 2 + draw.bernoulli(0.4)) if listed else make()
        place = build.phrases.place()
        many = there.agreement == 2 and (plural or not listed)
        english = ("were" if many else "was") if past else ("are" if many else "is")
        es, be = word_phrase("es", "there"), word_phrase("gab" if past else "gibt", english)
        if len(place.german) > 1 and draw.bernoulli(0.4):
            return sentence(arrange([place, be, es, there], [place, es, be, there]))
        if draw.bernoulli(0.25):
            return sentence(be, es, there, place, mark="?")
        return sentence(es, be, there, place)

    def list_of_things(self) -> Phrase:
        """Return a sentence with a long list: `Auf dem Markt kaufen wir Brot, Käse, drei Äpfel und ...`."""
        build, draw = self.clauses, self.draw
        subject = build.participants.subject(("person",), ClauseConstraints(relative=0.0))
        verb, kinds = self._listed()
        repeat_und = draw.bernoulli(0.2)
        plural = draw.bernoulli(0.5)
        same = draw.bernoulli(0.4)

        make = partial(build.participants.indefinite, kinds, plural, 0.75 if same else 0.15)
        things = build.phrases.listing(
            make, 3 + draw.sample_below(3) + draw.sample_below(3) * draw.sample_below(2), repeat_und
        )
        clause = build.plan(verb, subject, ClauseConstraints(timed=0.5))
        clause.accusative = things
        if draw.bernoulli(0.25) and verb.objects[0] != "food":
            clause.place = build.phrases.place()
        return sentence(self.main(clause, 0.35))

    def _listed(self) -> tuple[Verb, tuple[str, ...]]:
        """Sample a verb whose object may be a list, and the semantic classes of the nouns."""
        infinitive, _, kinds = self.draw.sample_named("listed").partition(": ")
        verbs = self.clauses.lexicon.verbs["transitive"].items
        verb = next(verb for verb in verbs if verb.forms.infinitive == infinitive and not verb.prefix)
        return verb, tuple(kinds.split())

    def neither(self) -> Phrase:
        """Return a sentence such as `Er hat weder ein Auto noch ein Fahrrad`, or `sowohl ... als auch`."""
        build, draw = self.clauses, self.draw
        subject = build.participants.subject(("person",), ClauseConstraints(relative=0.0))
        verb, kinds = self._listed()

        make = partial(build.phrases.common, kinds, ACC, choice="ein", plural=False, adjective=0.3)
        first, second = make(), make()
        # Not: neither a car nor a car.
        while first.german[-1].form == second.german[-1].form:
            second = make()
        if draw.bernoulli(0.6):
            whole = concatenate(word_phrase("weder", "neither"), coordinate([first, second], "noch", "nor"))
        else:
            als, auch = Word("als"), Word("auch")
            also = Phrase([als, auch], [("and", (als, auch))])
            whole = concatenate(word_phrase("sowohl", "both"), first, also, second)
        clause = build.plan(verb, subject, ClauseConstraints(timed=0.2))
        clause.accusative = NounPhrase(whole.german, whole.english, 5, 2, PLURAL, definite=False)
        return sentence(self.main(clause, 0.2))

    def more_and_more(self) -> Phrase:
        """Return a sentence with a repeated verb: `Der Hund lief und lief, bis ...`."""
        build, draw = self.clauses, self.draw
        verb = draw.sample_where(
            build.lexicon.verbs["intransitive"],
            lambda verb: not (verb.prefix or verb.english.tail or verb.sein) and verb.subjects[0] == "person",
        )
        constraints = ClauseConstraints(relative=0.0, pronouns=0.3)
        subject = build.participants.subject(("person",), constraints)
        # The preterite with a form of address is unusual.
        while subject.owner in ("du", "ihr", "Sie"):
            subject = build.participants.subject(("person",), constraints)
        times = 3 if draw.bernoulli(0.3) else 2
        preterite = verb.forms.preterite[subject.person]
        again = coordinate([word_phrase(preterite, verb.english.past) for _ in range(times)], every=True)
        inner = build.clause(
            self.following(
                Clause(verb, Plan(Tense.PAST, Tense.PAST), subject),
                ClauseConstraints(tenses="past", timed=0.0, negation=0.0),
            )
        )
        return sentence(subject, again, word_phrase(","), subordinate("bis", "until", inner))

    def weather(self) -> Phrase:
        """Return a sentence such as `Es ist heute kalt`."""
        draw, phrases = self.draw, self.clauses.phrases
        present = draw.bernoulli(0.6)
        it, be = word_phrase("es", "it"), word_phrase("ist", "is") if present else word_phrase("war", "was")
        weather = phrases.fixed("weather")
        time = phrases.time("today" if present else "past")
        place = phrases.place() if draw.bernoulli(0.5) else Phrase([], [])
        if draw.bernoulli(0.4):
            weather = concatenate(word_phrase("sehr", "very"), weather)
        if draw.bernoulli(0.5):
            return sentence(arrange([time, be, it, place, weather], [time, it, be, weather, place]))
        return sentence(arrange([it, be, time, place, weather], [it, be, weather, place, time]))

    def greeting(self) -> Phrase:
        """Return a greeting: `Guten Morgen, Herr Müller!`."""
        greeting = self.clauses.phrases.fixed("greeting")
        return sentence(greeting, word_phrase(",", ","), self.clauses.phrases.name(NOM), mark="!")

    def exclamation(self) -> Phrase:
        """Return an exclamation: `Was für ein schöner Tag!`."""
        draw, build = self.draw, self.clauses
        plural = draw.bernoulli(0.3)
        kinds = ("text", "event", "building", "animal", "clothes", "thing", "vehicle", "place")
        choice = "none" if plural else "ein"
        noun = build.phrases.common(kinds, NOM, choice=choice, plural=plural, adjective=1.0)
        was, fuer = Word("was"), Word("für")
        return sentence(Phrase([was, fuer], [("what", (was, fuer))]), noun, mark="!")


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
