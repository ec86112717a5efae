"""Tests of constrained attention: upper and lower bounds per sentence and their constraints on EOS."""

import pytest
import torch

from regard.attention import Memory, build_attention
from regard.attention.constrained import ConstrainedAttentionConfig
from regard.errors import ConfigError, InfeasibleBoundsError

INF = float("inf")
every = pytest.mark.parametrize("name", ["softmax", "sparsemax"])


def build(name: str, **settings):
    torch.manual_seed(2)
    return build_attention(ConstrainedAttentionConfig(normalizer=name, **settings), 4, 4).double()


def memory(upper, lower=None, length: int = 4) -> Memory:
    generator = torch.Generator().manual_seed(5)
    states = torch.randn(len(upper), length, 4, generator=generator, dtype=torch.float64)
    mask = torch.ones(len(upper), length, dtype=torch.bool)
    return Memory(states, mask, torch.tensor(upper), None if lower is None else torch.tensor(lower))


def run(mechanism, memory: Memory, steps: int):
    prepared = mechanism.prepare(memory)
    queries = torch.randn(steps, len(memory.mask), 4, generator=torch.Generator().manual_seed(6)).double()
    state, readings = mechanism.start(prepared), []
    for query in queries:
        readings.append(mechanism.read(query, prepared, state))
        state = readings[-1].state
    return prepared, state, torch.stack([reading.weights[:, 0] for reading in readings], 1)


@every
def test_exhausted_budget_in_training_raises_with_the_remaining_budget(name) -> None:
    with pytest.raises(InfeasibleBoundsError, match=r"sum to 0\.5"):
        run(build(name), memory([[1.0, 0.5, 0.0, 1.0]]), 3)


@every
def test_exhausted_budget_in_search_forces_eos_and_keeps_weights_normalized(name) -> None:
    mechanism = build(name).eval()
    prepared, state, weights = run(mechanism, memory([[1.0, 0.5, 0.0, 1.0]]), 2)
    assert mechanism.eos_constraint(prepared, state).required.tolist() == [True]
    _, _, weights = run(mechanism, memory([[1.0, 0.5, 0.0, 1.0]]), 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4, dtype=torch.float64))


@every
def test_eos_is_forbidden_until_lower_bounds_are_reached(name) -> None:
    mechanism = build(name).eval()
    bounded = memory([[INF, INF, INF, INF]], [[0.0, 1.0, 0.0, 0.0]])
    prepared = mechanism.prepare(bounded)
    assert mechanism.eos_constraint(prepared, mechanism.start(prepared)).allowed.tolist() == [False]
    free = mechanism.prepare(memory([[INF, INF, INF, INF]]))
    assert mechanism.eos_constraint(free, mechanism.start(free)).allowed.tolist() == [True]
    # The bonus raises the score of a word with an unmet lower bound, so the bound is met earlier.
    with_bonus = build(name, lower_bound_bonus=10.0).eval()
    _, state, _ = run(with_bonus, bounded, 1)
    assert state.coverage[0, 1] > 0.9


def test_missing_fertilities_raise_with_the_option_to_set() -> None:
    with pytest.raises(ConfigError, match=r"data\.fertility"):
        build("softmax").prepare(Memory(torch.zeros(1, 2, 4), torch.ones(1, 2, dtype=torch.bool)))
