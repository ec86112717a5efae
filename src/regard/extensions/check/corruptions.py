"""Synthetic coverage errors: good translations in which a span is omitted, added or repeated.

The labels are exact: which source words lost their translation, and which target words were added or
repeated. A detector learns from such pairs and is evaluated on them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from regard.config import configclass, option
from regard.errors import DataError
from regard.extensions.check.base import CoverageError, WordPair
from regard.text.links import Links
from regard.text.words import fold_word, is_reduplication, is_word

Corruption = Literal["deletion", "truncation", "insertion", "replacement", "repetition", "unrelated"]
CORRUPTIONS: tuple[Corruption, ...] = get_args(Corruption)
"""The kinds of synthetic errors.

`deletion` removes the counterpart of a span of the source, `truncation` the end of the translation,
`insertion` adds a span of another translation, `replacement` does both at one place, `repetition` repeats a
span once to three times, and `unrelated` replaces the whole translation by that of another sentence.
"""

_ATTEMPTS = 8  # random spans that are tried before a pair is left as it is
_MAX_REPEATS = 3
_MAX_UNLINKED = 2  # unlinked words that are removed with the counterpart of a span
_UNKNOWN_LETTERS = "\U00010900", "\U00010901"
"""Phoenician letters of the unknown words of the source and of the target, which are rare in any text."""


@configclass
class CorruptionConfig:
    """Settings of synthetic errors."""

    kinds: tuple[Corruption, ...] = option(
        default=CORRUPTIONS,
        help="Kinds of errors, chosen with equal probability: deletion (the counterpart of a span of the "
        "source), truncation (the end of the translation), insertion (a span of another translation), "
        "replacement (a deletion and an insertion at one place), repetition, unrelated (the translation of "
        "another sentence).",
        min_length=1,
    )
    rate: float = option(
        default=0.5,
        help="Share of the sentences that get one error. A sentence in which none fits stays unchanged.",
        ge=0,
        le=1,
    )
    max_span: int = option(default=5, help="Maximum number of words in a span.", ge=1, le=1_000)
    seed: int = option(
        default=1, help="Random seed. The same text and seed give the same errors.", ge=0, le=4_294_967_295
    )


@dataclass(frozen=True)
class CorruptedPair:
    """A sentence pair with its exact coverage errors; positions count words from 0.

    Attributes:
        pair: The words.
        kind: The error, or None if the pair is unchanged.
        omitted: Source words whose translation was removed.
        added: Target words that translate nothing in the source.
        repeated: Target words that repeat the words before them.
    """

    pair: WordPair
    kind: Corruption | None = None
    omitted: frozenset[int] = field(default_factory=frozenset)
    added: frozenset[int] = field(default_factory=frozenset)
    repeated: frozenset[int] = field(default_factory=frozenset)


def corrupt_pairs(
    pairs: Sequence[WordPair], links: Sequence[Links], config: CorruptionConfig | None = None
) -> list[CorruptedPair]:
    """Return the pairs, some of them with one synthetic error.

    Args:
        pairs: Good translations.
        links: Word links of each pair (source word, target word), gold or those of an aligner.
        config: The kinds of errors, their rate, the spans and the random seed.

    Raises:
        DataError: if the numbers of pairs and links differ.
    """
    config = CorruptionConfig() if config is None else config
    if len(pairs) != len(links):
        raise DataError(f"{len(pairs)} pairs but the links of {len(links)}: expected one set of links each")
    generator = np.random.default_rng(config.seed)
    result = []
    for number, (pair, pair_links) in enumerate(zip(pairs, links, strict=True)):
        # The random numbers of a pair do not depend on the pairs before it.
        hit, which = generator.random() < config.rate, int(generator.integers(len(config.kinds)))
        child = np.random.default_rng(generator.integers(2**63))
        corrupted = None
        if hit and pair.source and pair.target:
            corrupted = _corrupt(config.kinds[which], pair, pair_links, pairs, number, config.max_span, child)
        result.append(CorruptedPair(pair) if corrupted is None else corrupted)
    return result


def _corrupt(
    kind: Corruption,
    pair: WordPair,
    links: Links,
    pairs: Sequence[WordPair],
    number: int,
    max_span: int,
    generator: np.random.Generator,
) -> CorruptedPair | None:
    """Return the pair with an error of one kind, or None if it does not fit."""
    if kind == "deletion":
        return _delete(pair, links, max_span, generator)
    if kind == "truncation":
        return _truncate(pair, links, generator)
    if kind == "repetition":
        return _repeat(pair, max_span, generator)
    # An offset from 1 to count - 1 never leads back to the pair itself, unless there is no other.
    offset = 1 + int(generator.integers(max(len(pairs) - 1, 1)))
    other = pairs[(number + offset) % len(pairs)].target
    if kind == "replacement":
        return _replace(pair, links, other, max_span, generator)
    if kind == "insertion":
        return _insert(pair, other, max_span, generator)
    if not other or other == pair.target:
        return None
    everything = frozenset(range(len(pair.source)))
    return CorruptedPair(WordPair(pair.source, other), "unrelated", everything, frozenset(range(len(other))))


def _delete(
    pair: WordPair, links: Links, max_span: int, generator: np.random.Generator
) -> CorruptedPair | None:
    """Remove the counterparts of a span of the source: the target words that are linked to it alone."""
    sources: dict[int, set[int]] = {}
    for i, j in links:
        sources.setdefault(j, set()).add(i)
    for _ in range(_ATTEMPTS):
        start = int(generator.integers(len(pair.source)))
        span = set(range(start, start + int(generator.integers(1, max_span + 1))))
        gone = {j for j, linked in sources.items() if linked <= span}
        if not any(is_word(pair.target[j]) for j in gone):
            continue
        first, last = min(gone), max(gone)
        # Unlinked words within the counterpart, such as articles, belong to it.
        if last - first < len(gone) + _MAX_UNLINKED:
            gone |= {j for j in range(first, last) if j not in sources}
        # An empty translation is trivial to detect, so a deletion always leaves a word.
        corrupted = _without(pair, links, gone, "deletion") if len(gone) < len(pair.target) else None
        if corrupted is not None:
            return corrupted
    return None


def _truncate(pair: WordPair, links: Links, generator: np.random.Generator) -> CorruptedPair | None:
    """Remove the last fifth to half of the translation, its final punctuation mark apart."""
    # A missing final mark alone would reveal the error, so it stays at the end.
    end = len(pair.target) - (1 if not is_word(pair.target[-1]) else 0)
    size = round(end * generator.uniform(0.2, 0.5))
    if not 0 < size < end:
        return None
    return _without(pair, links, set(range(end - size, end)), "truncation")


def _without(pair: WordPair, links: Links, gone: set[int], kind: Corruption) -> CorruptedPair | None:
    """Return the pair without some target words; the source words that lost all their links are omitted."""
    linked = {i for i, j in links if j not in gone}
    omitted = frozenset(i for i, j in links if j in gone) - linked
    if not omitted:
        return None
    target = tuple(word for j, word in enumerate(pair.target) if j not in gone)
    return CorruptedPair(WordPair(pair.source, target), kind, omitted=omitted)


def _insert(
    pair: WordPair,
    other: Sequence[str],
    max_span: int,
    generator: np.random.Generator,
    place: int | None = None,
) -> CorruptedPair | None:
    """Add a span of another translation, by default at a random place."""
    if not other:
        return None
    first = int(generator.integers(len(other)))
    words = tuple(other[first : first + int(generator.integers(1, max_span + 1))])
    # A span of words that the translation already has would be a repetition rather than an addition.
    if set(map(fold_word, words)) <= set(pair.folded[1]):
        return None
    if place is None:
        place = int(generator.integers(len(pair.target) + 1))
    target = pair.target[:place] + words + pair.target[place:]
    return CorruptedPair(
        WordPair(pair.source, target), "insertion", added=frozenset(range(place, place + len(words)))
    )


def _replace(
    pair: WordPair, links: Links, other: Sequence[str], max_span: int, generator: np.random.Generator
) -> CorruptedPair | None:
    """Put a span of another translation into the place of the counterpart of a span of the source."""
    deleted = _delete(pair, links, max_span, generator)
    if deleted is None:
        return None
    words = deleted.pair.target
    place = next((k for k, word in enumerate(words) if word != pair.target[k]), len(words))
    inserted = _insert(deleted.pair, other, max_span, generator, place)
    return inserted and replace(inserted, kind="replacement", omitted=deleted.omitted)


def _repeat(pair: WordPair, max_span: int, generator: np.random.Generator) -> CorruptedPair | None:
    """Repeat a span directly after itself."""
    first = int(generator.integers(len(pair.target)))
    words = pair.target[first : first + int(generator.integers(1, max_span + 1))]
    # Repeated punctuation marks may be correct, so they are no reliable examples.
    if not any(map(is_word, words)):
        return None
    times = int(generator.integers(1, _MAX_REPEATS + 1))
    if times == 1 and is_reduplication(words):
        return None
    end = first + len(words)
    target = pair.target[:end] + words * times + pair.target[end:]
    repeated = frozenset(range(end, end + len(words) * times))
    return CorruptedPair(WordPair(pair.source, target), "repetition", repeated=repeated)


def with_unknown_words(
    examples: Sequence[CorruptedPair], share: float, rate: float, seed: int
) -> list[CorruptedPair]:
    """Return the examples, a part of them with some words replaced by words that no aligner has seen.

    In text of another kind than that of an aligner, more words are unknown to it. A detector that also learns
    from such examples judges these words better. Labels and lengths do not change.

    Args:
        examples: The examples.
        share: Share of the examples in which words are replaced.
        rate: Mean share of the replaced words in them. That of an example is between 0 and twice the mean.
        seed: Random seed.
    """
    generator = np.random.default_rng(seed)

    def replaced(words: Sequence[str], letter: str, own: float) -> tuple[str, ...]:
        hidden = generator.random(len(words)) < own
        return tuple(
            letter * len(word) if hide and is_word(word) else word
            for word, hide in zip(words, hidden, strict=True)
        )

    result = []
    for example in examples:
        if generator.random() < share:
            example_rate = generator.uniform(0, 2 * rate)
            source = replaced(example.pair.source, _UNKNOWN_LETTERS[0], example_rate)
            example = replace(
                example,
                pair=WordPair(source, replaced(example.pair.target, _UNKNOWN_LETTERS[1], example_rate)),
            )
        result.append(example)
    return result


def word_labels(examples: Sequence[CorruptedPair], error: CoverageError) -> np.ndarray:
    """Return for each word of the side of an error whether it is affected."""
    labels = []
    for example in examples:
        words = example.pair.source if error == "omission" else example.pair.target
        hit = {"omission": example.omitted, "addition": example.added, "repetition": example.repeated}[error]
        labels += [position in hit for position in range(len(words))]
    return np.array(labels, dtype=bool)
