"""A Hugging Face sequence-to-sequence model as a `TranslationModel`.

The encoder, decoder and output layer are those of transformers. No kind of model is known by name: a model is
run on a few tokens, and must use the attention interface of the library for attention to the source, its
cross-attention. Cross-attention is computed by our attention mechanisms, for each head
(`regard.extensions.hf.attention_session`), so that search, scoring, reports and training work as with our own
models, and another mechanism can replace softmax. Queries, keys and values are those of the model.

The output layer has the vocabulary of transformers; log-probabilities are converted to our ids. In contrast
to some models of transformers, there is no dropout on cross-attention weights in training.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import nn

from regard.attention.base import EosConstraint
from regard.attention.multihead import MultiHeadAttention
from regard.attention.registry import AttentionConfig, attention_class, with_default_score_function
from regard.attention.scored import ScorerAttention
from regard.attention.scorers import AttentionScorer
from regard.attention.soft import SoftAttentionConfig
from regard.config import configclass, option
from regard.data.batch import Batch, PaddedSequences
from regard.errors import ConfigError, InfeasibleBoundsError
from regard.extensions.hf.attention_session import (
    LAYER_ATTRIBUTE,
    AttentionSession,
    CrossAttention,
    CrossAttentionProbe,
    use_regard_attention,
    use_session,
)
from regard.extensions.hf.files import convert_errors, quiet_transformers
from regard.extensions.hf.layouts import InputLayout, KeysValues, TargetVocabulary
from regard.extensions.hf.loading import max_positions
from regard.extensions.hf.tokenizer import PretrainedTokenizer
from regard.layers.batched_state import BatchedState
from regard.models.base import (
    ForwardOutput,
    GenerationConstraints,
    Memories,
    OutputAttentions,
    Prediction,
    TranslationModel,
    name_infeasible_sentence,
    shift_right,
)
from regard.models.stack import StackState, continue_state
from regard.text.vocabulary import BOS, EOS
from regard.types import Float, Int, Tensor

PROBE_SOURCE, PROBE_TARGET = 5, 2
"""Numbers of tokens in a probe. They differ, so that lengths identify cross-attention."""


class _IdentityProjection(nn.Identity):
    """The identity, instead of a projection to D values that the model has already applied."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.empty(0, width)


@configclass
class HfConfig:
    """A Hugging Face sequence-to-sequence model."""

    kind: Literal["hf"] = option(default="hf", help="A Hugging Face model; requires the extra `hf`.")
    path: str = option(help="Directory of a sequence-to-sequence model (Marian, BART, T5, ...).")
    attention: AttentionConfig = option(
        default=SoftAttentionConfig,
        help="Attention mechanism of the layers in `attention_layers`: soft (with softmax, the pre-trained "
        "one), coverage or constrained.",
    )
    attention_layers: tuple[Annotated[int, Field(ge=-256, le=255)], ...] = option(
        default=(),
        help="Decoder layers that use [model.attention], counted from 0; -1 is the last. The other layers "
        "use softmax attention. []: all layers.",
    )

    def __post_init__(self) -> None:
        """Check that the mechanism has a single context."""
        kind = attention_class(self.attention)
        if kind.observes_tokens or kind.objective != "marginal" or kind.has_projections or kind.needs_advance:
            raise ValueError(
                f"attention {self.attention.kind!r} has several contexts, samples, or has its own "
                "projections, so it cannot be used in a Hugging Face model: use soft, constrained "
                "or coverage attention, or model.kind = 'pretrained'"
            )


