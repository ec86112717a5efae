"""A decoder-only Hugging Face model as a `TranslationModel`.

The model continues a prompt that contains the source sentence (`regard.extensions.hf.prompt_tokenizer`).
Search, sampling and scores are ours; the model and its key-value cache are those of transformers. Prompts are
encoded once, and hypotheses of a sentence share the keys and values of its prompt.

The attention of a time step is the self-attention of the position that predicts the token, restricted to the
prompt (`PromptLayout`). If the model has several end symbols, or if a line break ends a translation, the end
has the highest probability among these tokens, as in greedy search of transformers.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch

from regard.attention.base import AttentionStep, Memory, State
from regard.attention.soft import SoftAttentionConfig
from regard.config import configclass, option
from regard.data.batch import Batch, PaddedSequences
from regard.errors import ConfigError
from regard.extensions.hf.attention_session import AttentionSession, use_regard_attention, use_session
from regard.extensions.hf.files import convert_errors
from regard.extensions.hf.layouts import KeysValues, PromptLayout, TargetVocabulary, scaled_embeddings
from regard.extensions.hf.prompt_tokenizer import PromptTokenizer
from regard.layers.batched_state import BatchedState, select_rows
from regard.models.base import (
    ForwardOutput,
    GenerationConstraints,
    Memories,
    OutputAttentions,
    Prediction,
    TranslationModel,
)
from regard.text.vocabulary import BOS
from regard.types import Bool, Float, Int, Tensor

_LIMITS = ("max_position_embeddings", "n_positions", "max_seq_len")


@dataclass(frozen=True)
class PromptMemory(Memory):
    """The encoded prompts.

    Attributes:
        prompts: The keys and values of each layer for all tokens of the prompt but the last one.
        prompt_mask: [B, P], True at the tokens of the prompt.
    """

    prompts: tuple[KeysValues, ...] = ()
    prompt_mask: Bool[Tensor, "B P"] | None = None


@dataclass(frozen=True)
class CausalState(BatchedState):
    """The state of the hypotheses.

    Attributes:
        caches: The keys and values of each layer for the last token of the prompt and the generated tokens.
        last: [B], the library's id of the last token of the prompt.
    """

    caches: tuple[KeysValues, ...]
    last: Int[Tensor, "B"]


@configclass
class LoraConfig:
    """Low-rank adaptation (Hu et al., 2022): each weight matrix W becomes W + alpha / rank * B A.

    The pre-trained weights stay fixed; only A and B are trained.
    """

    rank: int = option(default=8, help="Rank of the product B A.", ge=1, le=4_096)
    alpha: float = option(
        default=16.0, help="Scale alpha; the product is multiplied by alpha / rank.", gt=0, le=1e6
    )
    dropout: float = option(default=0.0, help="Dropout probability on the input of A.", ge=0, lt=1)
    target_modules: tuple[str, ...] = option(
        default=(),
        help="Names of the adapted layers, such as q_proj. Default: those that peft chooses for the kind of "
        "model.",
    )


@configclass
class CausalConfig:
    """A decoder-only Hugging Face model, which translates the source sentence in its prompt."""

    kind: Literal["causal"] = option(
        default="causal",
        help="A decoder-only Hugging Face model; requires the extra `hf` and the tokenizer `prompt`.",
    )
    path: str = option(help="Directory of the model (GPT-2, Llama, Qwen, Gemma, ...).")
    lora: LoraConfig | None = option(
        default=None,
        help="Fine-tuning of low-rank additions to the weights; requires the package peft. Default: all "
        "weights are trained.",
    )

    # The attention of the model is not replaced: softmax over the prompt and the translation.
    attention: ClassVar[SoftAttentionConfig] = SoftAttentionConfig()


class HfCausal(TranslationModel):
    """A decoder-only model of transformers with its output layer, from `AutoModelForCausalLM`.

    Args:
        end_ids: The library's ids that end a translation.
        constraints: The constraints that the model directory prescribes.

    Raises:
        ConfigError: if the model does not work with a cache of keys and values.
    """

    scales_embeddings = True

    def __init__(
        self,
        model: Any,
        config: CausalConfig,
        source: PromptTokenizer,
        target: PromptTokenizer,
        end_ids: Sequence[int],
        constraints: GenerationConstraints,
    ) -> None:
        """Find the limits of the model, and run it once."""
        super().__init__()
        self.model, self.config = model, config
        self.layout = PromptLayout(source.prefix_ids, source.suffix_ids)
        self._accepted = frozenset(inspect.signature(model.forward).parameters)
        self._given = constraints
        self.vocabulary = TargetVocabulary(target, target.library_ids[BOS], end_ids)
        text_config = model.config.get_text_config()
        self.context = next((limit for name in _LIMITS if (limit := getattr(text_config, name, None))), None)
        use_regard_attention(model)
        self._records = True
        self._probe()

    @torch.no_grad()
    def _probe(self) -> None:
        """Run the model once, with a cache and attention weights.

        Models that do not call the attention function that is set compute their weights themselves.
        """
        kind = type(self.model).__name__
        self.model.eval()
        ids = torch.zeros(1, 3, dtype=torch.long, device=next(self.model.parameters()).device)
        mask = torch.ones_like(ids, dtype=torch.bool)
        with convert_errors(ConfigError, f"{kind}: the model cannot be used for step-by-step decoding"):
            cache = self._cache()
            weights = self._run(ids, mask, cache, record=True)[1]
            if not weights:
                self.model.set_attn_implementation("eager")
                self._records, cache = False, self._cache()
                weights = self._run(ids, mask, cache, record=True)[1]
            if len(cache.layers) != len(weights) or any(layer.keys.shape[2] != 3 for layer in cache.layers):
                raise ValueError("it has a state other than a cache of keys and values")

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens per sentence, so that one token can follow the prompt; see the base class.

        That of a sentence and its translation together is in `constraints`.
        """
        # One token can be generated after the last token that fits into the context, and a source of
        # `max_length` tokens includes two sinks.
        return None if self.context is None else self.context - self.layout.num_tokens + 1

    @property
    def constraints(self) -> GenerationConstraints:
        """The constraints of the model directory, and the context; see `TranslationModel.constraints`."""
        if self.context is None:
            return self._given
        return replace(self._given, max_pair_length=self.context - self.layout.num_tokens + 2)

    def pretrained_parameters(self) -> tuple[str, ...]:
        """Return all parameters; none if only low-rank additions are trained."""
        return () if self.config.lora is not None else tuple(name for name, _ in self.named_parameters())

    def _run(
        self,
        ids: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B K"],
        cache: Any,
        record: bool,
        num_logits: int = 1,
    ) -> tuple[Float[Tensor, "B N V"], list[Float[Tensor, "B H T K"]]]:
        """Return the logits of the last positions, and the attention weights of all layers if requested.

        The mask is of the tokens of the cache, which is extended, and of `ids`; it is False at padding.
        """
        options: dict[str, Any] = {"input_ids": ids, "attention_mask": mask.long(), "return_dict": True}
        options |= {"past_key_values": cache, "use_cache": cache is not None}
        if "position_ids" in self._accepted:
            positions = (mask.long().cumsum(dim=1) - 1).clamp_min(0)
            options["position_ids"] = positions[:, -ids.shape[1] :]
        if "logits_to_keep" in self._accepted:
            options["logits_to_keep"] = num_logits
        if not self._records:
            output = self.model(**options, output_attentions=record)
            return output.logits[:, -num_logits:], list(output.attentions or ()) if record else []
        session = AttentionSession([], mask, output_attentions="all" if record else "nothing")
        with use_session(session):
            output = self.model(**options)
        return output.logits[:, -num_logits:], session.self_attentions

    @staticmethod
    def _cache(past: Sequence[KeysValues] = ()) -> Any:
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer, layer_past in enumerate(past):
            cache.update(layer_past.keys, layer_past.values, layer)
        return cache

    # --- search ---------------------------------------------------------------------------------------

    def begin(
        self,
        source: PaddedSequences,
        upper: Float[Tensor, "B S"] | None = None,
        lower: Float[Tensor, "B S"] | None = None,
    ) -> tuple[Memories, CausalState]:
        """Encode the prompts; see `TranslationModel.begin`."""
        prompt_ids, prompt_mask = self.layout.prompts(source, self.vocabulary.token_ids)
        cache = self._cache()
        self._run(prompt_ids, prompt_mask, cache, record=False)
        # The first step of search runs the last token again, since it needs its prediction.
        past = tuple(KeysValues(layer.keys[:, :, :-1], layer.values[:, :, :-1]) for layer in cache.layers)
        empty = tuple(KeysValues(layer.keys[:, :, :0], layer.values[:, :, :0]) for layer in past)
        states = past[0].keys.new_zeros(*source.tokens.shape, 1)
        memory = PromptMemory(states, source.mask, upper, lower, prompts=past, prompt_mask=prompt_mask)
        return (memory,), CausalState(empty, prompt_ids[:, -1])

    def step(self, tokens: Int[Tensor, "B"], memories: Memories, state: BatchedState) -> Prediction:
        """Predict the next token; see `TranslationModel.step`."""
        (memory,) = memories
        assert isinstance(memory, PromptMemory) and isinstance(state, CausalState)
        assert memory.prompt_mask is not None
        past = [
            KeysValues(
                torch.cat([prompt.keys, generated.keys], dim=2),
                torch.cat([prompt.values, generated.values], dim=2),
            )
            for prompt, generated in zip(memory.prompts, state.caches, strict=True)
        ]
        size = memory.prompts[0].keys.shape[2]
        num_generated = state.caches[0].keys.shape[2]
        mask = torch.nn.functional.pad(memory.prompt_mask, (0, num_generated), value=True)
        # The start symbol stands for the last token of the prompt.
        ids = torch.where(tokens == BOS, state.last, self.vocabulary.token_ids[tokens]).unsqueeze(1)
        cache = self._cache(past)
        logits, weights = self._run(ids, mask, cache, record=True)
        lengths, width = memory.mask.sum(dim=1), memory.mask.shape[1]
        steps: list[AttentionStep] = []
        for layer in weights:
            attention = self.layout.source_attention(layer, lengths, width)[:, 0].float()
            empty = attention.new_zeros(len(ids), 1, 1)
            steps.append(AttentionStep.with_one_context(empty, attention, State(attention, empty[:, 0])))
        caches = tuple(
            KeysValues(cached.keys[:, :, size:], cached.values[:, :, size:]) for cached in cache.layers
        )
        log_probs = self.vocabulary.log_probs(logits[:, 0])
        return Prediction(log_probs, None, tuple(steps), CausalState(caches, state.last))

    def update(
        self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]
    ) -> BatchedState:
        """Return the state of the continued hypotheses; see `TranslationModel.update`."""
        return select_rows(prediction.state, rows)

    # --- training -------------------------------------------------------------------------------------

    def forward(
        self, batch: Batch, mean_log_probs: bool = False, output_attentions: OutputAttentions = "source"
    ) -> ForwardOutput:
        """Compute the log-likelihoods of the targets alone; see `TranslationModel.forward`."""
        assert batch.target is not None
        target, source = batch.target, batch.source
        prompt_ids, prompt_mask = self.layout.prompts(source, self.vocabulary.token_ids)
        length = target.tokens.shape[1]
        # The last target token is predicted, and never an input.
        ids = torch.cat([prompt_ids, self.vocabulary.token_ids[target.tokens[:, :-1]]], dim=1)
        mask = torch.cat([prompt_mask, target.mask[:, :-1]], dim=1)
        factors = self.layout.prompt_scales(source, ids.shape[1])
        with scaled_embeddings(self.model.get_input_embeddings(), ids, factors):
            logits, weights = self._run(
                ids, mask, None, record=output_attentions != "nothing", num_logits=length
            )
        scores = self.vocabulary.score(logits, target, mean_log_probs)
        # The positions from the last token of the prompt on.
        layers = [layer[:, :, -length:] for layer in weights]
        attention = tuple(
            self.layout.source_attention(layer, source.lengths, source.tokens.shape[1]) for layer in layers
        )
        decoder_attentions = (
            tuple(layer[..., -length:] for layer in layers) if output_attentions == "all" else ()
        )
        return replace(
            ForwardOutput.with_one_context(*scores, target.mask),
            cross_attentions=attention,
            posteriors=attention,
            decoder_attentions=decoder_attentions,
        )
