"""Blocks of lines and batches of similar length: bounded memory, little padding, results in input order."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from regard.decoding.config import SearchBatchConfig
from regard.errors import RegardError

__all__ = ["blocks", "sorted_batches", "too_long"]

T = TypeVar("T")
_CHARACTERS = 100  # maximum characters per allowed token; longer lines are rejected without tokenization


def blocks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of `size`. Items are read only when needed.

    If reading an item raises a `RegardError`, the items before it are yielded first.
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
    """Return why a line is too long, or None if it is not.

    Args:
        line: The line.
        tokens: Number of its tokens; None before tokenization.
        longest: Maximum number of tokens.
    """
    if tokens is None:
        if len(line) > _CHARACTERS * longest:
            return f"the line has {len(line)} characters, too many for the maximum of {longest} tokens"
        return None
    return f"the line has {tokens} tokens; the maximum is {longest}" if tokens > longest else None


def sorted_batches(lengths: Sequence[int], config: SearchBatchConfig) -> Iterator[list[int]]:
    """Yield batches of item indices, sorted by length, within the limits on sentences and padded tokens.

    Args:
        lengths: Length of each item. Items of length 0 are omitted.
        config: Batch limits. A sentence that exceeds them forms its own batch.
    """
    order = sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i])
    batch: list[int] = []
    for item in order:
        # The first item is the longest and determines the padded length.
        padded = lengths[batch[0]] * (len(batch) + 1) if batch else 0
        if len(batch) == config.sentences or padded > config.tokens:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
