"""The phrasebook as a corpus: endless distinct pairs, disjoint splits, files.

Which split a pair belongs to is a property of its German (CRC-32 of the words joined by spaces, modulo 100),
so that training, validation and test sets are disjoint whatever their sizes and seeds.
"""

import zlib
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Literal

from regard.data.files import open_whole
from regard.data.links import format_links
from regard.data.phrasebook.pair import Pair
from regard.data.phrasebook.sentences import Sentences
from regard.errors import DataError, UsageError

__all__ = ["SPLITS", "Split", "generate", "split", "split_of", "splits", "write"]

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
# Of a hundred pairs, so many are for training and for validation; the rest is for testing.
_TRAIN, _VALID = 80, 10
LONGEST, SHORTEST = 40, 3


def generate(seed: int) -> Iterator[Pair]:
    """Sentence pairs without end, no source twice, of 3 to 40 words on both sides.

    Args:
        seed: Not negative; the same seed gives the same pairs on every machine and Python version.

    Raises:
        UsageError: if the seed is negative.
    """
    if seed < 0:
        raise UsageError(f"seed is {seed}; expected 0 or more")
    sentences = Sentences(seed)
    seen: set[bytes] = set()
    while True:
        pair = sentences.sentence()
        if not (SHORTEST <= len(pair.source) <= LONGEST and SHORTEST <= len(pair.target) <= LONGEST):
            continue
        key = blake2b(" ".join(pair.source).encode(), digest_size=12).digest()
        if key not in seen:
            seen.add(key)
            yield pair


def split_of(pair: Pair) -> Split:
    """The split that a pair belongs to, by its German alone."""
    bucket = zlib.crc32(" ".join(pair.source).encode()) % 100
    return "train" if bucket < _TRAIN else "valid" if bucket < _TRAIN + _VALID else "test"


def split(name: Split, size: int, seed: int) -> list[Pair]:
    """The first `size` pairs of a split.

    Raises:
        UsageError: if the name is not a split, or size or seed is negative.
    """
    if name not in SPLITS:
        raise UsageError(f"split is {name!r}; expected one of {', '.join(SPLITS)}")
    return splits({name: size}, seed)[name]


def splits(sizes: Mapping[Split, int], seed: int) -> dict[Split, list[Pair]]:
    """Several splits at once, generating each sentence once.

    Args:
        sizes: How many pairs of each split.
        seed: Not negative.

    Raises:
        UsageError: if a size or the seed is negative.
    """
    for name, size in sizes.items():
        if size < 0:
            raise UsageError(f"size of {name} is {size}; expected 0 or more")
    found: dict[Split, list[Pair]] = {name: [] for name in sizes}
    missing = sum(sizes.values())
    pairs = generate(seed)
    while missing:
        pair = next(pairs)
        name = split_of(pair)
        if len(found.get(name, ())) < sizes.get(name, 0):
            found[name].append(pair)
            missing -= 1
    return found


def write(folder: Path | str, sizes: Mapping[Split, int], seed: int) -> list[Path]:
    """Write splits as `.de`, `.en`, `.talp` (gold links, from 0) and `.fertility` (a number a German word).

    The text is in words: punctuation and the English `'s` stand apart, all joined by single spaces. Each file
    is written under another name, flushed and renamed, so that none is ever half there.

    Args:
        folder: Where to; made if it is not there.
        sizes: How many pairs of each split; files of an empty split are written empty.
        seed: Not negative.

    Returns:
        The files, four a split.

    Raises:
        DataError: if a file cannot be written.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made: {error.strerror or error}") from None
    written: list[Path] = []
    for name, pairs in splits(sizes, seed).items():
        texts = {
            "de": (" ".join(pair.source) for pair in pairs),
            "en": (" ".join(pair.target) for pair in pairs),
            "talp": (format_links(pair.links) for pair in pairs),
            "fertility": (" ".join(map(str, pair.fertilities)) for pair in pairs),
        }
        for suffix, lines in texts.items():
            path = folder / f"{name}.{suffix}"
            with open_whole(path) as file:
                while block := list(islice(lines, 10_000)):
                    file.write(("\n".join(block) + "\n").encode())
            written.append(path)
    return written
