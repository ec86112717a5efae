"""Tests of scans over time steps against a loop of single steps (Malaviya et al. 2018, Eq. 5)."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from problems import BOUNDED, SCANS
from regard.errors import InfeasibleBoundsError
from regard.functional import constrained_softmax_scan
from regard.functional.scans import add_exhaustion, remaining_bound
from regard.kernels.backend import use_backend

DOUBLE = torch.float64
every = pytest.mark.parametrize("name", SCANS)
versions = pytest.mark.parametrize("version", ["auto", "reference"])


def loop(name, scores, fertility, exhaustion=0.0, mask=None, shared=False) -> torch.Tensor:
    """Compute the weights one step at a time: bound, exhaustion, transformation. The mask is [B, T, S].

    If the heads of scores [B, H, T, S] share their fertility, their mean is accumulated. The gradient is
    discontinuous where a fertility is exhausted, so the heads are added as in the kernels: in pairs, as long
    as their number is even.
    """
    received, steps = torch.zeros_like(scores[..., 0, :]), []
    for t in range(scores.shape[-2]):
        bound = remaining_bound(fertility.expand(received.shape), received)
        usable = None if mask is None else mask[..., t, :]
        steps.append(BOUNDED[name](add_exhaustion(scores[..., t, :], bound, exhaustion), bound, mask=usable))
        heads = list(steps[-1].unbind(1)) if shared else []
        while heads and len(heads) % 2 == 0:
            heads = [first + second for first, second in zip(heads[0::2], heads[1::2], strict=True)]
        received = received + ((sum(heads) / scores.shape[1]).unsqueeze(1) if shared else steps[-1])
    return torch.stack(steps, -2)


@st.composite
def sentences(draw):
    """Sample scores, fertilities with a sink, a mask that keeps the sink, and the exhaustion strength."""
    batch, steps, size = draw(st.integers(1, 10)), draw(st.integers(1, 7)), draw(st.integers(1, 11))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    scores = torch.randn(batch, steps, size, generator=generator, dtype=DOUBLE)
    scores = scores * draw(st.sampled_from([0.3, 1.0, 3.0, 1e4]))
    fertility = torch.rand(batch, size, generator=generator, dtype=DOUBLE) * draw(st.sampled_from([0.3, 2.0]))
    if draw(st.booleans()):
        fertility = fertility.mul(2).ceil()  # words are exhausted exactly
    if draw(st.booleans()):
        fertility[:, : size // 3] = 0
    fertility[:, -1] = torch.inf
    mask = torch.rand(batch, steps, size, generator=generator) < draw(st.sampled_from([0.6, 2.0]))
    mask[..., -1] = True
    return scores, fertility, mask, draw(st.sampled_from([0.0, 0.2, 1.5]))


def answers(function, scores, fertility, *rest):
    scores, fertility = scores.clone().requires_grad_(), fertility.clone().requires_grad_()
    weights = function(scores, fertility, *rest)
    upstream = torch.randn(weights.shape, generator=torch.Generator().manual_seed(3), dtype=DOUBLE)
    return [weights.detach(), *torch.autograd.grad(weights, (scores, fertility), upstream.to(weights.dtype))]


@every
@versions
@given(sentence=sentences())
@settings(max_examples=40)
def test_scan_equals_the_loop_in_value_and_gradients(name, version, sentence) -> None:
    scores, fertility, mask, exhaustion = sentence

    def scan(z, f):
        return SCANS[name](z, f, exhaustion=exhaustion, mask=mask)

    with use_backend(version):
        found = answers(scan, scores, fertility)
        expected = answers(lambda z, f: loop(name, z, f, exhaustion, mask), scores, fertility)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


@every
@given(sentence=sentences())
@settings(max_examples=40)
def test_cumulative_attention_never_exceeds_fertility(name, sentence) -> None:
    scores, fertility, mask, exhaustion = sentence
    weights = SCANS[name](scores.float(), fertility.float(), exhaustion=exhaustion, mask=mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]), atol=1e-6, rtol=0)
    assert (weights.double().sum(1) <= fertility + 1e-5).all()
    assert (weights >= 0).all()
    assert (weights[~mask] == 0).all()


@every
@given(sentence=sentences())
@settings(max_examples=40)
def test_float32_kernel_equals_float64_reference(name, sentence) -> None:
    scores, fertility, mask, exhaustion = sentence

    def scan(z, f):
        return SCANS[name](z, f, exhaustion=exhaustion, mask=mask)

    with use_backend("numba"):
        found = answers(scan, scores.float(), fertility.float())
    with use_backend("reference"):
        # The bounds f - beta of the reference cancel in float32, so it runs in float64.
        expected = answers(scan, scores.float().double(), fertility.float().double())
    # Steps with extreme scores are left to the reference, which rounds their sum with the exhaustion term.
    rounding = torch.finfo(torch.float32).eps * float(scores.abs().max()) if exhaustion else 0.0
    torch.testing.assert_close(found[0].double(), expected[0], atol=1e-5 + rounding, rtol=0)
    if name == "constrained_softmax" and float(scores.abs().max()) < 10:  # smooth: rounding breaks no ties
        torch.testing.assert_close(found[1].double(), expected[1], atol=1e-4, rtol=1e-4)


@every
def test_float32_gradient_is_that_of_float64_if_words_are_exhausted_up_to_rounding(name) -> None:
    scores, fertility = 2 * torch.randn(200, 9, 5), 0.3 + 1.5 * torch.rand(200, 5)
    scores[..., -1] -= 3  # the sink is chosen when no other word is left
    fertility[:, -1] = torch.inf
    single = answers(SCANS[name], scores, fertility)
    double = answers(SCANS[name], scores.double(), fertility.double())
    torch.testing.assert_close(single, double, atol=1e-5, rtol=0, check_dtype=False)


@every
@versions
def test_gradcheck_and_gradgradcheck(name, version) -> None:
    scores = torch.randn(2, 3, 4, dtype=DOUBLE, requires_grad=True)
    fertility = (0.6 + 0.9 * torch.rand(2, 4, dtype=DOUBLE)).requires_grad_()
    with use_backend(version):
        assert gradcheck(SCANS[name], (scores, fertility))
        assert gradgradcheck(SCANS[name], (scores, fertility), fast_mode=True)
        heads = torch.randn(2, 2, 3, 4, dtype=DOUBLE, requires_grad=True)

        def shared(z, f):
            return SCANS[name](z, f.unsqueeze(1) + 0.1, share_fertility=True)

        assert gradcheck(shared, (heads, fertility))
        assert gradgradcheck(shared, (heads, fertility), fast_mode=True)


@every
@versions
def test_masks_per_word_and_per_step_with_leading_dimensions(name, version) -> None:
    scores, fertility = torch.randn(2, 3, 4, 6, dtype=DOUBLE), torch.full((2, 1, 6), 0.9, dtype=DOUBLE)
    words = torch.rand(2, 1, 6) < 0.8
    words[..., :4] = True
    steps = words.unsqueeze(-2) & (torch.rand(2, 3, 4, 6) < 0.9)
    steps[..., :5] = words.unsqueeze(-2)[..., :5]
    per_step = words.unsqueeze(-2).expand(2, 3, 4, 6)
    with use_backend(version):
        expected = loop(name, scores, fertility.expand(2, 3, 6), 0.3, per_step)
        for mask in (words.expand(2, 3, 6), words, per_step):
            torch.testing.assert_close(SCANS[name](scores, fertility, exhaustion=0.3, mask=mask), expected)
        found = SCANS[name](scores, fertility, mask=steps)
        torch.testing.assert_close(found, loop(name, scores, fertility.expand(2, 3, 6), 0.0, steps))
        single = SCANS[name](scores[0, 0], fertility[0, 0], mask=words[0, 0])
        torch.testing.assert_close(single, loop(name, scores[0, 0], fertility[0, 0], 0.0, per_step[0, 0]))


@every
@versions
def test_infeasible_step_raises_with_its_number(name, version) -> None:
    scores, fertility = torch.randn(3, 4, 5), torch.full((3, 5), 10.0)
    fertility[1] = 0.5  # 2.5 in total, enough for steps 0 and 1
    with (
        use_backend(version),
        pytest.raises(InfeasibleBoundsError, match=r"step 2: .*row \[1\] of \[3\]: .* sum to 0\.5"),
    ):
        SCANS[name](scores, fertility)


@every
def test_half_precision_empty_input_and_broadcast_fertility(name) -> None:
    scores = torch.randn(2, 3, 4).bfloat16().requires_grad_()
    fertility = torch.tensor([1.0, 1.0, 1.0, torch.inf], requires_grad=True)
    weights = SCANS[name](scores, fertility)
    assert weights.dtype == torch.bfloat16
    by_scores, by_fertility = torch.autograd.grad(weights.float().square().sum(), (scores, fertility))
    assert by_scores.dtype == torch.bfloat16
    assert by_fertility.shape == (4,)
    torch.testing.assert_close(SCANS[name](scores.float(), fertility), weights.float(), atol=4e-3, rtol=0)
    for shape in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        for version in ("auto", "reference"):
            with use_backend(version):
                assert SCANS[name](torch.zeros(shape), torch.ones(shape[0], shape[2])).shape == shape


@every
@versions
@pytest.mark.parametrize("heads", [1, 3, 4])
@given(sentence=sentences())
@settings(max_examples=15)
def test_shared_fertility_bounds_the_mean_of_the_heads(name, version, heads, sentence) -> None:
    scores, fertility, mask, exhaustion = sentence
    generator = torch.Generator().manual_seed(5)
    scores = torch.stack(
        [scores[:, :, torch.randperm(scores.shape[2], generator=generator)] for _ in range(heads)], 1
    )
    mask = mask.unsqueeze(1).expand(scores.shape)

    def scan(z, f):
        return SCANS[name](z, f.unsqueeze(1), exhaustion=exhaustion, mask=mask, share_fertility=True)

    with use_backend(version):
        found = answers(scan, scores, fertility)
        expected = answers(
            lambda z, f: loop(name, z, f.unsqueeze(1), exhaustion, mask, shared=True), scores, fertility
        )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)
    assert (found[0].mean(1).sum(1) <= fertility + 1e-9).all()


def test_shared_fertility_requires_a_head_dimension() -> None:
    with pytest.raises(ValueError, match="heads"):
        constrained_softmax_scan(torch.zeros(2, 3), torch.ones(3), share_fertility=True)


FIGURE_1 = torch.tensor([[1.2, 0.8, -0.2], [0.7, 0.9, 0.1], [-0.2, 0.2, 0.9]], dtype=DOUBLE)
ROUNDS = {
    # After two rounds, 0.673246 of the last word's fertility is left.
    "constrained_softmax": [[0.5217, 0.3497, 0.1286], [0.3610, 0.4409, 0.1981], [0.1173, 0.2094, 0.6732]],
    "constrained_sparsemax": [[0.7, 0.3, 0], [0.3, 0.7, 0], [0, 0, 1]],
}


@every
@versions
def test_three_rounds_match_figure_1_of_the_paper(name, version) -> None:
    """Malaviya et al. (2018), Figure 1: three words of fertility 1.

    The paper plots the values without numbers. These were computed by bisection of its definitions.
    """
    with use_backend(version):
        found = SCANS[name](FIGURE_1, torch.ones(3, dtype=DOUBLE))
    torch.testing.assert_close(found, torch.tensor(ROUNDS[name], dtype=DOUBLE), atol=5e-5, rtol=0)
    torch.testing.assert_close(found.sum(0), torch.ones(3, dtype=DOUBLE))
    assert torch.equal(found == 0, torch.tensor(ROUNDS[name]) == 0)
