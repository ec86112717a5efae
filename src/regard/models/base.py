"""The interface of a translation model, as training and search use it.

Training calls the model with a batch (teacher forcing) and receives a `ForwardOutput`. Search calls `begin`
once, then alternates between `step`, which predicts the next token, and `update`, which updates the state
with the chosen tokens. Attention appears here only through its interface in `regard.attention.base`, so any
mechanism can be combined with any model. Systems that are not neural models train themselves and load their
own translators (`TrainableSystem`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast, get_args

import torch
from torch import nn

from regard.attention.base import AttentionStep, EosConstraint, Memory, Objective, Reward
from regard.data.batch import Batch, PaddedSequences
from regard.data.text import TextProcessor
from regard.errors import InfeasibleBoundsError, UsageError
from regard.layers.batched_state import BatchedState
from regard.text.vocabulary import BOS
from regard.types import Bool, Float, Int, Tensor

if TYPE_CHECKING:
    from regard.data.dataset import PreparedData

PARTS_DIR = "pretrained"
"""The subdirectory of a model directory that contains the configurations of pre-trained parts."""
TIE_EMBEDDINGS_HELP = (
    "Tie the target embeddings with the output layer (decoder), or also with the source embeddings (all)."
)
Memories = tuple[Memory, ...]  # one per layer that attends to the source
TokenScorer = Callable[[Int[Tensor, "N"], Int[Tensor, "N"]], Float[Tensor, "N K"]]
Precision = Literal["float32", "bfloat16"]
"""The precision of matrix multiplications, in training and in search."""
OutputAttentions = Literal["nothing", "source", "all"]
"""The attention weights to return: none, cross-attention only, or cross-attention and self-attention."""


@dataclass(frozen=True)
class ForwardOutput:
    """The result of teacher forcing. All log-probabilities are in nats.

    Attributes:
        log_likelihoods: [B, T, K], log p(y_t | y_<t, context k) of the reference. Zero at target padding;
            may be zero for contexts that are padding.
        mean_log_probs: [B, T, K], the mean of the log-probabilities over the vocabulary, for label smoothing.
            Zero at padding, and everywhere if it was not requested.
        log_weights: [B, T, K], the log-weights of the contexts.
        log_policy: [B, T, K], the log-probability of the sampled source positions.
        penalty: [B, T], the mechanism's penalty, e.g. a KL divergence.
        mask: [B, T], True at real target tokens, the end symbol included.
        cross_attentions: For each layer with cross-attention, [B, T, H, S]: the attention weights before the
            target token is known. May be empty if attention was not requested.
        posteriors: For each layer with cross-attention, [B, T, H, S]: the posterior attention weights, given
            the target token (`State.posteriors`).
        advantage: [B, T], the return of the sampled action minus its baseline, under the objective
            `reinforce`. If None, the reward is log p(y_t | context).
        top_tokens: [B, T], the top-scoring token of each step. Computed only in training, if the model's
            reward needs it.
        encoder_attentions: For each encoder layer with self-attention, [B, H, S, S], if all attention was
            requested; [b, h, i, j] is the weight of key j for query i.
        decoder_attentions: The same for the decoder's self-attention, [B, H, T, T].
    """

    log_likelihoods: Float[Tensor, "B T K"]
    mean_log_probs: Float[Tensor, "B T K"]
    log_weights: Float[Tensor, "B T K"]
    log_policy: Float[Tensor, "B T K"]
    penalty: Float[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    cross_attentions: tuple[Float[Tensor, "B T _ S"], ...]  # the number of heads may differ between layers
    posteriors: tuple[Float[Tensor, "B T _ S"], ...]
    advantage: Float[Tensor, "B T"] | None = None
    top_tokens: Int[Tensor, "B T"] | None = None
    encoder_attentions: tuple[Float[Tensor, "B _ S S"], ...] = ()
    decoder_attentions: tuple[Float[Tensor, "B _ T T"], ...] = ()

    @classmethod
    def with_one_context(
        cls,
        log_likelihoods: Float[Tensor, "B T 1"],
        mean_log_probs: Float[Tensor, "B T 1"] | None,
        mask: Bool[Tensor, "B T"],
        penalty: Float[Tensor, "B T"] | None = None,
    ) -> "ForwardOutput":
        """Return the result of a model with one context, without attention; None means zeros."""
        zeros = torch.zeros_like(log_likelihoods)
        means = zeros if mean_log_probs is None else mean_log_probs
        penalty = zeros.squeeze(-1) if penalty is None else penalty
        return cls(log_likelihoods, means, zeros, zeros, penalty, mask, (), ())

    @property
    def log_likelihood(self) -> Float[Tensor, "B T"]:
        """The log-probability log p(y_t | y_<t, source), marginalized over the contexts; zero at padding."""
        joint = self.log_weights + self.log_likelihoods
        # With one context logsumexp is the identity.
        total = joint.squeeze(-1) if joint.shape[-1] == 1 else torch.logsumexp(joint, dim=-1)
        return total.masked_fill(~self.mask, 0.0)


@dataclass(frozen=True)
class Prediction:
    """The distribution over the next token at one time step.

    Attributes:
        log_probs: [B, V], the log-probabilities, marginalized over the contexts, in nats. With several
            contexts, values are clamped to the log of the smallest normal number (-87 in float32).
        context_log_probs: A function of rows [N] and tokens [N] that returns log p(token | context k), [N,
            K], clamped in the same way. None if there is only one context.
        attention_steps: One attention step per layer with cross-attention.
        state: The decoder's state before it is updated with the chosen token.
        eos_constraint: Where the end symbol is required or allowed. If None, it is allowed everywhere.
    """

    log_probs: Float[Tensor, "B V"]
    context_log_probs: TokenScorer | None
    attention_steps: tuple[AttentionStep, ...]
    state: BatchedState
    eos_constraint: EosConstraint | None = None

    def token_log_probs(self, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]) -> Float[Tensor, "N K"]:
        """Return log p(token | context k) of the given tokens, each in the given row."""
        if self.context_log_probs is None:
            return self.log_probs[rows, tokens].unsqueeze(1)
        return self.context_log_probs(rows, tokens)


@dataclass(frozen=True)
class GenerationConstraints:
    """Constraints on the generated tokens that a model directory prescribes. All tokens are our ids.

    Attributes:
        prefix: The prefix of every translation; search starts with its last token.
        suppressed: Tokens that are never generated.
        suppressed_first: Tokens that are never generated at the first time step.
        banned_sequences: Sequences of two or more tokens that are never generated.
        max_pair_length: Maximum number of tokens of a source sentence with its sinks and of its translation
            without the end symbol, together. None means no maximum.
    """

    prefix: tuple[int, ...] = (BOS,)
    suppressed: tuple[int, ...] = ()
    suppressed_first: tuple[int, ...] = ()
    banned_sequences: tuple[tuple[int, ...], ...] = ()
    max_pair_length: int | None = None


class TrainableSystem:
    """Base class of all registered models.

    Attributes:
        is_neural: Whether the system is a PyTorch module that `Trainer` trains; if not, `train_run` trains
            it, without options that concern attention: fertilities and loss terms.
        weights_name: Name of the file or directory, within the model directory, with the trained weights.
    """

    is_neural: ClassVar[bool] = True
    weights_name: ClassVar[str] = "model.safetensors"

    @classmethod
    def build(cls, config: Any, text: TextProcessor, model_dir: Path | None = None) -> "TranslationModel":
        """Build the neural model that a config describes, with the weights of its pre-trained parts.

        Args:
            config: The config of this model.
            text: The format of the source and the target side.
            model_dir: A model directory whose weights the caller loads afterward. Default: None, which loads
                the weights of pre-trained parts.
        """
        raise NotImplementedError(f"{cls.__name__} is not a neural model")

    @classmethod
    def copy_configs(cls, config: Any, model_dir: Path) -> None:
        """Copy the files that `build` needs from other directories into `PARTS_DIR` of a model directory.

        Raises:
            CheckpointError: if one of these directories is missing or broken.
            OSError: if a file cannot be written.
        """

    @classmethod
    def part_options(cls, model_dir: Path) -> Mapping[str, Any]:
        """Return the options of each pre-trained part, from the files that `copy_configs` wrote."""
        return {}

    @classmethod
    def train_run(
        cls,
        config: Any,
        prepared: "PreparedData",
        model_dir: Path,
        file_checksums: Mapping[str, str],
        seed: int,
        num_threads: int,
    ) -> Any:
        """Train the system, or load it if the run is complete.

        Args:
            config: The configuration of the system.
            prepared: The prepared text.
            model_dir: The model directory; it exists.
            file_checksums: The checksums of the config and the vocabularies.
            seed: The random seed.
            num_threads: The number of threads of compiled code. 0 uses all processors.

        Returns a `regard.training.trainer.TrainingResult`.
        """
        raise NotImplementedError(f"{cls.__name__} is trained by regard.training.trainer")

    @classmethod
    def load_translator(cls, run: Any, model_dir: Path, num_threads: int) -> Any:
        """Load the system as a `regard.generation.base.BaseTranslator` with the search settings of its run.

        Args:
            run: The `regard.runs.description.ModelDescription` of the model directory.
            model_dir: The model directory.
            num_threads: The number of CPU threads of compiled code. 0 uses all processors.
        """
        raise NotImplementedError(f"{cls.__name__} is loaded by regard.runs.loading")


class TranslationModel(nn.Module, TrainableSystem, ABC):
    """The base class of models of p(target | source).

    Attributes:
        objective: The training objective.
        reward: The reward of the objective `reinforce`; see `Attention`.
        scales_embeddings: Whether the source embeddings are multiplied by `PaddedSequences.embedding_scale`.
    """

    objective: Objective = "marginal"
    reward: Reward | None = None
    scales_embeddings: bool = False

    @classmethod
    def build(cls, config: Any, text: TextProcessor, model_dir: Path | None = None) -> "TranslationModel":
        """Call the class with the config and the sizes of both vocabularies; see `TrainableSystem.build`."""
        return cls(config, len(text.source.vocabulary), len(text.target.vocabulary))

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens per sentence, including a sink or end symbol. None means no maximum."""
        return None

    @property
    def constraints(self) -> GenerationConstraints:
        """The prefix of every translation, and the tokens that must not be generated."""
        return GenerationConstraints()

    def pretrained_parameters(self) -> tuple[str, ...]:
        """Return the names of the pre-trained parameters."""
        return ()

    @abstractmethod
    def forward(
        self, batch: Batch, mean_log_probs: bool = False, output_attentions: OutputAttentions = "source"
    ) -> ForwardOutput:
        """Compute the log-likelihoods of the targets (teacher forcing).

        Args:
            batch: Sources and targets.
            mean_log_probs: Whether to compute `ForwardOutput.mean_log_probs`.
            output_attentions: The attention weights to return. A model may return more.
        """

    @abstractmethod
    def begin(
        self,
        source: PaddedSequences,
        upper: Float[Tensor, "B S"] | None = None,
        lower: Float[Tensor, "B S"] | None = None,
    ) -> tuple[Memories, BatchedState]:
        """Encode the source sentences for search.

        Args:
            source: B sentences with at least one token each.
            upper: [B, S], the maximum total attention of each source token (its fertility), for mechanisms
                with bounds.
            lower: [B, S], the minimum total attention that each source token should receive.

        Returns:
            The prepared memories, one row per sentence, and the decoder's initial state.
        """

    @abstractmethod
    def step(self, tokens: Int[Tensor, "B"], memories: Memories, state: BatchedState) -> Prediction:
        """Predict the token that follows `tokens`.

        Args:
            tokens: The last token of each hypothesis (the start symbol at the first step).
            memories: The memories from `begin`, one row per hypothesis.
            state: The decoder's state after the previous step.
        """

    @abstractmethod
    def update(
        self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]
    ) -> BatchedState:
        """Return the decoder's state of the hypotheses that are continued.

        Args:
            prediction: The result of `step`.
            rows: The row of the prediction that each hypothesis extends.
            tokens: The token that each hypothesis is extended with.
        """


