"""How well a query matches each word of the memory.

    dot             z_j = q . h_j                        (Luong et al. 2015, Eq. 8)
    scaled          z_j = q . h_j / sqrt(D)              (Vaswani et al. 2017, Eq. 1)
    general         z_j = q^T W h_j                      (Luong et al. 2015, Eq. 8; "bilinear")
    scaled_general  z_j = q^T W h_j / sqrt(D)            (both; D the width of q)
    additive        z_j = v . tanh(W h_j + U q + b)      (Bahdanau et al. 2015, Appendix A.1.2)

A scorer makes its keys once a sentence and then scores every step.

Scaling W h_j is for Adam, whose first updates change every number of W by the whole rate, whatever the
gradient: the scores of `general` soon lie farther apart than 1, where sparsemax is all on one word and hands
the others no gradient. Under SGD it makes W learn D times more slowly.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from regard.errors import ConfigError
from regard.kernels.products import linear
from regard.layers.precision import to_compute
from regard.layers.rows import Rows
from regard.layers.steps import StepProduct
from regard.types import Float, Tensor

__all__ = [
    "HIDDEN_HELP",
    "SCORER_HELP",
    "AdditiveScorer",
    "DotScorer",
    "GeneralScorer",
    "ScaledGeneralScorer",
    "ScaledScorer",
    "Scorer",
    "ScorerKind",
    "build_scorer",
]

ScorerKind = Literal["dot", "scaled", "general", "scaled_general", "additive"]
SCORER_HELP = (
    "How a query is compared with a source word; absent: scaled_general, in heads scaled, in a convolutional "
    "model dot."
)
HIDDEN_HELP = "Width of the additive scorer's tanh layer; the query's if absent."


class Scorer(nn.Module, ABC):
    """From queries and keys to scores."""

    @abstractmethod
    def keys(self, states: Float[Tensor, "B S D"]) -> Rows:
        """What the scores need of the memory's states, made once a sentence."""

    @abstractmethod
    def forward(self, queries: Float[Tensor, "B T Q"], keys: Rows) -> Float[Tensor, "B T S"]:
        """Scores of every word for each query."""

    @abstractmethod
    def multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """Multiply-adds of a forward pass; see `Attention.multiply_adds`."""


class DotScorer(Scorer):
    """z_j = q . h_j; query and memory have one width.

    Args:
        query: That width.
    """

    def __init__(self, query: int) -> None:
        """Remember the width."""
        super().__init__()
        self.width = query

    def keys(self, states: Float[Tensor, "B S D"]) -> StepProduct:
        """The states themselves."""
        return StepProduct.open(states.transpose(1, 2))

    def forward(self, queries: Float[Tensor, "B T Q"], keys: Rows) -> Float[Tensor, "B T S"]:
        """Scores of every word for each query."""
        assert isinstance(keys, StepProduct)
        return keys(queries)

    def multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """A dot product for each pair."""
        return pairs * self.width


class ScaledScorer(DotScorer):
    """z_j = q . h_j / sqrt(D); query and memory have one width, D."""

    def keys(self, states: Float[Tensor, "B S D"]) -> StepProduct:
        """The states, scaled."""
        return super().keys(states * self.width**-0.5)


class GeneralScorer(DotScorer):
    """z_j = q^T W h_j.

    Args:
        query: Width of the query.
        width: Width of the memory.
    """

    def __init__(self, query: int, width: int) -> None:
        """Make the weights."""
        super().__init__(query)
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(query, width)))

    def keys(self, states: Float[Tensor, "B S D"]) -> StepProduct:
        """W h_j."""
        weight = to_compute(self.weight)
        return super().keys(linear(states.to(weight.dtype), weight.t()))

    def multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """W h_j for each word, and a dot product for each pair."""
        return source * self.weight.numel() + super().multiply_adds(source, target, pairs)


class ScaledGeneralScorer(GeneralScorer):
    """z_j = q^T W h_j / sqrt(D), D being the width of the query."""

    def keys(self, states: Float[Tensor, "B S D"]) -> StepProduct:
        """W h_j, scaled."""
        return super().keys(states * self.width**-0.5)


@dataclass(frozen=True)
class AdditiveKeys(Rows):
    """W h_j + b, and the query's product opened for the steps."""

    words: Float[Tensor, "B S A"]
    query: StepProduct


class AdditiveScorer(Scorer):
    """z_j = v . tanh(W h_j + U q + b).

    Args:
        query: Width of the query.
        width: Width of the memory.
        hidden: Width of the tanh layer.
    """

    def __init__(self, query: int, width: int, hidden: int) -> None:
        """Make the weights."""
        super().__init__()
        self.memory = nn.Linear(width, hidden)
        self.query = nn.Parameter(nn.init.xavier_uniform_(torch.empty(query, hidden)))
        self.vector = nn.Parameter(nn.init.uniform_(torch.empty(hidden), -(hidden**-0.5), hidden**-0.5))

    def keys(self, states: Float[Tensor, "B S D"]) -> AdditiveKeys:
        """W h_j + b."""
        weight, bias = to_compute(self.memory.weight), to_compute(self.memory.bias)
        return AdditiveKeys(linear(states.to(weight.dtype), weight.t(), bias), StepProduct.open(self.query))

    def forward(self, queries: Float[Tensor, "B T Q"], keys: Rows) -> Float[Tensor, "B T S"]:
        """Scores of every word for each query."""
        assert isinstance(keys, AdditiveKeys)
        hidden = torch.tanh(keys.words.unsqueeze(1) + keys.query(queries).unsqueeze(2))  # (B, T, S, A)
        return hidden @ self.vector.to(hidden.dtype)

    def multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """W h_j for each word, U q for each query, v . for each pair."""
        made = source * self.memory.weight.numel() + target * self.query.numel()
        return made + pairs * self.vector.numel()


def build_scorer(kind: ScorerKind | None, query: int, width: int, hidden: int | None = None) -> Scorer:
    """A scorer by name.

    Args:
        kind: Which; none: scaled_general.
        query: Width of the query.
        width: Width of the memory's states.
        hidden: Width of the additive scorer's tanh layer; the query's if not given.

    Raises:
        ConfigError: if the dot product is asked for between different widths.
    """
    if kind == "dot" or kind == "scaled":
        if query != width:
            raise ConfigError(
                f"scorer {kind!r} needs queries and memory of one width; got {query} and {width}"
            )
        return DotScorer(query) if kind == "dot" else ScaledScorer(query)
    if kind == "additive":
        return AdditiveScorer(query, width, hidden or query)
    return GeneralScorer(query, width) if kind == "general" else ScaledGeneralScorer(query, width)
