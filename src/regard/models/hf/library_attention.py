"""Sequence-to-sequence models of transformers that compute the attention to the source themselves.

Some kinds do not use the library's attention interface (LED, MVP, ProphetNet, FSMT), or combine the attention
to source and target (T5Gemma 2). Their attention cannot be replaced, but the library returns its weights. A
kind that returns none has no attention maps.

Search uses the library's cache, as `generate` does, unless the model has none; then every step runs the
decoder on the whole prefix. In ProphetNet the two differ, so that the score of a search is not that of forced
decoding.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.attention.base import AttentionStep, Memory, State
from regard.attention.soft import SoftAttentionConfig
from regard.data.batch import Batch, PaddedSequences
from regard.data.hf import quiet_transformers
from regard.errors import ConfigError
from regard.layers.batched_state import BatchedState, select_rows
from regard.models.base import (
    ForwardOutput,
    GenerationConstraints,
    Memories,
    OutputAttentions,
    Prediction,
    shift_right,
)
from regard.models.hf.config import HfConfig
from regard.models.hf.model import HfSeq2Seq, KeyValueCache
from regard.models.hf.probing import PROBE_SOURCE, ProbedModel, make_cache, run_decoder
from regard.text.tokenizers.pretrained import PretrainedTokenizer
from regard.text.vocabulary import BOS, UNK
from regard.types import Float, Int, Tensor

__all__ = ["LibraryAttentionSeq2Seq"]

_log = logging.getLogger(__name__)

CACHE_TOLERANCE = 1e-3
"""Largest difference of the probe's logits with and without the cache, relative to the largest logit."""


@dataclass(frozen=True)
class LibraryState(BatchedState):
    """The state of the decoder: its input so far, and the library's cache of the self-attention.

    Attributes:
        decoder_ids: The ids, in transformers, of the prefix, without the last token.
        caches: The cache of each layer; empty if none is used.
    """

    decoder_ids: Int[Tensor, "B T"]
    caches: tuple[KeyValueCache, ...]


