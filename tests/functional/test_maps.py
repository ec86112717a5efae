"""Laws of the maps from scores to distributions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.functional import softmax, sparsemax

MAPS = {"softmax": softmax, "sparsemax": sparsemax}
DOUBLE = torch.float64
every = pytest.mark.parametrize("name", MAPS)


@st.composite
def problems(draw):
    rows, size = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    seed = draw(st.integers(0, 2**20))
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, size, generator=generator, dtype=DOUBLE) * draw(st.sampled_from([0.1, 1, 1e4]))
    if draw(st.booleans()):
        scores = scores.round()  # ties
    mask = torch.rand(rows, size, generator=generator) < draw(st.sampled_from([0.3, 0.8, 1.0]))
    return scores, mask


@every
@given(problem=problems())
@settings(max_examples=60, deadline=None)
def test_rows_are_distributions_over_what_may_be_attended(name, problem) -> None:
    scores, mask = problem
    weights = MAPS[name](scores, mask=mask)
    assert (weights >= 0).all()
    assert (weights[~mask] == 0).all()
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).double())


@every
@given(problem=problems())
@settings(max_examples=40, deadline=None)
def test_masked_equals_shortened(name, problem) -> None:
    scores, mask = problem
    weights = MAPS[name](scores, mask=mask)
    for row, keep, found in zip(scores, mask, weights, strict=True):
        if keep.any():
            torch.testing.assert_close(found[keep], MAPS[name](row[keep]))


@every
@given(problem=problems())
@settings(max_examples=40, deadline=None)
def test_shifts_change_nothing_and_permutations_commute(name, problem) -> None:
    scores, mask = problem
    weights = MAPS[name](scores, mask=mask)
    torch.testing.assert_close(MAPS[name](scores + 3, mask=mask), weights)
    order = torch.randperm(scores.shape[-1])
    torch.testing.assert_close(MAPS[name](scores[:, order], mask=mask[:, order]), weights[:, order])


@every
def test_gradients_are_those_of_finite_differences(name) -> None:
    scores = torch.randn(5, 6, dtype=DOUBLE, requires_grad=True)
    mask = torch.rand(5, 6) < 0.8
    assert torch.autograd.gradcheck(lambda z: MAPS[name](z, mask=mask), scores)


@every
def test_masked_scores_get_no_gradient_and_empty_rows_no_nan(name) -> None:
    scores = torch.randn(2, 3, requires_grad=True)
    mask = torch.tensor([[True, False, True], [False, False, False]])
    weights = MAPS[name](scores, mask=mask)
    assert torch.equal(weights[1], torch.zeros(3))
    (weights * torch.randn(2, 3)).sum().backward()
    assert (scores.grad[~mask] == 0).all()


@every
def test_any_dimension_and_half_precision(name) -> None:
    scores = torch.randn(3, 4, 5)
    torch.testing.assert_close(MAPS[name](scores, dim=1), MAPS[name](scores.movedim(1, -1)).movedim(-1, 1))
    half = MAPS[name](scores.bfloat16())
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), MAPS[name](scores.bfloat16().float()), atol=4e-3, rtol=0)


def test_sparsemax_of_the_first_example_in_malaviya_et_al_2018_figure_1() -> None:
    rounds = torch.tensor([[1.2, 0.8, -0.2], [0.7, 0.9, 0.1], [-0.2, 0.2, 0.9]], dtype=DOUBLE)
    expected = torch.tensor([[0.7, 0.3, 0], [0.4, 0.6, 0], [0, 0.15, 0.85]], dtype=DOUBLE)
    torch.testing.assert_close(sparsemax(rounds), expected)
    soft = torch.tensor([[0.5217, 0.3497, 0.1286], [0.3610, 0.4409, 0.1981], [0.1820, 0.2714, 0.5466]])
    torch.testing.assert_close(softmax(rounds).float(), soft, atol=5e-5, rtol=0)


def test_sparsemax_is_the_projection_onto_the_simplex() -> None:
    # Optimality (Martins & Astudillo 2016, Prop. 1): p_i = z_i - tau on the support, z_i <= tau off it.
    scores = torch.randn(50, 8, dtype=DOUBLE)
    weights = sparsemax(scores)
    support = weights > 0
    threshold = ((scores - weights) * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
    torch.testing.assert_close((scores - weights)[support], threshold.expand_as(scores)[support])
    assert (scores[~support] <= threshold.expand_as(scores)[~support] + 1e-12).all()
