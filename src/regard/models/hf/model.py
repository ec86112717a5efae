"""A Hugging Face sequence-to-sequence model as a `TranslationModel`.

The encoder, decoder and output layer are those of transformers. Cross-attention is computed by our attention
mechanisms, for each head (`regard.models.hf.layers`), so that search, scoring, reports and training work as
with our own models, and another mechanism can replace softmax. Queries, keys and values are those of the
model.

The output layer has the vocabulary of transformers; log-probabilities are converted to our ids. In contrast
to some models of transformers, there is no dropout on cross-attention weights in training.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from regard.attention.base import EosConstraint
from regard.attention.multihead import MultiHeadAttention
from regard.attention.registry import AttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.data.batch import Batch, PaddedSequences
from regard.data.hf import convert_errors
from regard.data.tokenizers.pretrained import PretrainedTokenizer
from regard.data.vocabulary import BOS, EOS, PAD, SINK, UNK
from regard.errors import ConfigError, InfeasibleBoundsError
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
from regard.models.hf.config import HfConfig
from regard.models.hf.layers import (
    LAYER_ATTRIBUTE,
    AttentionSession,
    CrossAttentionProbe,
    InputLayout,
    layer_groups,
    use_regard_attention,
    use_session,
)
from regard.models.hf.loading import count_multiply_adds, max_positions
from regard.models.output import score_logits
from regard.models.stack import PendingStack, StackState, continue_state
from regard.types import Float, Int, Tensor

__all__ = ["HfSeq2Seq"]

NEG_INF = -float("inf")


@dataclass(frozen=True)
class KeyValueCache(BatchedState):
    """The self-attention cache of a decoder layer, [B, H, T, E]."""

    keys: Float[Tensor, "B H T E"]
    values: Float[Tensor, "B H T E"]


class _IdentityProjection(nn.Module):
    """The identity, instead of a projection that the model has already applied.

    Args:
        width: D.
    """

    def __init__(self, width: int) -> None:
        """Create an empty weight."""
        super().__init__()
        self.weight = torch.empty(0, width)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Return x."""
        return x