class LibraryAttentionSeq2Seq(HfSeq2Seq):
    """A model whose attention to the source is computed by transformers; see `HfSeq2Seq` for the arguments.

    Raises:
        ConfigError: if another attention mechanism is requested.
    """

    def __init__(
        self,
        probed: ProbedModel,
        config: HfConfig,
        source: PretrainedTokenizer,
        target: PretrainedTokenizer,
        start: Sequence[int],
        constraints: GenerationConstraints,
        new: Sequence[str] = (),
    ) -> None:
        """Probe the attention and the cache of the library for this model."""
        kind = type(probed.model).__name__
        if config.attention != SoftAttentionConfig() or config.attention_layers:
            raise ConfigError(
                f"model.attention: {kind} does not use the attention interface of transformers for attention "
                "to the source, so that it cannot be replaced: remove model.attention and attention_layers"
            )
        super().__init__(probed, config, source, target, start, constraints, new)
        # Only explicitly computed attention has weights to return.
        with quiet_transformers():
            probed.model.set_attn_implementation("eager")
        self.has_attention_maps, self.has_self_attention = self._probe_weights()
        self.uses_cache = self._probe_cache()

    def _run_eval(self, run: Callable[[], Any]) -> Any:
        """Return the result of a function that is called in evaluation mode."""
        training = self.model.training
        self.model.eval()
        with torch.no_grad(), quiet_transformers():
            found = run()
        self.model.train(training)
        return found

    def _probe_ids(self) -> Int[Tensor, "1 S"]:
        """Return `PROBE_SOURCE` ids, for either side."""
        return self.token_ids[UNK].expand(1, PROBE_SOURCE).clone()

    def _probe_weights(self) -> tuple[bool, bool]:
        """Return whether the library returns attention to the source, and self-attention of both sides."""
        ids = self._probe_ids()

        def run() -> tuple[Any, Any]:
            encoded = self.model.get_encoder()(input_ids=ids, output_attentions=True)
            states = encoded.last_hidden_state
            options = {"input_ids": ids, "output_attentions": True}
            return encoded, run_decoder(self.probed, states, None, ids[:, :2], **options)

        encoded, output = self._run_eval(run)
        crosses, decoder, encoder = (
            {tuple(layer.shape[-2:]) for layer in getattr(found, name, None) or () if layer is not None}
            for found, name in (
                (output, "cross_attentions"),
                (output, "decoder_attentions"),
                (encoded, "attentions"),
            )
        )
        # Other shapes are not one weight for each pair of positions (local attention, several streams).
        maps = crosses == {(2, PROBE_SOURCE)}
        return maps, maps and decoder == {(2, 2)} and encoder == {(PROBE_SOURCE, PROBE_SOURCE)}

    def _probe_cache(self) -> bool:
        """Return whether the model runs with a cache; log a warning if the cache changes its logits."""
        ids = self._probe_ids()

        def difference() -> float:
            states = self.model.get_encoder()(input_ids=ids).last_hidden_state
            mask, cache = torch.ones_like(ids), make_cache()
            whole = run_decoder(self.probed, states, mask, ids[:, :3], input_ids=ids).logits[:, -1]
            steps: list[Tensor] = []
            for t in range(3):
                output = run_decoder(self.probed, states, mask, ids[:, t : t + 1], cache)
                steps.append(output.logits[:, -1])
                # Between steps, search keeps the keys and values only.
                cache = self._restore(*self._store(cache))
            return float((whole - steps[-1]).abs().max() / whole.abs().max())

        try:
            found = self._run_eval(difference)
        except Exception:  # the library has no common error for this
            return False
        if found > CACHE_TOLERANCE:
            _log.warning(
                "%s: the library's logits differ with and without its cache; translations are those of "
                "`generate`, which uses the cache, but their scores differ from those of forced decoding",
                type(self.model).__name__,
            )
        return True

    @staticmethod
    def _store(cache: Any) -> tuple[tuple[KeyValueCache, ...], tuple[KeyValueCache, ...]]:
        """Return the keys and values of a cache: those of self-attention, and those of cross-attention."""
        own, cross = (
            tuple(KeyValueCache(layer.keys, layer.values) for layer in part.layers)
            for part in (cache.self_attention_cache, cache.cross_attention_cache)
        )
        return own, cross

    @staticmethod
    def _restore(own: Sequence[Any], cross: Sequence[Any]) -> Any:
        """Return a cache with the given keys and values."""
        cache = make_cache()
        parts = (cache.self_attention_cache, own), (cache.cross_attention_cache, cross)
        for part, layers in parts:
            for layer, one in enumerate(layers):
                part.update(one.keys, one.values, layer)
        for layer in range(len(cross)):
            cache.is_updated[layer] = True
        return cache

    # --- search ---------------------------------------------------------------------------------------

    def begin(
        self,
        source: PaddedSequences,
        upper: Float[Tensor, "B S"] | None = None,
        lower: Float[Tensor, "B S"] | None = None,
    ) -> tuple[Memories, LibraryState]:
        """Encode the source sentences; see `TranslationModel.begin`. Fertilities have no effect."""
        # In the encoder's order, which the decoder expects.
        states = self.layout.run(self.model.get_encoder(), source).last_hidden_state
        order = self.layout.from_encoder_order(source)
        memory = SourceMemory(states, source.mask, ids=self.layout.ids(source), order=order)
        before = self.decoder_ids(torch.full_like(source.tokens[:, :1], BOS))[:, :-1]
        if not self.uses_cache:
            return (memory,), LibraryState(before, ())
        cache = make_cache()
        # The decoder runs on the start symbol to compute the cross-attention's keys and values.
        ids = self.decoder_ids(torch.full_like(source.tokens[:, :1], BOS))
        run_decoder(self.probed, states, source.mask.long(), ids, cache)
        own, cross = self._store(cache)
        length = before.shape[1]
        own = tuple(KeyValueCache(one.keys[:, :, :length], one.values[:, :, :length]) for one in own)
        return (replace(memory, layers=cross),), LibraryState(before, own)

    def step(self, tokens: Int[Tensor, "B"], memories: Memories, state: BatchedState) -> Prediction:
        """Predict the next token; see `TranslationModel.step`."""
        assert isinstance(state, LibraryState) and isinstance(memories[0], SourceMemory)
        memory, new = memories[0], self.token_ids[tokens].unsqueeze(1)
        ids, cache = torch.cat([state.decoder_ids, new], dim=1), None
        mask, caches = memory.mask.long(), state.caches
        if self.uses_cache:
            cache = self._restore(caches, memory.layers)
        options = {"input_ids": memory.ids, "output_attentions": self.has_attention_maps}
        output = run_decoder(
            self.probed, memory.states, mask, ids if cache is None else new, cache, **options
        )
        if cache is not None:
            caches = self._store(cache)[0]
        steps = tuple(_attention_step(layer[:, :, -1], memory) for layer in self._cross_attentions(output))
        return Prediction(self.our_log_probs(output.logits[:, -1]), None, steps, LibraryState(ids, caches))

    def update(
        self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]
    ) -> LibraryState:
        """Return the state of the continued hypotheses; see `TranslationModel.update`."""
        return select_rows(prediction.state, rows)

    def _cross_attentions(self, output: Any) -> tuple[Float[Tensor, "B H T S"], ...]:
        """Return the weights of all layers in the encoder's order; none if there are no maps."""
        return tuple(output.cross_attentions) if self.has_attention_maps else ()

    # --- training -------------------------------------------------------------------------------------

    def forward(
        self, batch: Batch, mean_log_probs: bool = False, output_attentions: OutputAttentions = "source"
    ) -> ForwardOutput:
        """Compute the log-likelihoods of the targets; see `TranslationModel.forward`."""
        assert batch.target is not None
        target, source, before = batch.target, batch.source, len(self.start) - 1
        shown = output_attentions != "nothing" and self.has_attention_maps
        every = output_attentions == "all" and self.has_self_attention
        encoded = self.layout.run(self.model.get_encoder(), source, output_attentions=every)
        output = run_decoder(
            self.probed,
            encoded.last_hidden_state,
            source.mask.long(),
            self.decoder_ids(shift_right(target.tokens)),
            input_ids=self.layout.ids(source),  # FSMT is not causal without them
            output_attentions=shown or every,
        )
        log_likelihoods, means = self.score_logits(output.logits, target, mean_log_probs)
        order = self.layout.from_encoder_order(source)
        crosses = self._cross_attentions(output) if shown else ()
        weights = tuple(_reorder(one, order)[:, :, before:].transpose(1, 2).float() for one in crosses)
        own = (one[:, :, before:, before:] for one in output.decoder_attentions) if every else ()
        others = (self.layout.reorder_attention(source, one) for one in encoded.attentions) if every else ()
        return replace(
            ForwardOutput.with_one_context(log_likelihoods, means, target.mask),
            cross_attentions=weights,
            posteriors=weights,
            encoder_attentions=tuple(others),
            decoder_attentions=tuple(own),
        )


@dataclass(frozen=True)
class SourceMemory(Memory):
    """The encoder's states in the encoder's order.

    Attributes:
        ids: [B, S], the encoder's input.
        order: [B, S], the encoder's position of each position in our order.
        layers: The keys and values of each layer's cross-attention; empty if no cache is used.
    """

    ids: Int[Tensor, "B S"] | None = None
    order: Int[Tensor, "B S"] | None = None
    layers: tuple[KeyValueCache, ...] = ()


def _reorder(weights: Float[Tensor, "B H T S"], order: Int[Tensor, "B S"]) -> Float[Tensor, "B H T S"]:
    """Return weights in our order of the source positions."""
    return weights.gather(3, order[:, None, None].expand_as(weights))


def _attention_step(weights: Float[Tensor, "B H S"], memory: SourceMemory) -> AttentionStep:
    """Return the attention of a step as an `AttentionStep`, whose context is not used."""
    assert memory.order is not None
    ours = _reorder(weights.float().unsqueeze(2), memory.order)[:, :, 0]
    context = memory.states.new_zeros(len(ours), memory.states.shape[2])
    return AttentionStep.with_one_context(context.unsqueeze(1), ours, State(ours, context))
