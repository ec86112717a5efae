"""Tests of attention with a coverage vector: scores by the printed formula, gradients by autograd."""

import pytest
import torch

from regard.attention import Memory, build_attention
from regard.attention.coverage import CoverageAttentionConfig
from regard.functional import entmax15, softmax, sparsemax

MAPS = {"softmax": softmax, "entmax15": entmax15, "sparsemax": sparsemax}


@pytest.mark.parametrize(("scorer", "scale"), [("bilinear", 1.0), ("scaled_bilinear", 0.5), (None, 0.5)])
@pytest.mark.parametrize("map", MAPS)
def test_weights_match_the_printed_formula(map: str, scorer: str | None, scale: float) -> None:
    """Malaviya et al. (2018), Section 5: z_tj = s^T (W h_j + v beta_{t-1,j}); scaled: divided by sqrt(4)."""
    mechanism = build_attention(CoverageAttentionConfig(normalizer=map, score_function=scorer), 4, 3).double()
    queries, states = torch.randn(2, 4, 4).double(), torch.randn(2, 5, 3).double()
    memory = mechanism.prepare(Memory(states, torch.tensor([[True] * 5, [True] * 3 + [False] * 2])))
    state, received = mechanism.start(memory), torch.zeros(2, 5).double()
    for query in queries.unbind(1):
        reading = mechanism.read(query, memory, state)
        state, weights = reading.state, reading.weights[:, 0]
        for row in range(2):
            scores = torch.stack(
                [
                    query[row]
                    @ (
                        mechanism.scorer.weight @ memory.states[row, j]
                        + mechanism.coverage_weight[:, 0] * received[row, j]
                    )
                    for j in range(5)
                ]
            )
            torch.testing.assert_close(weights[row], MAPS[map](scale * scores, mask=memory.mask[row]))
        received = received + weights
