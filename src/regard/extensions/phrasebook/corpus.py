"""The built-in corpus as an infinite stream of distinct pairs, as disjoint splits, and as files.

The split of a pair is determined by its German side (the CRC-32 of the words joined by spaces, modulo 100).
Training, validation and test sets are therefore disjoint for all sizes and seeds.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from regard.config import configclass, option
from regard.errors import DataError
from regard.extensions.phrasebook.clause_builder import ClauseBuilder
from regard.extensions.phrasebook.clauses import ClauseConstraints
from regard.extensions.phrasebook.lexicon import (
    Distribution,
    Phrase,
    RandomChoices,
    Token,
    Word,
    lexicon,
    sentence,
)
from regard.extensions.phrasebook.patterns import Patterns
from regard.extensions.phrasebook.sentences import Subordination
from regard.text.files import open_atomic
from regard.text.links import Links, format_links

SplitName = Literal["train", "valid", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "valid", "test")
# Percentage of pairs for training and for validation; the other pairs are for testing.
_TRAIN, _VALID = 80, 10
MAX_WORDS, MIN_WORDS = 40, 3
_SERIES_EXPONENT = 10.0  # of the Zipf-like distributions, instead of 1


@configclass
class PhrasebookConfig:
    """Settings of the files of the built-in corpus."""

    num_train: int = option(default=30_000, help="Number of training pairs.", ge=0, le=100_000_000)
    num_valid: int = option(default=1_000, help="Number of validation pairs.", ge=0, le=100_000_000)
    num_test: int = option(default=1_000, help="Number of test pairs.", ge=0, le=100_000_000)
    seed: int = option(
        default=1,
        help="Random seed. The same seed gives the same pairs on every machine.",
        ge=0,
        le=4_294_967_295,
    )


@dataclass(frozen=True, slots=True)
class CorpusPair:
    """A sentence pair with its gold alignment.

    Attributes:
        source: The German words and punctuation marks.
        target: The English words and punctuation marks.
        links: Pairs (i, j) of a source position and a target position, from 0; all are sure links.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: Links

    @property
    def fertilities(self) -> tuple[int, ...]:
        """The number of target words that are linked to each source word."""
        counts = Counter(i for i, _ in self.links)
        return tuple(counts[i] for i in range(len(self.source)))


def _one_comma(german: list[Word], english: list[Token]) -> list[Word]:
    """Merge adjacent commas at German clause boundaries, and remove commas before a final mark."""
    merged: list[Word] = []
    for item in german:
        if merged and merged[-1].form == "," and item.form in ",.?!":
            dropped = merged.pop()
            # English commas that are linked to the removed comma now link to the kept mark.
            for j, (form, words) in enumerate(english):
                if dropped in words:
                    english[j] = (form, (item,))
        merged.append(item)
    return merged


def realize(phrase: Phrase) -> CorpusPair:
    """Convert a phrase to a sentence pair: fix commas, capitalize, and compute the positions of links."""
    english = phrase.english
    german = _one_comma(phrase.german, english)
    # Links refer to word objects until now, since the order was not known before.
    position = {item: i for i, item in enumerate(german)}
    source = [item.form for item in german]
    target = [form for form, _ in english]
    for words in (source, target):
        words[0] = words[0][:1].upper() + words[0][1:]
    links = frozenset([(position[item], j) for j, (_, words) in enumerate(english) for item in words])
    return CorpusPair(tuple(source), tuple(target), links)


def random_sentences(seed: int, series: bool = False) -> Iterator[CorpusPair]:
    """Yield an infinite stream of sentence pairs, some of them equal.

    Args:
        seed: A non-negative seed. The same seed gives the same sentences on every machine.
        series: Whether all sentences are series of one to five main clauses, whose words are mostly
            frequent ones. A small model learns their words fast, and loses count of their clauses.
    """
    draw = RandomChoices(seed)
    clauses = ClauseBuilder(draw, lexicon(_SERIES_EXPONENT if series else 1.0))
    several, patterns = Subordination(clauses), Patterns(clauses)
    # Relative frequencies of the constructions.
    constructions: Distribution[Callable[[], Phrase]] = Distribution(
        {
            lambda: sentence(several.main(clauses.clause(ClauseConstraints()))): 350,
            several.yes_or_no: 75,
            several.question: 80,
            several.that: 85,
            several.because: 85,
            several.when_first: 52,
            several.two: 66,
            several.infinitive: 40,
            several.in_order_to: 25,
            patterns.request: 32,
            patterns.there_is: 25,
            patterns.list_of_things: 26,
            patterns.weather: 8,
            patterns.greeting: 6,
            patterns.exclamation: 7,
            several.important: 12,
            patterns.neither: 7,
            patterns.more_and_more: 6,
        }
    )
    if series:
        constructions = Distribution({several.series: 1})
    while True:
        yield realize(draw.sample(constructions)())


