"""The top-k selection of tokens agrees with `torch.topk`; subword tokenizers exclude the unknown token."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import from_dict
from regard.generation.config import GenerationConfig
from regard.generation.token_constraints import top_k_tokens


@settings(max_examples=60)
@given(
    rows=st.integers(1, 5),
    size=st.integers(1, 2000),
    count=st.one_of(st.integers(1, 12), st.integers(100, 2000)),
    ties=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_best_tokens_equal_topk(rows, size, count, ties, seed):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(rows, size, generator=generator)
    if ties:
        values = (2 * values).round()
        values[0] = -torch.inf
    found, tokens = top_k_tokens(values, count)
    expected = values.topk(min(count, size), dim=1)
    assert torch.equal(found, expected.values)
    assert torch.equal(values.gather(1, tokens), found)
    assert all(len(set(row.tolist())) == tokens.shape[1] for row in tokens)
    if not ties:
        assert torch.equal(tokens, expected.indices)


@pytest.mark.parametrize("bits", [0x7FC00000, -0x400000])
def test_nan_comes_first_as_in_topk(bits):
    values = torch.randn(3, 200)
    values[:, 150], values[:, 170], values[:, 20] = 0, torch.inf, -torch.inf
    values.view(torch.int32)[:, 150] = bits  # a NaN of either sign
    found, tokens = top_k_tokens(values, 3)
    assert tokens[:, :2].tolist() == [[150, 170]] * 3
    assert torch.equal(tokens, values.topk(3, dim=1).indices)
    assert found[:, 0].isnan().all() and torch.equal(found[:, 1:], values.topk(3, dim=1).values[:, 1:])


def test_result_does_not_depend_on_the_other_rows():
    values = (3 * torch.randn(8, 3000)).round()
    together = top_k_tokens(values, 9)[1]
    for row in range(8):
        assert torch.equal(top_k_tokens(values[row : row + 1], 9)[1][0], together[row])


def test_noncontiguous_views_give_the_same_result():
    values = torch.randn(6, 1000)
    for view in (values[2:], values[:, 3:], values[::2]):
        assert torch.equal(top_k_tokens(view, 3)[1], view.topk(3, dim=1).indices)


@pytest.mark.parametrize(
    ("settings", "subword", "forbidden"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"alignment": {"replace_unk": True}}, True, False),
        ({"suppress_unk": False}, True, False),
        ({"suppress_unk": True}, False, True),
    ],
)
def test_tokenizer_determines_the_default(settings, subword, forbidden):
    assert from_dict(GenerationConfig, settings).resolve_suppress_unk(subword).suppress_unk is forbidden