class HfSeq2Seq(TranslationModel):
    """A sequence-to-sequence model of transformers.

    Args:
        model: A model with encoder, decoder and output layer, from an auto class of transformers.
        config: The attention mechanisms.
        source: The source tokenizer.
        target: The target tokenizer.
        start: The ids, in transformers, of the prefix of every translation; the last one is our start symbol.
        constraints: The constraints that the model directory prescribes.
        new: Name prefixes of the parameters that are not pre-trained.

    Raises:
        ConfigError: if cross-attention is not accessible in the model, or the model has fewer layers than the
            config refers to.
    """

    def __init__(
        self,
        model: Any,
        config: HfConfig,
        source: PretrainedTokenizer,
        target: PretrainedTokenizer,
        start: Sequence[int],
        constraints: GenerationConstraints,
        new: Sequence[str] = (),
    ) -> None:
        """Find the cross-attention layers."""
        super().__init__()
        use_regard_attention(model)
        for part in model.modules():
            if "Sinusoidal" in type(part).__name__:
                part.requires_grad_(False)  # computed positions, although they are stored as parameters
        self.model, self.config, self.new = model, config, tuple(f"model.{name}" for name in new)
        self.layout = InputLayout.of(source)
        self.start = tuple(start)
        self._given = constraints
        token_ids = torch.tensor(target.library_ids)
        # Our BOS is the last token of the prefix.
        token_ids[BOS] = self.start[-1]
        # `generatable`: our tokens that the model can generate. Padding, start and sink symbols never are.
        generatable = torch.ones(len(token_ids), dtype=torch.bool)
        generatable[[PAD, BOS, SINK]] = False
        # Some tokenizers have no unknown symbol and map it to another special one.
        generatable[UNK] = target.library_ids[UNK] not in (target.library_ids[EOS], target.library_ids[PAD])
        self.register_buffer("token_ids", token_ids, persistent=False)
        self.register_buffer("generatable", generatable, persistent=False)
        head_sizes = self._probe()
        chosen = _selected_layers(config, len(head_sizes))
        self.mechanisms = nn.ModuleList(
            _mechanism(config.attention if layer in chosen else SoftAttentionConfig(), *one)
            for layer, one in enumerate(head_sizes)
        )

    token_ids: Tensor
    generatable: Tensor

    @torch.no_grad()
    def _probe(self) -> list[tuple[int, int]]:
        """Return the number of heads and the head size of each cross-attention layer, and number the layers.

        Runs the decoder once on a source of a length that the target does not have.
        """
        # The source has 5 tokens and the target 2, so lengths identify cross-attention.
        probe, training = CrossAttentionProbe(5), self.model.training
        device = next(self.model.parameters()).device
        ids, decoder_ids = (
            torch.zeros(1, size, dtype=torch.long, device=device) for size in (probe.source, 2)
        )
        self.model.eval()
        kind = type(self.model).__name__
        with convert_errors(ConfigError, f"{kind}: the model cannot be used for step-by-step decoding"):
            states = self.model.get_encoder()(input_ids=ids).last_hidden_state
            with use_session(probe):
                self._decode(states, None, decoder_ids, None)
        self.model.train(training)
        if not probe.found:
            raise ConfigError(
                f"{kind}: its cross-attention is not accessible, because the model does not use the "
                "attention interface of transformers"
            )
        for layer, (module, _, _) in enumerate(probe.found):
            setattr(module, LAYER_ATTRIBUTE, layer)
        return [(heads, width) for _, heads, width in probe.found]

    def _mechanisms(self) -> list[MultiHeadAttention]:
        return [mechanism for mechanism in self.mechanisms if isinstance(mechanism, MultiHeadAttention)]

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens, given by the position embeddings; see `TranslationModel.max_length`."""
        found = [max_positions(part) for part in (self.model.get_encoder(), self.model.get_decoder())]
        known = [one for one in found if one is not None]
        # The maximum includes one special symbol per side; further ones take positions too.
        return min(known) - max(self.layout.num_special - 1, len(self.start) - 1, 0) if known else None

    @property
    def constraints(self) -> GenerationConstraints:
        """The constraints of the model directory; see `TranslationModel.constraints`."""
        return self._given

    @property
    def scales_embeddings(self) -> bool:
        """Whether source embeddings can be scaled: always; see `TranslationModel.scales_embeddings`."""
        return True

    def pretrained_layers(self) -> tuple[tuple[str, ...], ...]:
        """Return the decoder's and encoder's layers, without new cross-attention; see `TranslationModel`."""
        parts = [self.model.get_decoder(), self.model.get_encoder()]
        return layer_groups(self, parts, (*self.new, "mechanisms."))

    def _decode(
        self,
        states: Tensor,
        mask: Tensor | None,
        decoder_ids: Int[Tensor, "B T"],
        cache: Any,
        use_cache: bool = False,
    ) -> Any:
        """Run the decoder on the encoder's states."""
        from transformers.modeling_outputs import BaseModelOutput

        return self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=mask,
            decoder_input_ids=decoder_ids,
            past_key_values=cache,
            use_cache=use_cache,
            return_dict=True,
        )

    def _decoder_ids(self, first: Int[Tensor, "B T"]) -> Int[Tensor, "B N"]:
        """Convert our ids to those of transformers, and prepend the prefix of translations."""
        ids = self.token_ids[first]
        before = torch.tensor(self.start[:-1], device=ids.device, dtype=ids.dtype)
        return torch.cat([before.expand(len(ids), -1), ids], dim=1)

    # --- search ---------------------------------------------------------------------------------------

    def begin(
        self,
        source: PaddedSequences,
        upper: Float[Tensor, "B S"] | None = None,
        lower: Float[Tensor, "B S"] | None = None,
    ) -> tuple[Memories, StackState]:
        """Encode the source sentences; see `TranslationModel.begin`.

        The decoder runs once on the start symbol, so that its layers compute their keys and values.
        """
        states = self.layout.encode(self.model.get_encoder(), source)
        session = AttentionSession(self._mechanisms(), source.mask, upper, lower)
        cache, before = self._cache(), len(self.start) - 1
        with use_session(session):
            decoder_ids = self._decoder_ids(torch.full_like(source.tokens[:, :1], BOS))
            self._decode(states, source.mask.long(), decoder_ids, cache, use_cache=True)
        layers = range(len(self.mechanisms))
        memories = tuple(replace(session.memories[layer], states=states) for layer in layers)
        mechanisms = zip(self._mechanisms(), memories, strict=True)
        past = tuple(
            KeyValueCache(layer.keys[:, :, :before], layer.values[:, :, :before])
            for layer in cache.self_attention_cache.layers
        )
        return memories, StackState(past, tuple(mechanism.start(memory) for mechanism, memory in mechanisms))

    def _cache(self, past: Sequence[KeyValueCache] = (), rows: int = 0) -> Any:
        """Return a transformers cache of the target prefix, with placeholders for cross-attention."""
        from transformers import DynamicCache, EncoderDecoderCache

        own, other = DynamicCache(), DynamicCache()
        for layer, one in enumerate(past):
            own.update(one.keys, one.values, layer)
            # Our mechanisms have the keys in their memories; transformers only checks that some are cached.
            empty = one.keys.new_zeros(1, 1, 1, 1).expand(rows, one.keys.shape[1], 1, one.keys.shape[3])
            other.update(empty, empty, layer)
        return EncoderDecoderCache(own, other)

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
        past = [one for one in state.caches if isinstance(one, KeyValueCache)]
        cache = self._cache(past, len(tokens))
        with use_session(session):
            # A single source state instead of all: keys and values are already in the memories.
            output = self._decode(
                memories[0].states[:, :1], None, self.token_ids[tokens].unsqueeze(1), cache, use_cache=True
            )
        log_probs = torch.log_softmax(output.logits[:, -1].float(), dim=-1)
        # From the vocabulary of transformers to ours.
        our_log_probs = log_probs[:, self.token_ids].masked_fill(~self.generatable, NEG_INF)
        caches = tuple(KeyValueCache(layer.keys, layer.values) for layer in cache.self_attention_cache.layers)
        attention_steps = tuple(session.attention_steps[layer] for layer in range(len(self.mechanisms)))
        mechanisms = zip(self._mechanisms(), memories, state.attentions, strict=True)
        eos_constraint = EosConstraint.combine(
            [mechanism.eos_constraint(memory, before) for mechanism, memory, before in mechanisms]
        )
        return Prediction(our_log_probs, None, attention_steps, PendingStack(caches), eos_constraint)

    def update(self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]) -> StackState:
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
        with use_session(session):
            states = self.layout.encode(self.model.get_encoder(), source)
            encoder_attentions = [
                self.layout.reorder_attention(source, weights) for weights in session.self_attentions
            ]
            session.self_attentions.clear()
            shifted = shift_right(target.tokens)
            try:
                output = self._decode(states, source.mask.long(), self._decoder_ids(shifted), None)
            except InfeasibleBoundsError as error:
                raise name_infeasible_sentence(batch, error) from None
        # The first `before` positions belong to the prefix and are not scored.
        logits = output.logits[:, before:][target.mask].float()  # (N, V)
        target_ids = self.token_ids[target.tokens[target.mask]]
        log_likelihoods, means = score_logits(logits, target_ids, target.mask, mean_log_probs)
        steps = [session.attention_steps[layer] for layer in sorted(session.attention_steps)]
        shown = [] if output_attentions == "nothing" else steps
        # If a mechanism computes no posterior, its posterior is its prior.
        posteriors = (one.weights if one.posteriors is None else one.posteriors for one in shown)
        penalty = sum((one.penalty[:, before:] for one in steps), torch.zeros_like(log_likelihoods[..., 0]))
        return replace(
            ForwardOutput.with_one_context(log_likelihoods, means, target.mask, penalty),
            cross_attentions=tuple(one.weights[:, before:] for one in shown),
            posteriors=tuple(one[:, before:] for one in posteriors),
            encoder_attentions=tuple(encoder_attentions),
            decoder_attentions=tuple(weights[:, :, before:, before:] for weights in session.self_attentions),
        )

    def flops(self, batch: Batch) -> float:
        """Return the operations of one training step; see `TranslationModel.flops`."""
        assert batch.target is not None
        multiply_adds = count_multiply_adds(self.model.get_encoder(), batch.source.lengths, causal=False)
        multiply_adds += count_multiply_adds(self.model.get_decoder(), batch.target.lengths, causal=True)
        pairs = int((batch.source.lengths.double() * batch.target.lengths).sum())
        words, tokens = int(batch.source.lengths.sum()), batch.target_tokens
        multiply_adds += sum(
            mechanism.count_multiply_adds(words, tokens, pairs) for mechanism in self._mechanisms()
        )
        return 6.0 * (multiply_adds + tokens * self.model.get_output_embeddings().weight.numel())


def _selected_layers(config: HfConfig, count: int) -> set[int]:
    """Return the layers that use the mechanism of the config."""
    if (
        config.attention_layers
        and not -count <= min(config.attention_layers) <= max(config.attention_layers) < count
    ):
        raise ConfigError(
            f"model.attention_layers = {list(config.attention_layers)}: the decoder has layers 0 to "
            f"{count - 1}; use these numbers, or negative ones, where -1 is the last"
        )
    return {layer % count for layer in config.attention_layers} or set(range(count))


def _mechanism(config: AttentionConfig, heads: int, head_size: int) -> MultiHeadAttention:
    """Return a multi-head mechanism without projections."""
    if getattr(config, "score_function", "none") is None:
        config = replace(config, score_function="dot")  # the model's queries are already scaled
    width = heads * head_size
    mechanism = MultiHeadAttention(config, width, width, heads)
    for name in ("query_proj", "key_value_proj", "out_proj"):
        setattr(mechanism, name, _IdentityProjection(width))
    return mechanism
