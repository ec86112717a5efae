"""Score functions, which compare a query with each state of the memory.

    dot              z_j = q . h_j                       Luong et al. (2015), Eq. 8
    scaled_dot       z_j = q . h_j / sqrt(D)             Vaswani et al. (2017), Eq. 1
    bilinear         z_j = q^T W h_j                     Luong et al. (2015), Eq. 8; "general"
    scaled_bilinear  z_j = q^T W h_j / sqrt(D)           (both; D the width of q)
    additive         z_j = v . tanh(W h_j + U q + b)     Bahdanau et al. (2015), Appendix A.1.2

A scorer computes its keys once per sentence, then the scores at every time step.

The scaling of W h_j is for Adam. The first steps of Adam change every weight by the full learning rate,
independent of the size of the gradient. The scores of `bilinear` then quickly differ by more than 1;
sparsemax concentrates on one position, and the other positions receive no gradient. With SGD, the scaling
makes the training of W slower by a factor of D.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import nn

from regard.config.registry import NamedRegistry, subclass_of
from regard.errors import ConfigError
from regard.kernels.matmul import linear
from regard.layers.batched_state import BatchedState
from regard.layers.linear import StepLinear, to_compute
from regard.types import Float, Tensor

SCORE_FUNCTION_HELP = (
    "Score of a query q and a source state h: q^T h (dot), q^T W h (bilinear) or v^T tanh(W h + U q + b) "
    "(additive); scaled_dot and scaled_bilinear divide by the square root of the width of q. Default: "
    "scaled_bilinear; in multi-head attention scaled_dot; in a convolutional or Hugging Face model dot."
)
DEFAULT_SCORE_FUNCTION = "scaled_bilinear"


class AttentionScorer(nn.Module, ABC):
    """Base class of scorers, which compute scores from queries and keys.

    Args:
        query_size: Width of the query.
        memory_size: Width of the memory's states.

    Raises:
        ConfigError: if the scorer does not support these widths.
    """

    def __init__(self, query_size: int, memory_size: int) -> None:
        """Keep the width of the query."""
        super().__init__()
        self.width = query_size

    @abstractmethod
    def compute_keys(self, states: Float[Tensor, "B S D"]) -> BatchedState:
        """Compute the keys of the memory's states, once per sentence."""

    @abstractmethod
    def forward(self, queries: Float[Tensor, "B T Q"], keys: BatchedState) -> Float[Tensor, "B T S"]:
        """Compute the score of every source position for each query."""


SCORE_FUNCTIONS: NamedRegistry[type[AttentionScorer]] = NamedRegistry(
    "score function", contract=subclass_of(AttentionScorer)
)
register_score_function = SCORE_FUNCTIONS.register
ScoreFunction = Annotated[str, SCORE_FUNCTIONS] | None


@register_score_function("dot")
class DotScorer(AttentionScorer):
    """z_j = q . h_j; query and memory must have the same width.

    Attributes:
        has_weight: Whether the states are multiplied by a matrix W, so that the widths may differ.
        is_scaled: Whether the scores are divided by the square root of the width D of the query.
    """

    has_weight: bool = False
    is_scaled: bool = False

    def __init__(self, query_size: int, memory_size: int) -> None:
        """Create W, if there is one; otherwise check the widths."""
        super().__init__(query_size, memory_size)
        self.weight = None
        if self.has_weight:
            self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(query_size, memory_size)))
        elif query_size != memory_size:
            raise ConfigError(
                "score_function 'dot' and 'scaled_dot' require queries and memory of the same width, but "
                f"their widths are {query_size} and {memory_size}: use scaled_bilinear"
            )

    def compute_keys(self, states: Float[Tensor, "B S D"]) -> StepLinear:
        """Return h_j or W h_j, divided by sqrt(D) if the scores are scaled."""
        # Keys are scaled once per sentence, which is cheaper than scaling the scores of every step.
        keys = states * self.width**-0.5 if self.is_scaled else states
        if self.weight is not None:
            weight = to_compute(self.weight)
            keys = linear(keys.to(weight.dtype), weight.t())
        return StepLinear.prepare(keys.transpose(1, 2))

    def forward(self, queries: Float[Tensor, "B T Q"], keys: BatchedState) -> Float[Tensor, "B T S"]:
        """Compute the score of every source position for each query."""
        assert isinstance(keys, StepLinear)
        return keys(queries)


@register_score_function("scaled_dot")
class ScaledDotScorer(DotScorer):
    """z_j = q . h_j / sqrt(D); query and memory must have the same width D."""

    is_scaled = True


@register_score_function("bilinear")
class BilinearScorer(DotScorer):
    """z_j = q^T W h_j."""

    has_weight = True


@register_score_function("scaled_bilinear")
class ScaledBilinearScorer(BilinearScorer):
    """z_j = q^T W h_j / sqrt(D), where D is the width of the query."""

    is_scaled = True


@dataclass(frozen=True)
class AdditiveKeys(BatchedState):
    """W h_j + b, and U prepared for the queries of all time steps."""

    keys: Float[Tensor, "B S Q"]
    query_proj: StepLinear


@register_score_function("additive")
class AdditiveScorer(AttentionScorer):
    """z_j = v . tanh(W h_j + U q + b)."""

    def __init__(self, query_size: int, memory_size: int) -> None:
        """Create the parameters."""
        super().__init__(query_size, memory_size)
        self.key_proj = nn.Linear(memory_size, query_size)
        self.query_weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(query_size, query_size)))
        limit = query_size**-0.5
        self.vector = nn.Parameter(nn.init.uniform_(torch.empty(query_size), -limit, limit))

    def compute_keys(self, states: Float[Tensor, "B S D"]) -> AdditiveKeys:
        """Compute W h_j + b."""
        weight, bias = to_compute(self.key_proj.weight), to_compute(self.key_proj.bias)
        return AdditiveKeys(
            linear(states.to(weight.dtype), weight.t(), bias), StepLinear.prepare(self.query_weight)
        )

    def forward(self, queries: Float[Tensor, "B T Q"], keys: BatchedState) -> Float[Tensor, "B T S"]:
        """Compute the score of every source position for each query."""
        assert isinstance(keys, AdditiveKeys)
        hidden = torch.tanh(keys.keys.unsqueeze(1) + keys.query_proj(queries).unsqueeze(2))  # (B, T, S, Q)
        return hidden @ self.vector.to(hidden.dtype)
