"""Blocks of lines and pairs of bounded memory, and batches of similar length with little padding."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from threading import Barrier, Lock
from typing import TypeVar

import torch
from torch import nn

from regard.attention.constrained import MIN_ATTENTION_LEFT
from regard.data.batch import Batch
from regard.data.text import TextProcessor
from regard.errors import RegardError
from regard.generation.beam import eval_mode
from regard.generation.config import GenerationBatchConfig, GenerationConfig, LengthLimits
from regard.generation.lines import any_attention
from regard.generation.translation import Translation
from regard.models.base import TranslationModel
from regard.text.tokenizers.words import STEP, ActionsTokenizer
from regard.text.vocabulary import EOS

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_R = TypeVar("_R")
# Maximum number of characters per allowed token. Longer lines are rejected without tokenization.
_MAX_CHARS_PER_TOKEN = 100


def read_blocks(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Yield the items in lists of `size`. Items are read only when needed.

    If reading an item raises a `RegardError`, the items before it are yielded first.
    """
    iterator = iter(items)
    failure: RegardError | None = None
    while failure is None:
        block: list[_T] = []
        try:
            block.extend(islice(iterator, size))
        except RegardError as error:
            failure = error
        if not block:
            break
        yield block
    if failure is not None:
        raise failure


def length_error(line: str, num_tokens: int | None, max_tokens: int) -> str | None:
    """Return why a line is too long, or None if it is not; `num_tokens` is None before tokenization."""
    if num_tokens is None:
        if len(line) > _MAX_CHARS_PER_TOKEN * max_tokens:
            return f"the line has {len(line)} characters, too many for the maximum of {max_tokens} tokens"
        return None
    return (
        f"the line has {num_tokens} tokens; the maximum is {max_tokens}" if num_tokens > max_tokens else None
    )


