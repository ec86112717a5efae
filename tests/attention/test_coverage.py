"""Tests of attention with a coverage vector: scores by the printed formula, gradients by autograd."""

import pytest
import torch

from regard.attention import Memory, build_attention
from regard.attention.coverage import CoverageAttention, CoverageAttentionConfig
from regard.functional import entmax15, softmax, sparsemax

MAPS = {"softmax": softmax, "entmax15": entmax15, "sparsemax": sparsemax}
every = pytest.mark.parametrize("map", MAPS)


def build(map: str, scorer: str | None = None) -> CoverageAttention:
    made = build_attention(CoverageAttentionConfig(normalizer=map, score_function=scorer), 4, 3).double()
    assert isinstance(made, CoverageAttention)
    return made


def memory(states: torch.Tensor | None = None) -> Memory:
    given = torch.randn(2, 5, 3, dtype=torch.float64) if states is None else states
    return Memory(given, torch.tensor([[True] * 5, [True] * 3 + [False] * 2]))


def read(mechanism: CoverageAttention, queries: torch.Tensor, memory: Memory) -> list[torch.Tensor]:
    prepared = mechanism.prepare(memory)
    state, found = mechanism.start(prepared), []
    for query in queries.unbind(1):
        reading = mechanism.read(query, prepared, state)
        state = reading.state
        found.append(reading.weights[:, 0])
    return found


@pytest.mark.parametrize(("scorer", "scale"), [("bilinear", 1.0), ("scaled_bilinear", 0.5), (None, 0.5)])
@every
def test_weights_match_the_printed_formula(map: str, scorer: str | None, scale: float) -> None:
    """Malaviya et al. (2018), Section 5: z_tj = s^T (W h_j + v beta_{t-1,j}); scaled: divided by sqrt(4)."""
    mechanism, queries, given = build(map, scorer), torch.randn(2, 4, 4, dtype=torch.float64), memory()
    received = torch.zeros(2, 5, dtype=torch.float64)
    for t, weights in enumerate(read(mechanism, queries, given)):
        for row in range(2):
            scores = torch.stack(
                [
                    queries[row, t]
                    @ (
                        mechanism.scorer.weight @ given.states[row, j]
                        + mechanism.coverage_weight[:, 0] * received[row, j]
                    )
                    for j in range(5)
                ]
            )
            torch.testing.assert_close(weights[row], MAPS[map](scale * scores, mask=given.mask[row]))
        received = received + weights