def generate(seed: int, series: bool = False) -> Iterator[CorpusPair]:
    """Yield an infinite stream of sentence pairs with distinct sources and 3 to 40 words on each side.

    Args:
        seed: A non-negative seed. It gives the same pairs on every machine and with every Python version.
        series: See `random_sentences`.
    """
    # Hashes of 12 bytes need less memory than the sentences.
    seen: set[bytes] = set()
    for pair in random_sentences(seed, series):
        if not (MIN_WORDS <= len(pair.source) <= MAX_WORDS and MIN_WORDS <= len(pair.target) <= MAX_WORDS):
            continue
        key = blake2b(" ".join(pair.source).encode(), digest_size=12).digest()
        if key not in seen:
            seen.add(key)
            yield pair


def generate_splits(
    sizes: Mapping[SplitName, int], seed: int, series: bool = False
) -> dict[SplitName, list[CorpusPair]]:
    """Return the first pairs of several splits; the German side of a pair determines its split.

    Args:
        sizes: Number of pairs of each split.
        seed: A non-negative seed.
        series: See `random_sentences`.
    """
    splits: dict[SplitName, list[CorpusPair]] = {name: [] for name in sizes}
    # Pairs of a split that is full are generated, too: the stream is the same for all sizes.
    missing = sum(sizes.values())
    pairs = generate(seed, series)
    while missing:
        pair = next(pairs)
        bucket = zlib.crc32(" ".join(pair.source).encode()) % 100
        name: SplitName = "train" if bucket < _TRAIN else "valid" if bucket < _TRAIN + _VALID else "test"
        if len(splits.get(name, ())) < sizes.get(name, 0):
            splits[name].append(pair)
            missing -= 1
    return splits


def write_corpus(output_dir: Path | str, options: PhrasebookConfig | None = None) -> list[Path]:
    """Write the splits of the built-in corpus to files; see `write_splits`.

    Args:
        output_dir: Output directory. It is created if it does not exist.
        options: The sizes of the splits, and the seed.
    """
    options = options or PhrasebookConfig()
    sizes: dict[SplitName, int] = {name: getattr(options, f"num_{name}") for name in SPLITS}
    return write_splits(output_dir, sizes, options.seed)


def write_splits(
    folder: Path | str, sizes: Mapping[SplitName, int], seed: int, series: bool = False
) -> list[Path]:
    """Write splits as files `.de`, `.en`, `.talp` (gold links) and `.fertility` (one number per German word).

    The text is tokenized: punctuation and the English `'s` are separate words, and words are separated by
    single spaces. Each file is written atomically.

    Args:
        folder: The output directory, which is created if it does not exist.
        sizes: Number of pairs of each split. An empty split gives empty files.
        seed: A non-negative seed.
        series: See `random_sentences`.

    Returns:
        The paths of the written files, four per split.

    Raises:
        DataError: if a file cannot be written.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot create the directory: {error.strerror or error}") from None
    written: list[Path] = []
    for name, pairs in generate_splits(sizes, seed, series).items():
        texts = {
            "de": (" ".join(pair.source) for pair in pairs),
            "en": (" ".join(pair.target) for pair in pairs),
            "talp": (format_links(pair.links) for pair in pairs),
            "fertility": (" ".join(map(str, pair.fertilities)) for pair in pairs),
        }
        for suffix, lines in texts.items():
            path = folder / f"{name}.{suffix}"
            with open_atomic(path) as file:
                file.writelines(f"{line}\n".encode() for line in lines)
            written.append(path)
    return written
