"""Lost and altered numbers, names and negations: the share that the checker finds, and its false warnings.

    python benchmarks/critical.py DATA

DATA contains `coverage`, `europarl20k`, `multi30k` and `hansards`. The shares of good translations that lose
a word are counted in Europarl and 10,000 captions for newstest2020, in the first 30,000 pairs for Hansards,
and in the training text for Multi30k. In a hundred good translations (Human-B of newstest2020, the first half
of the test text of Hansards, the validation and test text of Multi30k), a number is deleted or gets another
digit, a name is deleted or replaced by one of another sentence, or a negation is deleted (German `kein`
becomes `ein`); seed 5. An error is found at an alarm rate of 1 % if its probability exceeds that of all but
1 % of other good translations: Human-A, the second half, and the unchanged text of Multi30k.
"""

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from coverage_quality import mixed_text, read_lines, read_pairs

from regard.extensions.check.base import CriticalError, WordPair, split_pairs
from regard.extensions.check.critical import COUNTED, NEGATIONS, CriticalWords
from regard.text.words import is_alphabetic

SEED, COUNT, ALARMS = 5, 100, 0.01
POSITIVE = {"kein": "ein", "keine": "eine", "keinen": "einen", "keinem": "einem", "keiner": "einer",
            "nie": "immer", "niemals": "immer", "niemand": "jemand", "nichts": "etwas"}  # fmt: skip
Change = Callable[[WordPair, random.Random], Iterator[tuple[str, ...]]]


def probabilities(critical: CriticalWords, pairs: Sequence[WordPair], error: CriticalError) -> np.ndarray:
    """Return the largest probability of an error in each pair."""
    rows = ([one.probability for one in critical.mismatches(pair) if one.error == error] for pair in pairs)
    return np.array([max(row, default=0.0) for row in rows])


def without(words: tuple[str, ...], position: int, *others: str) -> tuple[str, ...]:
    """Return the words with others instead of one."""
    return (*words[:position], *others, *words[position + 1 :])


def number_deleted(pair: WordPair, generator: random.Random) -> Iterator[tuple[str, ...]]:
    """Yield translations without one of the numbers that are in both sides."""
    shared = set(pair.source) & {word for word in pair.target if word.isdigit()}
    for position in [k for k, word in enumerate(pair.target) if word in shared]:
        yield without(pair.target, position)


def number_altered(pair: WordPair, generator: random.Random) -> Iterator[tuple[str, ...]]:
    """Yield translations with another digit in a number."""
    shared = set(pair.source) & {word for word in pair.target if word.isdigit()}
    for position in [k for k, word in enumerate(pair.target) if word in shared]:
        number = pair.target[position]
        place = generator.randrange(len(number))
        digit = generator.choice([digit for digit in "123456789" if digit != number[place]])
        yield without(pair.target, position, number[:place] + digit + number[place + 1 :])


def names(pair: WordPair) -> list[int]:
    """Return the positions of capitalized words, but the first, that both sides have."""
    return [
        k
        for k, word in enumerate(pair.target)
        if k and word[0].isupper() and is_alphabetic(word) and word in pair.source[1:]
    ]


def negation_deleted(pair: WordPair, generator: random.Random) -> Iterator[tuple[str, ...]]:
    """Yield translations without a negation that the source has as well."""
    if not NEGATIONS.isdisjoint(pair.folded[0]):
        for k, word in enumerate(pair.folded[1]):
            if word in POSITIVE:
                yield without(pair.target, k, POSITIVE[word])
            elif word in ("nicht", "not"):
                yield without(pair.target, k)
            elif word == "pas" and "ne" in pair.folded[1][:k]:
                positive = without(pair.target, k)
                yield without(positive, pair.folded[1].index("ne"))


def changed(pairs: Sequence[WordPair], change: Change) -> list[WordPair]:
    """Return up to a hundred pairs with one change each."""
    generator = random.Random(SEED)
    examples = []
    for pair in generator.sample(pairs, len(pairs)):
        choices = list(change(pair, generator))
        if choices and len(examples) < COUNT:
            examples.append(WordPair(pair.source, generator.choice(choices)))
    return examples


def report(
    name: str, training: Sequence[WordPair], pairs: Sequence[WordPair], good: Sequence[WordPair]
) -> None:
    """Print the share of errors that are found, and of warnings about good translations."""
    critical = CriticalWords.estimate(training)
    all_names = sorted({pair.target[k] for pair in pairs for k in names(pair)})

    def name_deleted(pair: WordPair, generator: random.Random) -> Iterator[tuple[str, ...]]:
        return (without(pair.target, k) for k in names(pair))

    def name_altered(pair: WordPair, generator: random.Random) -> Iterator[tuple[str, ...]]:
        return (without(pair.target, k, generator.choice(all_names)) for k in names(pair))

    changes: dict[CriticalError, list[Change]] = {
        "number": [number_deleted, number_altered],
        "name": [name_deleted, name_altered],
        "negation": [negation_deleted],
    }
    for error in COUNTED:
        usual = probabilities(critical, good, error)
        limit = np.sort(usual)[::-1][int(ALARMS * len(usual))]
        print(f"{name}: {error} in {(usual >= 0.5).mean():.1%} of the good translations")
        for change in changes[error]:
            values = probabilities(critical, changed(pairs, change), error)
            at_rate, shown = (values > limit).sum(), (values >= 0.5).sum()
            print(
                f"  {change.__name__}: of {len(values)}, {at_rate} at an alarm rate of 1 %, {shown} from 0.5"
            )


def main() -> None:
    """Print the figures of three texts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    source = read_lines(data / "coverage" / "newstest2020-ende-src.en.txt.gz")
    human = [
        split_pairs(source, read_lines(data / "coverage" / f"newstest2020.en-de.Human-{version}.0.txt.gz"))
        for version in "ABP"
    ]
    training = mixed_text(data, ("en", "de"))
    report("newstest2020", training, human[1], human[0])
    critical = CriticalWords.estimate(training)
    for version, pairs in zip("ABP", human, strict=True):
        shares = [f"{error} {(probabilities(critical, pairs, error) >= 0.5).mean():.1%}" for error in COUNTED]
        print(f"Human-{version}: warnings about {', '.join(shares)}")
    test = read_pairs(data, "hansards", "test-3k", ("en", "fr"))
    report(
        "Hansards",
        read_pairs(data, "hansards", "train-150k", ("en", "fr"))[:30_000],
        test[:1500],
        test[1500:],
    )
    captions = [pair for part in ("val", "test_2016_flickr") for pair in read_pairs(data, "multi30k", part)]
    report("Multi30k", read_pairs(data, "multi30k", "train"), captions, captions)


if __name__ == "__main__":
    main()
