"""Lines in blocks, blocks in batches: bounded memory, little padding, results in the order of the lines."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from regard.decoding.config import SearchBatchConfig
from regard.errors import RegardError

__all__ = ["blocks", "sorted_batches", "too_long"]

T = TypeVar("T")
_CHARACTERS = 100  # of a line for each token it may have: longer ones are not even tokenised


def blocks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`, read no sooner than needed.

    A user's mistake in reading them is raised after what came before it was given out.
    """
    iterator = iter(items)
    while True:
        block: list[T] = []
        mistake: RegardError | None = None
        try:
            for item in islice(iterator, size):
                block.append(item)
        except RegardError as error:
            mistake = error
        if block:
            yield block
        if mistake is not None:
            raise mistake
        if len(block) < size:
            return


def too_long(line: str, tokens: int | None, longest: int) -> str | None:
    """Why a line is refused; none where it is not.

    Args:
        line: The line.
        tokens: How many tokens it has; none where that is not known yet.
        longest: The most it may have.
    """
    if tokens is None:
        if len(line) > _CHARACTERS * longest:
            return f"{len(line)} characters are more than {longest} tokens can be"
        return None
    return f"{tokens} tokens, the longest line allowed has {longest}" if tokens > longest else None


def sorted_batches(lengths: Sequence[int], config: SearchBatchConfig) -> Iterator[list[int]]:
    """Which items go together: sorted by length, at most so many sentences and tokens, padding included.

    Args:
        lengths: The length of each item; items of length 0 are left out.
        config: The limits; a sentence beyond them is a batch of its own.
    """
    order = sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i])
    batch: list[int] = []
    for item in order:
        # The first is the longest.
        padded = lengths[batch[0]] * (len(batch) + 1) if batch else 0
        if len(batch) == config.sentences or padded > config.tokens:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
