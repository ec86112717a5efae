"""Scores of given translations, line by line, in order and in bounded memory."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from regard.data.links import Links
from regard.data.text import TextPair
from regard.decoding.config import AlignmentConfig, SearchConfig
from regard.decoding.forced import force
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.linking import TokenWords, attention_links
from regard.decoding.pairs import KeptPair, TokenPair, pair_batches, pair_blocks
from regard.decoding.penalties import Scorer
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
        hypothesis: Their probabilities and attention; none where there is a problem.
        links: The most attended source word of each target word, both counted from 0; see
            `regard.decoding.linking`.
        problem: Why it has no score; empty where it has one.
        resegmented: Whether kept tokens are other ones than those of the text when it is read again.
    """

    number: int
    source_tokens: tuple[str, ...]
    tokens: tuple[str, ...]
    hypothesis: Hypothesis | None
    links: Links = frozenset()
    problem: str = ""
    resegmented: bool = False


def score_lines(
    model: TranslationModel,
    text: TextPair,
    pairs: Iterable[tuple[str, str] | KeptPair],
    search: SearchConfig,
) -> Iterator[LineScore]:
    """Score translations that are given.

    Args:
        model: The model.
        text: How its two sides are written.
        pairs: Source lines and their translations; kept tokens are scored as they are.
        search: Its length and coverage penalties make the score, its batch settings bound memory, and links
            are made from its alignment attention.

    Yields:
        One result a pair, in order; a pair that cannot be scored has none, with a warning.
    """
    scorer = Scorer.of(search, len(model.constraints.before))
    device = next(model.parameters()).device
    for block in pair_blocks(text, pairs, search.batch, model):
        found: list[Hypothesis | None] = [None] * len(block)
        for rows, batch in pair_batches(text, block, search.batch):
            for row, hypothesis in zip(rows, force(model, batch.to(device), scorer), strict=True):
                found[row] = hypothesis
        for pair, hypothesis in zip(block, found, strict=True):
            if pair.problem:
                _log.warning("line %d has no score: %s", pair.number, pair.problem)
            links = frozenset() if hypothesis is None else _links(pair, hypothesis, text, search.alignment)
            yield LineScore(
                pair.number, pair.source, pair.target, hypothesis, links, pair.problem, pair.resegmented
            )


def _links(pair: TokenPair, found: Hypothesis, text: TextPair, config: AlignmentConfig) -> Links:
    """The links of the attention."""
    source_words = (*text.source.word_ids(pair.source), *text.sink_words)
    words = TokenWords(source_words, text.target.word_ids(pair.target))
    return attention_links(found.attention, found.believed, config, words)
