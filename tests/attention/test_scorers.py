"""Tests of score functions against the papers' formulas, written with einsum."""

import pytest
import torch

from regard.attention.scorers import AdditiveScorer, BilinearScorer, build_scorer
from regard.errors import ConfigError

QUERIES, STATES = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 5, 6, dtype=torch.float64)


def test_dot_matches_luong_et_al_2015_equation_8() -> None:
    states = torch.randn(2, 5, 4, dtype=torch.float64)
    scorer = build_scorer("dot", 4, 4)
    expected = torch.einsum("btd,bsd->bts", QUERIES, states)
    torch.testing.assert_close(scorer(QUERIES, scorer.compute_keys(states)), expected)


def test_bilinear_matches_luong_et_al_2015_equation_8() -> None:
    scorer = build_scorer("bilinear", 4, 6).double()
    assert isinstance(scorer, BilinearScorer)
    expected = torch.einsum("btq,qd,bsd->bts", QUERIES, scorer.weight, STATES)
    torch.testing.assert_close(scorer(QUERIES, scorer.compute_keys(STATES)), expected)


def test_scaled_bilinear_divides_by_square_root_of_query_size() -> None:
    plain, scaled = (build_scorer(kind, 4, 6).double() for kind in ("bilinear", "scaled_bilinear"))
    scaled.load_state_dict(plain.state_dict())
    expected = plain(QUERIES, plain.compute_keys(STATES)) / 2
    torch.testing.assert_close(scaled(QUERIES, scaled.compute_keys(STATES)), expected)


def test_additive_matches_bahdanau_et_al_2015_appendix_a() -> None:
    scorer = build_scorer("additive", 4, 6).double()
    assert isinstance(scorer, AdditiveScorer)
    words = torch.einsum("ad,bsd->bsa", scorer.key_proj.weight, STATES) + scorer.key_proj.bias
    queries = torch.einsum("qa,btq->bta", scorer.query_weight, QUERIES)
    expected = torch.tanh(words[:, None] + queries[:, :, None]) @ scorer.vector
    torch.testing.assert_close(scorer(QUERIES, scorer.compute_keys(STATES)), expected)


def test_dot_product_requires_equal_sizes() -> None:
    with pytest.raises(ConfigError, match="widths are 4 and 6"):
        build_scorer("dot", 4, 6)


def test_unknown_score_function_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="score_function 'dott': expected one of dot, scaled_dot"):
        build_scorer("dott", 4, 4)
