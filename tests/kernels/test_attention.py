"""Tests of the fused attention of one time step against the formulas in float64."""

import pytest
import torch

from regard.kernels.attention import fused_backends, slot_attention, source_attention, supports_attention
from regard.kernels.backend import use_backend

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}


def attend(scores, values):
    """Return the softmax of the scores [R, T] and the weighted sum of the values [R, T, D]."""
    weights = scores.softmax(1)
    return weights, (weights.unsqueeze(1) @ values).squeeze(1)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("rows", "heads", "each", "words"), [(1, 1, 16, 1), (3, 2, 5, 7), (40, 4, 64, 17), (9, 3, 40, 33)]
)
def test_slot_attention_matches_the_formula(rows, heads, each, words, dtype):
    width = heads * each
    store = torch.randn(50, 2 * width).to(dtype)
    slots, queries = torch.randint(0, 50, (rows, words)), torch.randn(rows, width).to(dtype)
    with torch.inference_mode():
        assert supports_attention(queries, store) == (dtype == torch.float32)
        found = slot_attention(queries, store, slots, heads)
    keys, values = store.double()[slots].split(width, dim=2)
    for h in range(heads):
        part = slice(h * each, (h + 1) * each)
        scores = (keys[..., part] @ queries.double()[:, part, None]).squeeze(2) * each**-0.5
        context = attend(scores, values[..., part])[1]
        torch.testing.assert_close(found[:, part].double(), context, rtol=0, atol=4 * TOLERANCE[dtype])


def test_composed_slot_attention_equals_the_kernel_and_has_gradients():
    store, queries = torch.randn(20, 24, requires_grad=True), torch.randn(6, 12)
    slots = torch.randint(0, 20, (6, 5))
    composed = slot_attention(queries, store, slots, 3)
    with torch.inference_mode():
        torch.testing.assert_close(composed.detach(), slot_attention(queries, store, slots, 3))
    composed.sum().backward()
    assert store.grad is not None and store.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("rows", "sources", "query", "width", "words"), [(1, 1, 1, 1, 1), (7, 7, 30, 50, 3), (50, 8, 64, 64, 21)]
)
def test_word_attention_matches_the_formula(rows, sources, query, width, words):
    queries = torch.randn(rows, query)
    keys, values = torch.randn(sources, words, query), torch.randn(sources, words, width)
    mask = torch.rand(sources, words) < 0.7
    mask[:, 0] = True
    owners = None if rows == sources else torch.randint(0, sources, (rows,))
    hidden = ~mask.unsqueeze(2)
    with torch.inference_mode():  # NaN at masked positions: the kernel must not read them
        context, weights = source_attention(
            queries, keys.masked_fill(hidden, torch.nan), values.masked_fill(hidden, torch.nan), mask, owners
        )
    source_of = torch.arange(rows) if owners is None else owners
    scores = (keys.double()[source_of] @ queries.double().unsqueeze(2)).squeeze(2)
    scores = scores.masked_fill(~mask[source_of], -torch.inf)
    expected, mean = attend(scores, values.double()[source_of])
    assert weights.dtype == context.dtype == torch.float32
    assert torch.all(weights[~mask[source_of]] == 0)
    # Scores are sums of 64 products and reach 30, where float32 has an error of 2e-6.
    # The relative error of their exponential is of this size.
    torch.testing.assert_close(weights.double(), expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(context.double(), mean, rtol=0, atol=1e-5 + 2 * TOLERANCE[torch.float32])


def test_fully_masked_row_gets_zero():
    mask = torch.tensor([[True, False], [False, False]])
    with torch.inference_mode():
        context, weights = source_attention(torch.ones(2, 3), torch.ones(2, 2, 3), torch.ones(2, 2, 4), mask)
    assert weights.tolist() == [[1, 0], [0, 0]]
    assert context.tolist() == [[1] * 4, [0] * 4]


def test_nan_and_inf_scores_give_nan():
    mask = torch.ones(3, 2, dtype=torch.bool)
    keys = torch.tensor([[[1.0], [torch.nan]], [[torch.inf], [torch.inf]], [[0.0], [-torch.inf]]])
    with torch.inference_mode():
        _, weights = source_attention(torch.ones(3, 1), keys, torch.ones(3, 2, 1), mask)
    assert weights[:2].isnan().all()
    assert weights[2].tolist() == [1, 0]


def test_strided_views_and_int32_indices_are_accepted():
    store, slots = torch.randn(9, 48)[:, ::2], torch.randint(0, 9, (10, 8), dtype=torch.int32)[::2, ::2]
    queries = torch.randn(5, 36)[:, :12]
    keys, values, mask = (
        torch.randn(3, 4, 24)[..., ::2],
        torch.randn(4, 3, 7).transpose(0, 1),
        torch.ones(3, 4) > 0,
    )
    owners = torch.tensor([2, 0, 1, 1, 0], dtype=torch.int32)
    with torch.inference_mode():
        found = slot_attention(queries, store, slots, 2)
        torch.testing.assert_close(
            found, slot_attention(queries.clone(), store.clone(), slots.long().clone(), 2), rtol=0, atol=0
        )
        context, weights = source_attention(queries, keys, values, mask, owners)
        expected, mean = attend(
            (keys[owners.long()] @ queries.unsqueeze(2)).squeeze(2), values[owners.long()]
        )
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(context, mean)


def test_row_index_out_of_range_raises():
    x = torch.ones(2, 3)
    with torch.inference_mode():
        for wrong in (-1, 2):
            with pytest.raises(IndexError, match=f"row index {wrong} is out of range for 2 rows"):
                slot_attention(x[:, :2], torch.ones(2, 4), torch.tensor([[0], [wrong]]), 1)
            with pytest.raises(IndexError):
                source_attention(
                    x, torch.ones(2, 1, 3), torch.ones(2, 1, 3), x[:, :1] > 0, torch.tensor([0, wrong])
                )


def test_kernel_is_disabled_for_unsupported_inputs():
    x = torch.ones(2, 3)
    assert not supports_attention(x)  # a gradient may be required
    with torch.inference_mode():
        assert supports_attention(x)
        assert (
            not supports_attention(x.double())
            and not supports_attention(x, x.bfloat16())
            and not supports_attention(x[:0])
        )
        with use_backend("reference"):
            assert not supports_attention(x)


def test_fused_attention_on_a_gpu_excludes_cudnn() -> None:
    """CuDNN would build a plan for each shape of a batch. The setting of the process does not change."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    with fused_backends(torch.device("cuda")):
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.cudnn_sdp_enabled() == before
