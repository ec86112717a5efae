"""Blocks of lines and batches of similar length: bounded memory, little padding, results in input order."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from regard.errors import RegardError
from regard.generation.config import GenerationBatchConfig

__all__ = ["length_error", "length_sorted_batches", "read_blocks"]

_T = TypeVar("_T")
# Maximum number of characters per allowed token. Longer lines are rejected without tokenization.
_MAX_CHARS_PER_TOKEN = 100


def read_blocks(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Yield the items in lists of `size`. Items are read only when needed.

    If reading an item raises a `RegardError`, the items before it are yielded first.
    """
    iterator = iter(items)
    while True:
        block: list[_T] = []
        failure: RegardError | None = None
        try:
            for item in islice(iterator, size):
                block.append(item)
        except RegardError as error:
            failure = error
        if block:
            yield block
        if failure is not None:
            raise failure
        if len(block) < size:
            return


def length_error(line: str, num_tokens: int | None, max_tokens: int) -> str | None:
    """Return why a line is too long, or None if it is not.

    Args:
        line: The line.
        num_tokens: Number of its tokens; None before tokenization.
        max_tokens: Maximum number of tokens.
    """
    if num_tokens is None:
        if len(line) > _MAX_CHARS_PER_TOKEN * max_tokens:
            return f"the line has {len(line)} characters, too many for the maximum of {max_tokens} tokens"
        return None
    return (
        f"the line has {num_tokens} tokens; the maximum is {max_tokens}" if num_tokens > max_tokens else None
    )


def length_sorted_batches(lengths: Sequence[int], config: GenerationBatchConfig) -> Iterator[list[int]]:
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
        if len(batch) == config.batch_size or padded > config.max_batch_tokens:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
