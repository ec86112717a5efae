"""Numbers, names, negations and markup, which a translation must neither lose nor alter.

Such a word needs a counterpart on the other side: a number the same digits, a name the same or a similar
word, a negation a negating word. Good translations lose some of them too (5 becomes `five`, `not until` the
German `erst`), as the training text shows. Bayes' rule gives the probability that a word without a
counterpart is an error, if a share r of all such words is mistranslated, and good translations lose q:

    p = r / (r + (1 - r) q).

r = 0.05 for numbers and names and 0.12 for negations were chosen such that about 1 % of human translations at
most reach a probability of 0.5 (newstest2020, English to German, Human-A and Human-B).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float

from regard.extensions.check.base import CriticalError, Mismatch, SentenceError, Side, WordPair
from regard.extensions.check.surface import MIN_PREFIX, prefix_similarity
from regard.text.words import is_alphabetic

NEGATIONS = frozenset(
    # English, German, French, Spanish, Portuguese, Italian, Dutch, Danish and Swedish, Polish, Russian
    "not no never none nobody nothing nowhere neither nor cannot without "
    "nicht kein keine keinen keinem keiner keines nie niemals niemand niemanden nichts nirgends weder ohne "
    "ne pas non jamais rien aucun aucune personne sans ni "
    "nunca nada nadie ninguna ninguno sin jamás não nenhum nenhuma ninguém sem "
    "mai niente nessuno nessun nessuna senza niet geen nooit niemand niets zonder "
    "ikke aldri inte ingen inget aldrig nigdy nikt nic bez не нет никогда ничего никто без".split()
)
"""Common negating words. The training text shows which of them negate in its languages."""
COUNTED: tuple[CriticalError, ...] = "number", "name", "negation"
"""The errors that `CriticalWords` finds, by counts of good translations."""
_SIDES: tuple[Side, Side] = "source", "target"
NUM_CLASSES = 16
_RATES: Mapping[CriticalError, float] = {"number": 0.05, "name": 0.05, "negation": 0.12}
_SMOOTHING = 10.0  # occurrences that the less specific share counts for
_NEGATING = 0.5  # share of negated sentences on the other side from which a listed word negates
_ALWAYS_NEGATING, _MIN_NEGATING = 0.75, 10  # the same, and the occurrences, of a word that is not listed
_MAX_DIGITS = 4  # longer numbers are of the same class
_SPELLED_DIGITS = 2
_NUMBER_LOSSES = 0.1, 0.04, 0.04, 0.03  # assumed, by the number of digits
_NAMES = _MAX_DIGITS + 2  # the first class of names
_MAX_FREQUENCY = 4
_MIN_SIMILARITY = 0.6  # of two forms of a name
_SEPARATORS = frozenset(".,'’:")
_SENTENCE_MARKS = frozenset('.:?!"„“”«»')
_MARKUP = re.compile(
    r"https?://[!#-;=?-~]*[\w/]|(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w|</?[a-zA-Z][^<>]*>|\$?\{[\w.]*\}"
    r"|%(?:\(\w+\)|\d+\$)?[sdif](?!\w)",
    re.ASCII,
)
_MARKUP_SIGN = re.compile("[:@<{%]")  # in all markup
_MARKUP_PROBABILITY = 0.9


class _Word(NamedTuple):
    """A word that needs a counterpart on the other side.

    Attributes:
        error: The error if it has none.
        position: Its position in the sentence.
        word: The word by itself, if its own share of losses matters; None where only the class does.
        context: The word and the next one (0 for a number), if their share of losses matters as well.
        class_number: Its class: of numbers with 1, 2, 3 and more digits, of a single negation and of several,
            and of names by the logarithm of their frequency and by whether the other language has the word.
        is_lost: Whether it has no counterpart.
    """

    error: CriticalError
    position: int
    word: str | None
    class_number: int
    is_lost: bool
    context: str = ""


@dataclass(frozen=True)
class CriticalWords:
    """How often good translations lose numbers, names and negations.

    Attributes:
        negations: The words of both sides that negate.
        frequencies: The number of sentences with each word of both sides.
        losses: For each name and small number of both sides and each single negation of the source, how often
            it occurred and was lost.
        contexts: The same for a single negation of the source and the next word: good translations lose it in
            `no doubt`, but not in `no one`.
        classes: How often the words of each class of both sides occurred and were lost.
    """

    negations: tuple[frozenset[str], frozenset[str]]
    frequencies: tuple[Mapping[str, float], Mapping[str, float]]
    losses: tuple[Mapping[str, Sequence[float]], Mapping[str, Sequence[float]]]
    contexts: Mapping[str, Sequence[float]]
    classes: Float[np.ndarray, "2 16 2"]

    @classmethod
    def untrained(cls) -> Self:
        """Return assumed losses of numbers, for a text without good translations to learn from."""
        # A class without examples counts as two occurrences.
        classes = np.broadcast_to([2.0, 1.0], (2, NUM_CLASSES, 2)).copy()
        classes[:, :_MAX_DIGITS, 1] = 2 * np.array(_NUMBER_LOSSES)
        return cls((frozenset(), frozenset()), ({}, {}), ({}, {}), {}, classes)

    @classmethod
    def estimate(cls, pairs: Sequence[WordPair]) -> Self:
        """Count the losses in good translations."""
        source, target = (Counter(word for pair in pairs for word in set(pair.folded[k])) for k in (0, 1))
        negations = _find_negations(pairs, (source, target))
        losses: tuple[dict[str, list[float]], dict[str, list[float]]] = {}, {}
        contexts: dict[str, list[float]] = {}
        classes = cls.untrained().classes
        model = cls(negations, (source, target), losses, contexts, classes)
        for pair in pairs:
            folded = pair.folded
            for side in (0, 1):
                for word in model._words(pair, folded, side, is_counted=True):
                    counts = [classes[side, word.class_number]]
                    if word.word is not None:
                        counts.append(losses[side].setdefault(word.word, [0.0, 0.0]))
                    if word.context:
                        counts.append(contexts.setdefault(word.context, [0.0, 0.0]))
                    for each in counts:
                        each[0] += 1
                        each[1] += word.is_lost
        return model

    def mismatches(self, pair: WordPair) -> tuple[Mismatch, ...]:
        """Return the words of a pair without a counterpart, with the probability of an error."""
        folded = pair.folded
        return tuple(
            Mismatch(word.error, name, word.position, word.position + 1, self._probability(side, word))
            for side, name in enumerate(_SIDES)
            for word in self._words(pair, folded, side)
            if word.is_lost
        )

    def _probability(self, side: int, word: _Word) -> float:
        share = self._shares[side][word.class_number]
        for counts in (self.losses[side].get(word.word or ""), self.contexts.get(word.context)):
            occurrences, losses = counts or (0.0, 0.0)
            share = (losses + _SMOOTHING * share) / (occurrences + _SMOOTHING)
        rate = _RATES[word.error]
        return rate / (rate + (1 - rate) * share)

    @cached_property
    def _shares(self) -> list[list[float]]:
        """The share of the words of each class of both sides that are lost."""
        return (self.classes[..., 1] / self.classes[..., 0]).tolist()

    def _words(
        self, pair: WordPair, both: Sequence[Sequence[str]], side: int, is_counted: bool = False
    ) -> Iterator[_Word]:
        """Yield the words of a side that need a counterpart.

        Args:
            pair: The pair.
            both: Its words without differences of case.
            side: 0 for the source, 1 for the target.
            is_counted: Whether the frequencies include the pair itself, which is then left out.
        """
        words, others = (pair.target, pair.source) if side else (pair.source, pair.target)
        folded, other_folded = both[side], both[1 - side]
        if numbers := _numbers(words):
            forms = {form for k, number in _numbers(others).items() for form in _forms(others[k], number)}
            for k, number in numbers.items():
                is_lost = forms.isdisjoint(_forms(words[k], number))
                # Small numbers are often spelled out, some more often than others.
                word = folded[k] if len(number) <= _SPELLED_DIGITS else None
                yield _Word("number", k, word, min(len(number), _MAX_DIGITS) - 1, is_lost)
        # Good translations often add a negation, where the source has a word such as `fail` or `lack`.
        negations = [k for k, word in enumerate(folded) if word in self.negations[0] and word in NEGATIONS]
        if negations and not side:
            num_other = sum(word in self.negations[1] for word in other_folded)
            if len(negations) == 1:
                first = negations[0]
                following = "".join(folded[first + 1 : first + 2])
                context = f"{folded[first]} {'0' if _digits(following) else following}"
                yield _Word("negation", first, folded[first], _MAX_DIGITS, num_other == 0, context)
            else:
                is_lost = num_other < len(negations)
                yield from (_Word("negation", k, None, _MAX_DIGITS + 1, is_lost) for k in negations)
        beginnings = {word[:MIN_PREFIX] for word in other_folded}
        for k, word in enumerate(words):
            if not (k and word[0].isupper() and words[k - 1] not in _SENTENCE_MARKS and is_alphabetic(word)):
                continue
            # Good translations keep a capitalized word if it is a name.
            name = folded[k]
            is_copied = name in other_folded
            frequency = int(self.frequencies[side].get(name, 0)) - is_counted
            is_in_other = self.frequencies[1 - side].get(name, 0) > (is_counted and is_copied)
            class_number = _NAMES + 2 * min(frequency.bit_length(), _MAX_FREQUENCY) + is_in_other
            is_lost = not is_copied and (
                name[:MIN_PREFIX] not in beginnings or prefix_similarity(name, other_folded) < _MIN_SIMILARITY
            )
            yield _Word("name", k, name, class_number, is_lost)


def _find_negations(
    pairs: Sequence[WordPair], frequencies: tuple[Counter[str], Counter[str]]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of both sides that negate: they occur mostly where the other side negates."""
    negations = [NEGATIONS, NEGATIONS]
    for _ in range(2):
        negated = [
            Counter(
                word
                for pair in pairs
                if not negations[1 - side].isdisjoint(pair.folded[1 - side])
                for word in set(pair.folded[side])
            )
            for side in (0, 1)
        ]
        negations = [
            frozenset(
                word
                for word, count in negated[side].items()
                if (word in NEGATIONS and count >= _NEGATING * frequencies[side][word])
                or (count >= _MIN_NEGATING and count >= _ALWAYS_NEGATING * frequencies[side][word])
            )
            for side in (0, 1)
        ]
    return negations[0], negations[1]


