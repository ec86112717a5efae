"""Sentence pairs as a model reads them, in blocks of bounded memory and batches of little padding."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from regard.data.batch import Batch
from regard.data.text import TextPair
from regard.data.tokenizers.actions import STEP, ActionsTokenizer
from regard.data.vocabulary import EOS
from regard.decoding.blocks import blocks, sorted_batches, too_long
from regard.decoding.config import Limits, SearchBatchConfig

__all__ = ["TokenPair", "pair_batches", "pair_blocks"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TokenPair:
    """A line of a text and its translation.

    Attributes:
        number: The line, counted from 1.
        source: Its tokens; none where it cannot be read.
        target: The translation's tokens; an end symbol follows them.
        problem: Why it cannot be read (no source, too long, not of the tokenizer's form); empty where it can.
    """

    number: int
    source: tuple[str, ...]
    target: tuple[str, ...]
    problem: str = ""


def pair_blocks(
    text: TextPair, pairs: Iterable[tuple[str, str]], config: SearchBatchConfig, longest: int | None
) -> Iterator[list[TokenPair]]:
    """Lines and their translations as tokens, a block at a time.

    Where the model writes actions and a translation has no step, a warning says so, once.

    Args:
        text: How the two sides are written.
        pairs: Source lines and their translations.
        config: The size of a block, and the length of the longest line.
        longest: The most tokens that the model can read; see `TranslationModel.longest`.
    """
    limits = config.limits(longest, len(text.sink))
    actions = isinstance(text.target.tokenizer, ActionsTokenizer)
    for block in blocks(enumerate(pairs, 1), config.block):
        found = [_read(number, *pair, text, limits) for number, pair in block]
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


def _read(number: int, source: str, target: str, text: TextPair, limits: Limits) -> TokenPair:
    sides = (text.source, source), (text.target, target)
    problem = too_long(source, None, limits.source) or too_long(target, None, limits.target)
    problem = problem or next(filter(None, (side.problem(line) for side, line in sides)), None)
    if problem is None:
        words, said = text.source.tokenize(source), text.target.tokenize(target)
        problem = too_long(source, len(words), limits.source) or too_long(target, len(said), limits.target)
        if problem is None and words:
            return TokenPair(number, tuple(words), tuple(said))
    return TokenPair(number, (), (), problem or "the source is empty")
