"""Tests of score functions against the papers' formulas, written with einsum."""

import pytest
import torch

from regard.attention.scorers import SCORE_FUNCTIONS, AdditiveScorer, DotScorer
from regard.errors import ConfigError

QUERIES, STATES = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 5, 6, dtype=torch.float64)


def scores(name: str, states: torch.Tensor, **weights: torch.Tensor) -> torch.Tensor:
    scorer_class = SCORE_FUNCTIONS.get(name)
    assert scorer_class is not None
    scorer = scorer_class(QUERIES.shape[-1], states.shape[-1]).double()
    scorer.load_state_dict(weights)
    return scorer(QUERIES, scorer.compute_keys(states))


@pytest.mark.parametrize(("prefix", "factor"), [("", 1.0), ("scaled_", 0.5)])
def test_dot_and_bilinear_match_luong_et_al_2015_equation_8(prefix: str, factor: float) -> None:
    """The scaled ones are divided by the square root of the query's width, 4."""
    states, weight = STATES[..., :4], torch.randn(4, 6, dtype=torch.float64)
    expected = factor * torch.einsum("btd,bsd->bts", QUERIES, states)
    torch.testing.assert_close(scores(f"{prefix}dot", states), expected)
    expected = factor * torch.einsum("btq,qd,bsd->bts", QUERIES, weight, STATES)
    torch.testing.assert_close(scores(f"{prefix}bilinear", STATES, weight=weight), expected)


def test_additive_matches_bahdanau_et_al_2015_appendix_a() -> None:
    scorer = AdditiveScorer(4, 6).double()
    words = torch.einsum("ad,bsd->bsa", scorer.key_proj.weight, STATES) + scorer.key_proj.bias
    queries = torch.einsum("qa,btq->bta", scorer.query_weight, QUERIES)
    expected = torch.tanh(words[:, None] + queries[:, :, None]) @ scorer.vector
    torch.testing.assert_close(scorer(QUERIES, scorer.compute_keys(STATES)), expected)


def test_dot_product_requires_equal_sizes() -> None:
    with pytest.raises(ConfigError, match="widths are 4 and 6"):
        DotScorer(4, 6)
