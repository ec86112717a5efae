"""Scores of given translations, line by line, in order and in bounded memory."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from regard.data.links import Links
from regard.data.text import TextPair
from regard.data.vocabulary import EOS
from regard.decoding.blocks import blocks, sorted_batches, too_long
from regard.decoding.config import SearchConfig
from regard.decoding.forced import force
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.penalties import Scorer
from regard.decoding.unknown import map_weights
from regard.metrics.alignment import links_from_weights
from regard.models.base import TranslationModel

__all__ = ["LineScore", "score_lines"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LineScore:
    """What the model thinks of a line's translation.

    Attributes:
        number: The line, counted from 1.
        source_tokens: The tokens of the source.
        tokens: The tokens of the translation; an end symbol follows them.
        hypothesis: Their probabilities and attention; none where the source is empty or a side is too long.
        links: The most attended source word of each target word, both counted from 0.
    """

    number: int
    source_tokens: tuple[str, ...]
    tokens: tuple[str, ...]
    hypothesis: Hypothesis | None
    links: Links = frozenset()


def score_lines(
    model: TranslationModel, text: TextPair, pairs: Iterable[tuple[str, str]], search: SearchConfig
) -> Iterator[LineScore]:
    """Score translations that are given.

    Args:
        model: The model.
        text: How its two sides are written.
        pairs: Source lines and their translations.
        search: Its length and coverage penalties make the score, its batch settings bound memory.

    Yields:
        One result a pair, in order; a pair that cannot be scored has none, with a warning.
    """
    scorer = Scorer.of(search)
    device = next(model.parameters()).device
    for block in blocks(enumerate(pairs, 1), search.batch.block):
        read = [_read(number, *pair, text, search.batch.longest) for number, pair in block]
        found: list[Hypothesis | None] = [None] * len(read)
        lengths = [
            max(len(one.source_tokens), len(one.tokens) + 1) if one.source_tokens else 0 for one in read
        ]
        for rows in sorted_batches(lengths, search.batch):
            sources = [text.source.vocabulary.ids(read[row].source_tokens) for row in rows]
            targets = [[*text.target.vocabulary.ids(read[row].tokens), EOS] for row in rows]
            batch = text.batch(sources, targets, [read[row].number for row in rows]).to(device)
            for row, hypothesis in zip(rows, force(model, batch, scorer), strict=True):
                found[row] = hypothesis
        for one, hypothesis in zip(read, found, strict=True):
            links = frozenset() if hypothesis is None else _links(one, hypothesis, text)
            yield LineScore(one.number, one.source_tokens, one.tokens, hypothesis, links)


def _links(read: LineScore, hypothesis: Hypothesis, text: TextPair) -> Links:
    """The links of the attention; the end symbol's is left out, and nothing links to a sink."""
    weights = map_weights(hypothesis.attention)[: len(read.tokens)]
    source_words = (*text.source.word_ids(read.source_tokens), *[-1] * len(text.sink))
    return links_from_weights(weights, source_words, text.target.word_ids(read.tokens))


def _read(number: int, source: str, target: str, text: TextPair, longest: int) -> LineScore:
    """Tokenise a pair; no tokens where it cannot be scored."""
    problem = too_long(source, None, longest) or too_long(target, None, longest)
    if problem is None:
        words, said = text.source.tokenize(source), text.target.tokenize(target)
        problem = too_long(source, len(words), longest) or too_long(target, len(said), longest)
        if problem is None and words:
            return LineScore(number, tuple(words), tuple(said), None)
    _log.warning("line %d has no score: %s", number, problem or "the source is empty")
    return LineScore(number, (), (), None)