class HfSeq2Seq(TranslationModel):
    """A sequence-to-sequence model of transformers with its output layer, from an auto class.

    Args:
        start: The ids, in transformers, of the prefix of every translation; the last one is our start symbol.
        constraints: The constraints that the model directory prescribes.

    Raises:
        ConfigError: if encoder and decoder cannot be run one after the other, the model does not use the
            attention interface, or it has fewer layers than the config refers to.
    """

    scales_embeddings = True

    def __init__(
        self,
        model: Any,
        config: HfConfig,
        source: PretrainedTokenizer,
        target: PretrainedTokenizer,
        start: Sequence[int],
        constraints: GenerationConstraints,
    ) -> None:
        """Build the mechanisms of the cross-attention layers."""
        super().__init__()
        for part in model.modules():
            if "Sinusoidal" in type(part).__name__:
                part.requires_grad_(False)  # computed positions, although they are stored as parameters
        self.model, self.config = model, config
        self.layout = InputLayout(source)
        self.start = tuple(start)
        self._given = constraints
        # Our BOS is the last token of the prefix.
        self.vocabulary = TargetVocabulary(target, self.start[-1], [target.library_ids[EOS]])
        use_regard_attention(model)
        cross_attentions = self._find_cross_attentions()
        chosen = _selected_layers(config, len(cross_attentions))
        self.mechanisms = nn.ModuleList(
            _mechanism(config.attention if layer in chosen else SoftAttentionConfig(), cross_attention)
            for layer, cross_attention in enumerate(cross_attentions)
        )

    @torch.no_grad()
    def _find_cross_attentions(self) -> list[CrossAttention]:
        """Run the model on a few tokens; number its cross-attention modules and return them."""
        probe = CrossAttentionProbe(PROBE_SOURCE)
        device = next(self.model.parameters()).device
        ids, decoder_ids = (
            torch.zeros(1, size, dtype=torch.long, device=device) for size in (PROBE_SOURCE, PROBE_TARGET)
        )
        self.model.eval()
        message = f"{type(self.model).__name__}: the model cannot be used for step-by-step decoding"
        with convert_errors(ConfigError, message), quiet_transformers():
            encoded = self.model.get_encoder()(input_ids=ids)
            self._encoder_output = type(encoded)
            with use_session(probe):
                self._run_decoder(encoded.last_hidden_state, None, decoder_ids)
            if not probe.found:
                raise ValueError(
                    "its attention to the source does not use the attention interface of transformers"
                )
        for layer, cross_attention in enumerate(probe.found):
            setattr(cross_attention.module, LAYER_ATTRIBUTE, layer)
        return probe.found

    def _run_decoder(
        self,
        states: Float[Tensor, "B S D"],
        mask: Int[Tensor, "B S"] | None,
        decoder_ids: Int[Tensor, "B T"],
        cache: Any = None,
    ) -> Any:
        """Run the decoder on the encoder's states, and return the output of transformers.

        The mask is 1 at source tokens; without one, there is no padding. A cache is extended.
        """
        return self.model(
            encoder_outputs=self._encoder_output(last_hidden_state=states),
            attention_mask=mask,
            decoder_input_ids=decoder_ids,
            past_key_values=cache,
            use_cache=cache is not None,
            return_dict=True,
        )

    def _mechanisms(self) -> list[MultiHeadAttention]:
        return [mechanism for mechanism in self.mechanisms if isinstance(mechanism, MultiHeadAttention)]

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens, given by the position embeddings; see `TranslationModel.max_length`."""
        parts = (self.model.get_encoder(), self.model.get_decoder())
        limits = [limit for part in parts if (limit := max_positions(part)) is not None]
        # The maximum includes one special symbol per side; further ones take positions too.
        return min(limits) - max(self.layout.num_special - 1, len(self.start) - 1, 0) if limits else None

    @property
    def constraints(self) -> GenerationConstraints:
        """The constraints of the model directory; see `TranslationModel.constraints`."""
        return self._given

    def pretrained_parameters(self) -> tuple[str, ...]:
        """Return all but those of mechanisms; see `TranslationModel.pretrained_parameters`."""
        return tuple(name for name, _ in self.named_parameters() if not name.startswith("mechanisms."))

    def decoder_ids(self, first: Int[Tensor, "B T"]) -> Int[Tensor, "B N"]:
        """Convert our ids to those of transformers, and prepend the prefix of translations."""
        ids = self.vocabulary.token_ids[first]
        before = torch.tensor(self.start[:-1], device=ids.device, dtype=ids.dtype)
        return torch.cat([before.expand(len(ids), -1), ids], dim=1)

    # --- search ---------------------------------------------------------------------------------------

    def begin(
        self,
        source: PaddedSequences,
        upper: Float[Tensor, "B S"] | None = None,
        lower: Float[Tensor, "B S"] | None = None,
    ) -> tuple[Memories, BatchedState]:
        """Encode the source sentences; see `TranslationModel.begin`.

        The decoder runs once on the start symbol, so that its layers compute their keys and values.
        """
        states, _ = self.layout.encode(self.model.get_encoder(), source)
        session = AttentionSession(self._mechanisms(), source.mask, upper, lower)
        cache, before = self._cache(), len(self.start) - 1
        with use_session(session):
            decoder_ids = self.decoder_ids(torch.full_like(source.tokens[:, :1], BOS))
            self._run_decoder(states, source.mask.long(), decoder_ids, cache)
        layers = range(len(self.mechanisms))
        memories = tuple(replace(session.memories[layer], states=states) for layer in layers)
        mechanisms = zip(self._mechanisms(), memories, strict=True)
        past = tuple(
            KeysValues(layer.keys[:, :, :before], layer.values[:, :, :before])
            for layer in cache.self_attention_cache.layers
        )
        return memories, StackState(past, tuple(mechanism.start(memory) for mechanism, memory in mechanisms))

    def _cache(self, past: Sequence[KeysValues] = (), rows: int = 0) -> Any:
        """Return a transformers cache of the target prefix, with placeholders for cross-attention."""
        from transformers import DynamicCache, EncoderDecoderCache

        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        for layer, layer_past in enumerate(past):
            cache.self_attention_cache.update(layer_past.keys, layer_past.values, layer)
            # Our mechanisms have the keys in their memories; transformers only checks that some are cached.
            empty = layer_past.keys.new_zeros(1, 1, 1, 1).expand(
                rows, layer_past.keys.shape[1], 1, layer_past.keys.shape[3]
            )
            cache.cross_attention_cache.update(empty, empty, layer)
            cache.is_updated[layer] = True
        return cache

    def step(self, tokens: Int[Tensor, "B"], memories: Memories, state: BatchedState) -> Prediction:
        """Predict the next token; see `TranslationModel.step`."""
        assert isinstance(state, StackState)
        session = AttentionSession(
            self._mechanisms(),
            memories[0].mask,
            is_step=True,
            memories=dict(enumerate(memories)),
            states=dict(enumerate(state.attentions)),
        )
        past = [layer_past for layer_past in state.caches if isinstance(layer_past, KeysValues)]
        cache = self._cache(past, len(tokens))
        with use_session(session):
            # A single source state instead of all: keys and values are already in the memories.
            decoder_ids = self.vocabulary.token_ids[tokens].unsqueeze(1)
            output = self._run_decoder(memories[0].states[:, :1], None, decoder_ids, cache)
        log_probs = self.vocabulary.log_probs(output.logits[:, -1])
        caches = tuple(KeysValues(layer.keys, layer.values) for layer in cache.self_attention_cache.layers)
        attention_steps = tuple(session.attention_steps[layer] for layer in range(len(self.mechanisms)))
        mechanisms = zip(self._mechanisms(), memories, state.attentions, strict=True)
        eos_constraint = EosConstraint.combine(
            [mechanism.eos_constraint(memory, before) for mechanism, memory, before in mechanisms]
        )
        return Prediction(log_probs, None, attention_steps, StackState(caches), eos_constraint)

    def update(
        self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]
    ) -> BatchedState:
        """Return the state of the continued hypotheses; see `TranslationModel.update`."""
        return continue_state(prediction, rows, tokens, observes=False)

    # --- training -------------------------------------------------------------------------------------

    def forward(
        self, batch: Batch, mean_log_probs: bool = False, output_attentions: OutputAttentions = "source"
    ) -> ForwardOutput:
        """Compute the log-likelihoods of the targets; see `TranslationModel.forward`."""
        assert batch.target is not None
        target, source, before = batch.target, batch.source, len(self.start) - 1
        session = AttentionSession(
            self._mechanisms(), source.mask, batch.upper_bounds, batch.lower_bounds, output_attentions
        )
        states, encoder_attentions = self.layout.encode(
            self.model.get_encoder(), source, output_attentions == "all"
        )
        shifted = shift_right(target.tokens)
        with use_session(session):
            try:
                output = self._run_decoder(states, source.mask.long(), self.decoder_ids(shifted))
            except InfeasibleBoundsError as error:
                raise name_infeasible_sentence(batch, error) from None
        # The first positions belong to the prefix and are not scored.
        logits = output.logits[:, before:]
        log_likelihoods, means = self.vocabulary.score(logits, target, mean_log_probs)
        steps = [session.attention_steps[layer] for layer in sorted(session.attention_steps)]
        output_steps = [] if output_attentions == "nothing" else steps
        # If a mechanism computes no posterior, its posterior is its prior.
        posteriors = (step.weights if step.posteriors is None else step.posteriors for step in output_steps)
        penalty = sum((step.penalty[:, before:] for step in steps), torch.zeros_like(log_likelihoods[..., 0]))
        return replace(
            ForwardOutput.with_one_context(log_likelihoods, means, target.mask, penalty),
            cross_attentions=tuple(step.weights[:, before:] for step in output_steps),
            posteriors=tuple(posterior[:, before:] for posterior in posteriors),
            encoder_attentions=tuple(encoder_attentions),
            decoder_attentions=tuple(weights[:, :, before:, before:] for weights in session.self_attentions),
        )


def _selected_layers(config: HfConfig, count: int) -> set[int]:
    """Return the layers that use the mechanism of the config."""
    if any(not -count <= layer < count for layer in config.attention_layers):
        raise ConfigError(
            f"model.attention_layers = {list(config.attention_layers)}: the decoder has layers 0 to "
            f"{count - 1}; use these numbers, or negative ones, where -1 is the last"
        )
    return {layer % count for layer in config.attention_layers} or set(range(count))


class SoftcapScorer(AttentionScorer):
    """c tanh(z / c) of the scores z of another scorer, as in Gemma 2 (Gemma Team, 2024, Section 2).

    Args:
        scorer: The scorer that computes z.
        softcap: c, the largest magnitude of a score.
    """

    def __init__(self, scorer: AttentionScorer, softcap: float) -> None:
        """Keep the scorer."""
        super().__init__(scorer.width, scorer.width)
        self.scorer, self.softcap = scorer, softcap

    def compute_keys(self, states: Float[Tensor, "B S D"]) -> BatchedState:
        """Return the keys of the scorer."""
        return self.scorer.compute_keys(states)

    def forward(self, queries: Float[Tensor, "B T Q"], keys: BatchedState) -> Float[Tensor, "B T S"]:
        """Compute the capped score of every source position for each query."""
        return self.softcap * torch.tanh(self.scorer(queries, keys) / self.softcap)


def _mechanism(config: AttentionConfig, cross_attention: CrossAttention) -> MultiHeadAttention:
    """Return a multi-head mechanism without projections."""
    config = with_default_score_function(config, "dot")  # the model's queries are already scaled
    width = cross_attention.num_heads * cross_attention.head_size
    mechanism = MultiHeadAttention(config, width, width, cross_attention.num_heads)
    for name in ("query_proj", "key_value_proj", "out_proj"):
        setattr(mechanism, name, _IdentityProjection(width))
    inner = mechanism.mechanism
    if cross_attention.softcap is not None and isinstance(inner, ScorerAttention):
        inner.scorer = SoftcapScorer(inner.scorer, cross_attention.softcap)
    return mechanism