def _numbers(words: Sequence[str]) -> dict[int, str]:
    """Return the positions of words with digits, and the digits of the number that each is a part of.

    A number may consist of several words: thousands, such as those of `1,000` and `1 000`.
    """
    numbers: dict[int, str] = {}
    part: list[int] = []
    for k, word in enumerate(words):
        if word.isalpha() or not (digits := _digits(word)):
            continue
        distance = k - part[-1] if part else 0
        is_next = distance == 1 or (distance == 2 and words[k - 1] in _SEPARATORS)
        part = [*part, k] if is_next and len(digits) == 3 == len(word) else [k]
        number = "".join(_digits(words[position]) for position in part)
        numbers |= dict.fromkeys(part, number)
    return numbers


def _digits(word: str) -> str:
    return "".join(str(unicodedata.digit(letter)) for letter in word if letter.isdigit())


def _forms(word: str, number: str) -> set[str]:
    """Return the digits by which a word with digits is recognized: those of its number, and of a decade."""
    decade = number[-2:] if len(number) == 4 and not word.isdigit() else number
    return {number.lstrip("0"), decade.lstrip("0")}


def largest_probabilities(
    mismatches: Sequence[Mismatch], errors: Sequence[CriticalError]
) -> dict[SentenceError, float]:
    """Return the largest probability of each error, 0 without a mismatch."""
    largest: dict[SentenceError, float] = dict.fromkeys(errors, 0.0)
    for each in mismatches:
        if each.probability > largest.get(each.error, 1.0):
            largest[each.error] = each.probability
    return largest


def markup_mismatches(source: str, translation: str) -> Iterator[Mismatch]:
    """Yield the addresses, placeholders and tags of a text that the other one does not have as often."""
    texts = source, translation
    if not any(map(_MARKUP_SIGN.search, texts)):
        return
    counts = [Counter(_MARKUP.findall(text)) for text in texts]
    if counts[0] == counts[1]:
        return
    for side, text in enumerate(texts):
        extra = counts[side] - counts[1 - side]
        for match in _MARKUP.finditer(text):
            if extra[match[0]]:
                yield Mismatch("markup", _SIDES[side], *match.span(), _MARKUP_PROBABILITY)