def parse_precision(name: str) -> Precision:
    """Return the precision with the given name.

    Raises:
        UsageError: if the name is unknown.
    """
    if name not in (known := get_args(Precision)):
        raise UsageError(f"--precision {name!r}: expected {' or '.join(known)}")
    return cast(Precision, name)


def shift_right(tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """Return the decoder's input: the target shifted right by one, with the start symbol in front."""
    return torch.cat([torch.full_like(tokens[:, :1], BOS), tokens[:, :-1]], dim=1)


def name_infeasible_sentence(
    batch: Batch, error: InfeasibleBoundsError, step: int | None = None
) -> InfeasibleBoundsError:
    """Return the error with a message that names the sentence.

    Args:
        batch: The batch in which the error occurred.
        error: The error; its `row` is a row of the batch.
        step: The time step of the error, counted from 0, or None if unknown.
    """
    # `batch.rows` maps rows of the batch to the prepared text; messages count sentences from 1.
    sentence = int(batch.rows[error.row[0]]) + 1 if error.row else "?"
    place = "" if step is None else f", time step {step} (counted from 0)"
    return InfeasibleBoundsError(
        f"sentence {sentence} of the prepared text{place}: the remaining fertilities of the source words sum "
        "to less than one; set data.fertility.sink = true, or increase the fertilities",
        error.row,
    )
