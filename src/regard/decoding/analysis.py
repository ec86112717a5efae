"""Attention and predictions of a model at each time step of given translations (forced decoding)."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from regard.data.batch import Batch
from regard.data.links import Links
from regard.data.spacing import SPACES
from regard.data.text import Side, TextPair
from regard.decoding.beam import evaluating
from regard.decoding.config import AlignmentConfig, SearchBatchConfig
from regard.decoding.forced import likeliest
from regard.decoding.linking import (
    Layers,
    TokenWords,
    attention_links,
    attention_map,
    chosen_heads,
    selection_links,
)
from regard.decoding.pairs import TokenPair, pair_batches, pair_blocks
from regard.metrics.alignment import is_selection
from regard.metrics.attention import SentenceAttention, look
from regard.models.base import TranslationModel
from regard.types import Bool, Float

__all__ = ["ForcedLine", "force_lines", "words_of"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ForcedLine:
    """Result of forced decoding for one line, with T time steps. The last step is that of the end symbol.

    Attributes:
        number: Line number, counted from 1.
        source: Source words.
        target: Words of the translation.
        source_words: Word index of each source token, counted from 0; -1 for the sink.
        target_words: Word index of each token of the translation, without the end symbol.
        right: Whether the top-scoring token of each step (a vocabulary entry) equals the reference token.
        log_probs: Log-probabilities of the reference tokens, in nats.
        weights: Attention weights of each attention layer, before each token is known (prior).
        beliefs: Attention of each layer after each token is known (posterior).
    """

    number: int
    source: tuple[str, ...]
    target: tuple[str, ...]
    source_words: tuple[int, ...]
    target_words: tuple[int, ...]
    right: Bool[np.ndarray, "T"]
    log_probs: Float[np.ndarray, "T"]
    weights: tuple[Float[np.ndarray, "T _ S"], ...]
    beliefs: tuple[Float[np.ndarray, "T _ S"], ...]

    @property
    def words(self) -> TokenWords:
        """Return the word index of each token."""
        return TokenWords(self.source_words, self.target_words)

    @property
    def attends(self) -> bool:
        """Return whether the model attends to the source in any layer."""
        return any(layer.any() for layer in self.beliefs)

    def map(
        self, config: AlignmentConfig, prior: bool = False, name: str = "the model"
    ) -> Float[np.ndarray, "T S"]:
        """Return the attention map of the translation; see `regard.decoding.linking`.

        Args:
            config: Layer, heads and shift.
            prior: Whether to use the attention before each token is known instead of the posterior.
            name: Name of the model, for error messages.

        Raises:
            UsageError: if the model has no such layer or head.
        """
        return attention_map(self.weights if prior else self.beliefs, config, name)

    def links(self, config: AlignmentConfig, prior: bool = False, name: str = "the model") -> Links:
        """Return the word links of the translation. The arguments are those of `map`.

        With hard attention, the prior weights of all selected words are equal. Their
        order is then taken from the posterior even if `prior` is set.
        """
        # Equal weights have no maximum, so links of a selection always come from the posterior.
        alike = prior and not is_selection(chosen_heads(self.weights, config, name))
        after: Layers = self.weights if alike else self.beliefs
        return attention_links(self.weights, after, config, self.words, name)

    def examine(
        self, config: AlignmentConfig, prior: bool = False, name: str = "the model"
    ) -> SentenceAttention:
        """Compute the attention statistics of the line. The arguments are those of `map`."""
        return look(
            chosen_heads(self.weights if prior else self.beliefs, config, name),
            self.right,
            self.source_words,
            self.target_words,
            self.links(config, prior, name),
            selection_links(self.weights, config, self.words, name),
        )


def force_lines(
    model: TranslationModel, text: TextPair, pairs: Iterable[tuple[str, str]], config: SearchBatchConfig
) -> Iterator[ForcedLine | None]:
    """Run forced decoding on given translations, in order and in bounded memory.

    Args:
        model: The model.
        text: Text processing of both sides.
        pairs: Source lines and their translations.
        config: Batch limits. The results do not depend on them.

    Yields:
        One result per pair. It is None, with a warning, if the source is empty or either side is too long.
    """
    device = next(model.parameters()).device
    for block in pair_blocks(text, pairs, config, model):
        found: list[ForcedLine | None] = [None] * len(block)
        for rows, batch in pair_batches(text, block, config):
            chosen = [block[row] for row in rows]
            for row, line in zip(rows, _force(model, text, chosen, batch.to(device)), strict=True):
                found[row] = line
        for pair, line in zip(block, found, strict=True):
            if pair.problem:
                _log.warning("line %d is skipped: %s", pair.number, pair.problem)
            yield line


def _force(
    model: TranslationModel, text: TextPair, pairs: Sequence[TokenPair], batch: Batch
) -> Iterator[ForcedLine]:
    assert batch.target is not None
    with evaluating(model):
        outcome = model(batch)
        log_probs = outcome.log_likelihood.double().cpu().numpy()
        weights, beliefs = (
            [layer.float().cpu().numpy() for layer in layers] for layers in (outcome.weights, outcome.beliefs)
        )
    right = (likeliest(model, batch) == batch.target.tokens).cpu().numpy()
    for row, pair in enumerate(pairs):
        # Copies of the slices let the memory of the padded batch be freed.
        steps, own = len(pair.target) + 1, len(pair.source) + len(text.sink)
        yield ForcedLine(
            number=pair.number,
            source=words_of(text.source, pair.source),
            target=words_of(text.target, pair.target),
            source_words=(*text.source.word_ids(pair.source), *text.sink_words),
            target_words=tuple(text.target.word_ids(pair.target)),
            right=right[row, :steps].copy(),
            log_probs=log_probs[row, :steps].copy(),
            weights=tuple(layer[row, :steps, :, :own].copy() for layer in weights),
            beliefs=tuple(layer[row, :steps, :, :own].copy() for layer in beliefs),
        )


def words_of(side: Side, tokens: Sequence[str]) -> tuple[str, ...]:
    """Return the words that a sequence of tokens consists of."""
    groups = groupby(zip(side.word_ids(tokens), tokens, strict=True), key=lambda piece: piece[0])
    words = ([token for _, token in word] for _, word in groups)
    return tuple(side.tokenizer.decode(word).strip(SPACES) or "".join(word) for word in words)
