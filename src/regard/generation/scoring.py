"""Scores of given translations, line by line, in order and in bounded memory."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from regard.data.links import Links
from regard.data.text import TextProcessor
from regard.generation.config import AlignmentConfig, GenerationConfig
from regard.generation.forced import force_decode
from regard.generation.hypothesis import Hypothesis
from regard.generation.linking import WordIndices, attention_links
from regard.generation.pairs import PretokenizedPair, TokenPair, pair_batches, pair_blocks
from regard.generation.penalties import HypothesisScorer
from regard.models.base import TranslationModel

__all__ = ["LineScore", "score_lines"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LineScore:
    """Score of one line's translation.

    Attributes:
        number: Line number, counted from 1.
        source_tokens: Tokens of the source.
        tokens: Tokens of the translation. An end symbol follows them.
        hypothesis: Probabilities and attention. None if the pair cannot be scored.
        links: For each target word the source word with the highest attention, both counted from 0; see
            `regard.generation.linking`.
        error: Why there is no score. Empty if there is one.
        retokenized: Whether tokenizing the text gives other tokens than those of the `PretokenizedPair`.
    """

    number: int
    source_tokens: tuple[str, ...]
    tokens: tuple[str, ...]
    hypothesis: Hypothesis | None
    links: Links = frozenset()
    error: str = ""
    retokenized: bool = False


def score_lines(
    model: TranslationModel,
    text: TextProcessor,
    pairs: Iterable[tuple[str, str] | PretokenizedPair],
    search: GenerationConfig,
) -> Iterator[LineScore]:
    """Score given translations.

    Args:
        model: The model.
        text: Text processing of both sides.
        pairs: Source lines and their translations. The tokens of a `PretokenizedPair` are used unchanged.
        search: Length and coverage penalty define the score, the batch limits bound memory, and the alignment
            settings select the attention for the links.

    Yields:
        One result per pair, in order. A pair that cannot be scored yields a result without a hypothesis, and
        a warning is logged.
    """
    scorer = HypothesisScorer.from_config(search, len(model.constraints.prefix))
    device = next(model.parameters()).device
    for block in pair_blocks(text, pairs, search, model):
        found: list[Hypothesis | None] = [None] * len(block)
        for rows, batch in pair_batches(text, block, search):
            for row, hypothesis in zip(rows, force_decode(model, batch.to(device), scorer), strict=True):
                found[row] = hypothesis
        for pair, hypothesis in zip(block, found, strict=True):
            if pair.error:
                _log.warning("line %d has no score: %s", pair.number, pair.error)
            links = frozenset() if hypothesis is None else _links(pair, hypothesis, text, search.alignment)
            yield LineScore(
                pair.number, pair.source, pair.target, hypothesis, links, pair.error, pair.retokenized
            )


def _links(pair: TokenPair, found: Hypothesis, text: TextProcessor, config: AlignmentConfig) -> Links:
    """Return the word links of a scored pair."""
    source_words = (*text.source.word_ids(pair.source), *text.sink_word_ids)
    words = WordIndices(source_words, text.target.word_ids(pair.target))
    return attention_links(found.attention, found.posterior_attention, config, words)
