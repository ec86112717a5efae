"""Attention and predictions of a model at each time step of given translations (forced decoding)."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.batch import Batch
from regard.data.text import TextProcessor
from regard.generation.attribution import attribute_pairs
from regard.generation.beam import eval_mode
from regard.generation.blocks import TokenPair, pair_batches, pair_blocks
from regard.generation.config import AlignmentConfig, GenerationBatchConfig
from regard.generation.forced import predict_tokens
from regard.generation.linking import (
    LayerAttention,
    WordIndices,
    attention_links,
    attention_map,
    select_heads,
    selection_links,
    tokens_to_words,
)
from regard.metrics.alignment import is_selection
from regard.metrics.attention import SentenceAttention, attention_statistics
from regard.models.base import TranslationModel
from regard.text.links import Links
from regard.types import Bool, Float

__all__ = ["ForcedResult", "force_decode_lines"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ForcedResult:
    """Result of forced decoding for one line, with T time steps. The last step is that of the end symbol.

    Attributes:
        number: Line number, counted from 1.
        source: Source words.
        target: Words of the translation.
        source_words: Word index of each source token, counted from 0; -1 for the sink.
        target_words: Word index of each token of the translation, without the end symbol.
        correct: Whether the top-scoring token of each step (a vocabulary entry) equals the reference token.
        log_probs: Log-probabilities of the reference tokens, in nats.
        weights: Attention weights of each attention layer, before each token is known (prior).
        posteriors: Attention of each layer after each token is known (posterior).
        contributions: Positive and negative contributions of the source tokens if the map is an attribution,
            which both `weights` and `posteriors` then show; see `regard.generation.attribution`.
    """

    number: int
    source: tuple[str, ...]
    target: tuple[str, ...]
    source_words: tuple[int, ...]
    target_words: tuple[int, ...]
    correct: Bool[np.ndarray, "T"]
    log_probs: Float[np.ndarray, "T"]
    weights: tuple[Float[np.ndarray, "T _ S"], ...]
    posteriors: tuple[Float[np.ndarray, "T _ S"], ...]
    contributions: Float[np.ndarray, "T S"] | None = None

    @property
    def token_words(self) -> WordIndices:
        """Return the word index of each token."""
        return WordIndices(self.source_words, self.target_words)

    @property
    def attends(self) -> bool:
        """Return whether the model attends to the source in any layer, or the map is an attribution."""
        return self.contributions is not None or any(layer.any() for layer in self.posteriors)

    def attention_map(
        self, config: AlignmentConfig, prior: bool = False, name: str = "the model"
    ) -> Float[np.ndarray, "T S"]:
        """Return the attention map of the translation; see `regard.generation.linking`.

        Args:
            config: Layer, heads and shift.
            prior: Whether to use the attention before each token is known instead of the posterior.
            name: Name of the model, for error messages.

        Raises:
            UsageError: if the model has no such layer or head.
        """
        return attention_map(self.weights if prior else self.posteriors, config, name)

    def links(self, config: AlignmentConfig, prior: bool = False, name: str = "the model") -> Links:
        """Return the word links of the translation. The arguments are those of `attention_map`.

        With hard attention, the prior weights of all selected words are equal. The links are then taken from
        the posterior even if `prior` is set.
        """
        # Equal weights have no maximum, so links of a selection always come from the posterior.
        use_prior = prior and not is_selection(select_heads(self.weights, config, name))
        layers: LayerAttention = self.weights if use_prior else self.posteriors
        return attention_links(self.weights, layers, config, self.token_words, name)

    def attention_statistics(
        self, config: AlignmentConfig, prior: bool = False, name: str = "the model"
    ) -> SentenceAttention:
        """Compute the attention statistics of the line. The arguments are those of `attention_map`."""
        return attention_statistics(
            select_heads(self.weights if prior else self.posteriors, config, name),
            self.correct,
            self.source_words,
            self.target_words,
            self.links(config, prior, name),
            selection_links(self.weights, config, self.token_words, name),
        )


def force_decode_lines(
    model: TranslationModel,
    text: TextProcessor,
    pairs: Iterable[tuple[str, str]],
    config: GenerationBatchConfig,
    alignment: AlignmentConfig | None = None,
) -> Iterator[ForcedResult | None]:
    """Run forced decoding on given translations, in order and in bounded memory.

    Args:
        model: The model.
        text: Text processing of both sides.
        pairs: Source lines and their translations.
        config: Batch limits. The results do not depend on them.
        alignment: The kind of the map, which may be an attribution. Default: attention.

    Yields:
        One result per pair. It is None, with a warning, if the source is empty or either side is too long.
    """
    device = next(model.parameters()).device
    for block in pair_blocks(text, pairs, config, model):
        results: list[ForcedResult | None] = [None] * len(block)
        for rows, batch in pair_batches(text, block, config):
            chosen = [block[row] for row in rows]
            decoded = _force_decode_batch(
                model, text, chosen, batch.to(device), alignment or AlignmentConfig()
            )
            for row, line in zip(rows, decoded, strict=True):
                results[row] = line
        for pair, line in zip(block, results, strict=True):
            if pair.error:
                _log.warning("line %d is skipped: %s", pair.number, pair.error)
            yield line


def _force_decode_batch(
    model: TranslationModel,
    text: TextProcessor,
    pairs: Sequence[TokenPair],
    batch: Batch,
    alignment: AlignmentConfig,
) -> Iterator[ForcedResult]:
    assert batch.target is not None
    attributions = [] if alignment.map == "attention" else attribute_pairs(model, batch, alignment)
    with eval_mode(model):
        outcome = model(batch)
        log_probs = outcome.log_likelihood.double().cpu().numpy()
        weights, posteriors = (
            [layer.float().cpu().numpy() for layer in layers]
            for layers in (outcome.cross_attentions, outcome.posteriors)
        )
    correct = (predict_tokens(model, batch) == batch.target.tokens).cpu().numpy()
    for row, pair in enumerate(pairs):
        # Copies of the slices let the memory of the padded batch be freed.
        steps, positions = len(pair.target) + 1, len(pair.source) + len(text.sink_tokens)
        prior, posterior = (
            (attributions[row].weights,)
            if attributions
            else tuple(layer[row, :steps, :, :positions].copy() for layer in layers)
            for layers in (weights, posteriors)
        )
        yield ForcedResult(
            number=pair.number,
            source=tokens_to_words(text.source, pair.source),
            target=tokens_to_words(text.target, pair.target),
            source_words=(*text.source.word_ids(pair.source), *text.sink_word_ids),
            target_words=tuple(text.target.word_ids(pair.target)),
            correct=correct[row, :steps].copy(),
            log_probs=log_probs[row, :steps].copy(),
            weights=prior,
            posteriors=posterior,
            contributions=attributions[row].contributions if attributions else None,
        )
