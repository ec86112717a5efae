"""Base class of mechanisms whose weights are a function of the scores of one time step.

    z_tj = score(q_t, h_j),   a_t = normalize(z_t),   c_t = sum_j a_tj h_j

Soft attention is one of them; a new one defines `normalize` only.
"""

from abc import abstractmethod

from regard.attention.base import Attention, AttentionStep, Likelihood, Memory, State, squeeze_step
from regard.attention.expectation import expected_context
from regard.attention.scorers import build_scorer
from regard.functional.masking import accumulation_dtype
from regard.layers.step_linear import StepLinear
from regard.types import Bool, Float, Tensor

__all__ = ["ScoredAttention"]


class ScoredAttention(Attention):
    """Attention whose weights are a function of the scores of one time step.

    Args:
        query_size: Width of the decoder state.
        memory_size: Width of the memory's states.
        score_function: Name of the score function. Default: scaled_bilinear.
        score_hidden_size: Width of the hidden layer of the score function `additive`.
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        score_function: str | None = None,
        score_hidden_size: int | None = None,
    ) -> None:
        """Build the scorer."""
        super().__init__()
        self.memory_size = memory_size
        self.scorer = build_scorer(score_function, query_size, memory_size, score_hidden_size)

    @abstractmethod
    def normalize(
        self, scores: Float[Tensor, "B T S"], mask: Bool[Tensor, "B 1 S"]
    ) -> Float[Tensor, "B T S"]:
        """Return the attention weights.

        Args:
            scores: The scores, at least in float32.
            mask: True at positions that may be attended. The weights of the others must be 0.
        """

    def prepare(self, memory: Memory) -> Memory:
        """Compute the keys and prepare the values."""
        return memory.with_projections(
            self.scorer.compute_keys(memory.key_inputs), StepLinear.prepare(memory.states)
        )

    def count_multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """Count the scorer, and a weighted sum of the states for each step."""
        return self.scorer.count_multiply_adds(source, target, pairs) + pairs * self.memory_size

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> AttentionStep:
        """Attend for one time step."""
        return squeeze_step(self.read_all(query.unsqueeze(1), memory, state))

    def read_all(
        self,
        queries: Float[Tensor, "B T Q"],
        memory: Memory,
        state: State,
        likelihood: Likelihood | None = None,
    ) -> AttentionStep:
        """Attend for all steps in parallel, as no state carries over between steps."""
        assert memory.keys is not None
        scores = self.scorer(queries, memory.keys)
        scores = scores.to(accumulation_dtype(scores.dtype))
        return expected_context(self.normalize(scores, memory.mask.unsqueeze(1)), memory)
