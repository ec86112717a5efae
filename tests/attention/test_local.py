"""Tests of local attention: weights by the printed formula, and windows that stay inside the sentence."""

import math

import pytest
import torch

from regard.attention import Memory, SoftAttentionConfig, build_attention
from regard.attention.base import Attention
from regard.attention.local import LocalAttention, LocalAttentionConfig, LocalState
from regard.functional import entmax15, softmax, sparsemax

NORMALIZERS = {"softmax": softmax, "entmax15": entmax15, "sparsemax": sparsemax}
LENGTHS = (6, 3, 1)
variants = pytest.mark.parametrize("variant", ["monotonic", "predictive"])


def build(variant: str, **settings) -> LocalAttention:
    torch.manual_seed(1)
    made = build_attention(LocalAttentionConfig(variant=variant, **settings), 4, 3).double()
    assert isinstance(made, LocalAttention)
    return made


def memory(states: torch.Tensor | None = None) -> Memory:
    given = torch.randn(3, 6, 3, dtype=torch.float64) if states is None else states
    return Memory(given, torch.arange(6) < torch.tensor(LENGTHS).unsqueeze(1))


def random_queries(steps: int = 5) -> torch.Tensor:
    return torch.randn(3, steps, 4, dtype=torch.float64)


def weights_of(mechanism: Attention, given: Memory, queries: torch.Tensor) -> torch.Tensor:
    """Return the weights [B, T, S], computed one step at a time."""
    prepared = mechanism.prepare(given)
    state, found = mechanism.start(prepared), []
    for query in queries.unbind(1):
        reading = mechanism.read(query, prepared, state)
        state = reading.state
        found.append(reading.weights[:, 0])
    return torch.stack(found, 1)


@variants
@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_weights_match_the_printed_formula(variant, normalizer) -> None:
    """Luong et al. (2015), Eq. 9 and 10, with scores inside the window only and sigma = D / 2."""
    window = 2
    mechanism = build(variant, window_size=window, normalizer=normalizer, score_function="bilinear")
    given, queries = memory(), random_queries()
    found = weights_of(mechanism, given, queries)
    for row, length in enumerate(LENGTHS):
        for t in range(queries.shape[1]):
            query = queries[row, t]
            middle = float(t)
            if mechanism.position_weight is not None and mechanism.position_vector is not None:
                inner = mechanism.position_vector @ torch.tanh(mechanism.position_weight.t() @ query)
                middle = length / (1 + math.exp(-inner.item()))
            inside = [s for s in range(length) if middle - window <= s <= middle + window] or [length - 1]
            scores = torch.stack([query @ mechanism.scorer.weight @ given.states[row, s] for s in inside])
            expected = torch.zeros(6, dtype=torch.float64)
            expected[inside] = NORMALIZERS[normalizer](scores)
            if variant == "predictive":
                distance = torch.arange(6) - middle
                expected = expected * torch.exp(-(distance**2) / (2 * (window / 2) ** 2))
            torch.testing.assert_close(found[row, t], expected)


def test_window_past_the_sentence_stays_on_the_last_word() -> None:
    found = weights_of(build("monotonic", window_size=1), memory(), random_queries(9))
    for row, length in enumerate(LENGTHS):
        beyond = found[row, length + 1 :]
        assert (beyond[:, length - 1] == 1).all() and (beyond.sum(-1) == 1).all()


def test_window_covering_the_sentence_gives_soft_attention() -> None:
    local, given, queries = build("monotonic", window_size=20), memory(), random_queries()
    soft = build_attention(SoftAttentionConfig(), 4, 3).double()
    soft.load_state_dict({"scorer.weight": local.scorer.weight})
    torch.testing.assert_close(weights_of(local, given, queries), weights_of(soft, given, queries))


def test_each_row_has_its_own_window_position() -> None:
    mechanism, given, queries = build("monotonic", window_size=1), memory(), random_queries()
    prepared = mechanism.prepare(given)
    first = mechanism.start(prepared)
    state = LocalState(first.weights, first.context, torch.tensor([4, 1, 0]))
    found = mechanism.read(queries[:, 0], prepared, state).weights[:, 0]
    assert [row.nonzero().flatten().tolist() for row in found] == [[3, 4, 5], [0, 1, 2], [0]]


def test_autocast_does_not_move_the_window() -> None:
    mechanism = build("predictive", window_size=2).float()
    states, queries = torch.randn(1, 90, 3), torch.randn(1, 100, 4)
    given = mechanism.prepare(Memory(states, torch.ones(1, 90, dtype=torch.bool)))
    assert mechanism.position_vector is not None
    # The projection is the only matrix multiplication in half precision.
    hidden = torch.tanh(queries.bfloat16() @ mechanism.position_weight.bfloat16())
    expected = (90 * torch.sigmoid(hidden.float() @ mechanism.position_vector)).detach()
    with torch.autocast("cpu", torch.bfloat16):
        prepared = mechanism.prepare(Memory(states, given.mask))
        weights = mechanism.read_all(queries, prepared, mechanism.start(prepared)).weights[0, :, 0]
    for found, middle in zip(weights, expected[0], strict=True):
        places = found.nonzero().flatten()
        assert places.min() == math.ceil(middle - 2) and places.max() == math.floor(middle + 2)