def length_sorted_batches(lengths: Sequence[int], config: GenerationBatchConfig) -> Iterator[list[int]]:
    """Yield batches of item indices, sorted by length, within the limits on sentences and padded tokens.

    Items of length 0 are omitted. A sentence that exceeds the limits forms its own batch.
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


Pair = tuple[str, str] | Translation
"""A source line and its translation. A `Translation` is used with the tokens of a previous decoding run."""


def pair_blocks(
    text: TextProcessor, pairs: Iterable[Pair], config: GenerationConfig, model: TranslationModel
) -> Iterator[list[Translation]]:
    """Yield blocks of tokenized lines and translations, without scores. A rejected pair has an error.

    A single warning is logged if the model generates actions and a translation contains no step action.
    """
    limits = config.length_limits(model.max_length, len(text.sink_tokens))
    max_pair_length = model.constraints.max_pair_length
    most = math.inf if max_pair_length is None else max_pair_length - len(text.sink_tokens)
    bounded = text.budget is not None and not text.sink_tokens and any_attention(model, "bounded")
    expects_actions = isinstance(text.target.tokenizer, ActionsTokenizer)
    for block in read_blocks(enumerate(pairs, 1), config.buffer_lines):
        tokenized: list[Translation] = []
        for number, pair in block:
            empty = Translation("", text, number=number, alignment_config=config.alignment)
            tokenized.append(_tokenize_pair(pair, limits, most, empty))
            tokens = tokenized[-1].tokens
            if expects_actions and tokens and STEP not in tokens:
                expects_actions = False  # warn only once
                _log.warning(
                    "line %d: the model generates actions, but there is no step action (%s) in %r; convert "
                    "plain text to actions with `regard actions`",
                    number,
                    STEP,
                    "".join(tokens),
                )
        yield _check_fertilities(tokenized, text) if bounded else tokenized


def pair_batches(
    text: TextProcessor, block: Sequence[Translation], config: GenerationBatchConfig
) -> Iterator[tuple[list[int], Batch]]:
    """Yield batches of the valid pairs of a block, with their indices in the block."""
    # Length 0 omits a pair. The end symbol adds 1 to the target.
    lengths = [0 if pair.error else max(len(pair.text_source_tokens), len(pair.tokens) + 1) for pair in block]
    for rows in length_sorted_batches(lengths, config):
        sources = [text.source.vocabulary.to_ids(block[row].text_source_tokens) for row in rows]
        targets = [[*text.target.vocabulary.to_ids(block[row].tokens), EOS] for row in rows]
        yield rows, text.batch(sources, targets, [block[row].number for row in rows])


def _check_fertilities(pairs: Sequence[Translation], text: TextProcessor) -> list[Translation]:
    """Mark pairs with more target tokens, each of which uses 1, than the fertilities provide attention."""
    assert text.budget is not None
    readable = [pair for pair in pairs if not pair.error]
    upper_bounds, _ = text.budget.bounds(
        [text.source.vocabulary.to_ids(pair.text_source_tokens) for pair in readable]
    )
    rejected: dict[int, Translation] = {}
    for pair, upper in zip(readable, upper_bounds, strict=True):
        total = float(upper.sum())
        # Number of target tokens that the total attention covers, up to the tolerance of the model.
        num_covered = math.floor(min(total, len(pair.tokens)) + (1 - MIN_ATTENTION_LEFT))
        if num_covered < len(pair.tokens):
            error = (
                f"the fertilities of the source words sum to {total:g}, and each target token uses 1: no "
                f"attention is left for target token {num_covered} (counted from 0), "
                f"{pair.tokens[num_covered]!r}; a model trained with data.fertility.sink = true has no such "
                "limit"
            )
            rejected[pair.number] = replace(
                pair, text="", source_tokens=(), tokens=(), retokenized=False, error=error
            )
    return [rejected.get(pair.number, pair) for pair in pairs]


def _tokenize_pair(pair: Pair, limits: LengthLimits, most: float, empty: Translation) -> Translation:
    """Return the translation of `empty` with the texts and tokens of a pair, or why it cannot be scored."""
    source, target = (pair.source, pair.text) if isinstance(pair, Translation) else pair
    empty, text = replace(empty, source=source), empty.processor
    # Lines with far too many characters are rejected before the costly tokenization.
    error = (
        length_error(source, None, limits.source)
        or length_error(target, None, limits.target)
        or text.source.format_error(source)
        or text.target.format_error(target)
    )
    if error is not None:
        return replace(empty, error=error)
    tokenized = tokens = tuple(text.source.tokenize(source)), tuple(text.target.tokenize(target))
    if isinstance(pair, Translation):
        tokens = pair.text_source_tokens or tokenized[0], pair.tokens
    lengths = len(tokens[0]), len(tokens[1])
    error = length_error(source, lengths[0], limits.source) or length_error(target, lengths[1], limits.target)
    if error is None and not tokens[0]:
        error = "the source is empty"
    if error is None and sum(lengths) > most:
        error = f"the line and its translation have {sum(lengths)} tokens together; the maximum is {most}"
    if error is not None:
        return replace(empty, error=error)
    source_tokens = (*tokens[0], *text.sink_tokens)
    return replace(
        empty, text=target, source_tokens=source_tokens, tokens=tokens[1], retokenized=tokens != tokenized
    )


# Search of two batches at once

_lock = Lock()


def map_batches(model: nn.Module, batches: Sequence[_T], function: Callable[[_T], _R]) -> list[_R]:
    """Apply a function to each batch and return the results in order, on a CPU to two batches at once.

    A decoding step consists of a few large matrix multiplications and many small operations, during which all
    but one thread are idle. Two batches, each with half of the threads, give about a sixth more sentences per
    second (`benchmarks/RESULTS.md`); more would wait for the global interpreter lock. The other threads have
    the autocast settings of the calling thread.
    """
    threads = torch.get_num_threads()
    first = next(model.parameters(), None)
    device = "cpu" if first is None else first.device.type
    if device != "cpu" or threads < 2 or len(batches) < 2:
        return [function(batch) for batch in batches]
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None

    def search(batch: _T) -> _R:
        with torch.autocast(device, dtype, enabled=dtype is not None):
            return function(batch)

    # Set evaluation mode once for both threads: each search restores the mode that it found.
    with eval_mode(model), ThreadPoolExecutor(2, "search") as pool:
        _split_threads(pool, threads)
        return list(pool.map(search, batches))


def _split_threads(pool: ThreadPoolExecutor, threads: int) -> None:
    """Give each worker of a pool half of the threads; both get the same number, as results depend on it."""
    barrier = Barrier(3)

    def set_threads() -> None:
        # A thread's first call adopts the last number set in any thread, so it must precede the setter.
        torch.get_num_threads()
        torch.set_num_threads(threads // 2)
        barrier.wait()

    with _lock:
        for _ in range(2):
            pool.submit(set_threads)
        barrier.wait()
        torch.set_num_threads(threads)  # restores the default for new threads
