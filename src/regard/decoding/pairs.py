"""Sentence pairs as a model reads them, in blocks of bounded memory and batches of little padding."""

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regard.attention.constrained import ENOUGH
from regard.data.batch import Batch
from regard.data.text import TextPair
from regard.data.tokenizers.actions import STEP, ActionsTokenizer
from regard.data.vocabulary import EOS
from regard.decoding.blocks import blocks, sorted_batches, too_long
from regard.decoding.by_hand import is_bounded
from regard.decoding.config import Limits, SearchBatchConfig
from regard.models.base import TranslationModel

__all__ = ["KeptPair", "TokenPair", "pair_batches", "pair_blocks"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeptPair:
    """A line and its translation with the tokens that they had.

    Attributes:
        text: The source line.
        translation: Its translation.
        source: The source's tokens, without a sink; none: it is tokenised.
        target: The translation's tokens, as they were generated.
    """

    text: str
    translation: str
    source: tuple[str, ...] | None
    target: tuple[str, ...]


@dataclass(frozen=True)
class TokenPair:
    """A line of a text and its translation.

    Attributes:
        number: The line, counted from 1.
        source: Its tokens; none where it cannot be read.
        target: The translation's tokens; an end symbol follows them.
        problem: Why it cannot be read (no source, too long, not of the tokenizer's form,
            beyond its fertilities); empty where it can.
        resegmented: Whether kept tokens are other ones than those of the text when it is read again.
    """

    number: int
    source: tuple[str, ...]
    target: tuple[str, ...]
    problem: str = ""
    resegmented: bool = False


def pair_blocks(
    text: TextPair,
    pairs: Iterable[tuple[str, str] | KeptPair],
    config: SearchBatchConfig,
    model: TranslationModel,
) -> Iterator[list[TokenPair]]:
    """Lines and their translations as tokens, a block at a time.

    Where the model writes actions and a translation has no step, a warning says so, once.

    Args:
        text: How the two sides are written.
        pairs: Source lines and their translations; kept tokens are taken as they are.
        config: The size of a block, and the length of the longest line.
        model: What is to read them.
    """
    limits = config.limits(model.longest, len(text.sink))
    bounded = text.budget is not None and not text.sink and is_bounded(model)
    actions = isinstance(text.target.tokenizer, ActionsTokenizer)
    for block in blocks(enumerate(pairs, 1), config.block):
        found = [_read(number, pair, text, limits) for number, pair in block]
        if bounded:
            found = _within_fertilities(found, text)
        plain = next((pair for pair in found if not pair.problem and STEP not in pair.target), None)
        if actions and plain is not None:
            actions = False  # said once
            _log.warning(
                "line %d: the model writes actions, and there is no step (%s) in %r: "
                "`regard actions` makes them of plain text",
                plain.number,
                STEP,
                "".join(plain.target),
            )
        yield found


def pair_batches(
    text: TextPair, block: Sequence[TokenPair], config: SearchBatchConfig
) -> Iterator[tuple[list[int], Batch]]:
    """The pairs of a block that can be read, in batches, with their places in the block.

    Args:
        text: How the two sides are written.
        block: The pairs.
        config: The size of a batch.
    """
    lengths = [0 if pair.problem else max(len(pair.source), len(pair.target) + 1) for pair in block]
    for rows in sorted_batches(lengths, config):
        sources = [text.source.vocabulary.ids(block[row].source) for row in rows]
        targets = [[*text.target.vocabulary.ids(block[row].target), EOS] for row in rows]
        yield rows, text.batch(sources, targets, [block[row].number for row in rows])


def _within_fertilities(pairs: Sequence[TokenPair], text: TextPair) -> list[TokenPair]:
    """The pairs, those with a problem whose translation needs more attention than the source may give.

    Each token takes one unit of it. The end symbol takes what is left.
    """
    assert text.budget is not None
    readable = [pair for pair in pairs if not pair.problem]
    most, _ = text.budget.bounds([text.source.vocabulary.ids(pair.source) for pair in readable])
    upper_of = {pair.number: upper for pair, upper in zip(readable, most, strict=True)}
    found: list[TokenPair] = []
    for pair in pairs:
        upper = upper_of.get(pair.number, np.full(1, math.inf))
        whole = float(upper.sum())
        enough = math.floor(min(whole, len(pair.target)) + (1 - ENOUGH))
        if enough < len(pair.target):
            problem = (
                f"its source words' fertilities sum to {whole:g}, and each target token takes 1: nothing is "
                f"left for target token {enough} (counted from 0), {pair.target[enough]!r}; a model with "
                "data.fertility.sink = true has no such limit"
            )
            pair = TokenPair(pair.number, (), (), problem)
        found.append(pair)
    return found


def _read(number: int, pair: tuple[str, str] | KeptPair, text: TextPair, limits: Limits) -> TokenPair:
    kept = pair if isinstance(pair, KeptPair) else None
    source, target = (pair.text, pair.translation) if isinstance(pair, KeptPair) else pair
    sides = (text.source, source), (text.target, target)
    problem = too_long(source, None, limits.source) or too_long(target, None, limits.target)
    problem = problem or next(filter(None, (side.problem(line) for side, line in sides)), None)
    if problem is None:
        words, said = text.source.tokenize(source), text.target.tokenize(target)
        read = [*words], [*said]
        if kept is not None:
            words, said = [*(words if kept.source is None else kept.source)], [*kept.target]
        problem = too_long(source, len(words), limits.source) or too_long(target, len(said), limits.target)
        if problem is None and words:
            return TokenPair(number, tuple(words), tuple(said), resegmented=read != (words, said))
    return TokenPair(number, (), (), problem or "the source is empty")
