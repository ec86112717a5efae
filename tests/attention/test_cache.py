"""Keys and values kept once, against tensors that are copied whenever hypotheses move."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.cache import Cache

HEADS, EACH = 2, 3
WIDTH = 2 * HEADS * EACH


def entries(rows):
    return torch.randn(rows, WIDTH)


def held(cache):
    """What it holds: [B, T, 2 D]."""
    keys, values = (x.transpose(1, 2).flatten(2) for x in cache.read(HEADS))
    return torch.cat([keys, values], dim=2)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 40), record=st.booleans())
def test_a_cache_holds_what_was_appended_in_the_order_of_its_rows(seed, steps, record):
    generator = torch.Generator().manual_seed(seed)
    with torch.set_grad_enabled(record):
        cache = Cache.empty(2, torch.empty(0, WIDTH))
        copied = torch.empty(2, 0, WIDTH)
        for _ in range(steps):
            new = torch.randn(len(copied), WIDTH, generator=generator)
            cache, copied = cache.append(new), torch.cat([copied, new.unsqueeze(1)], dim=1)
            rows = int(torch.randint(1, 7, (1,), generator=generator))
            index = torch.randint(0, len(copied), (rows,), generator=generator)
            cache, copied = cache.select(index), copied[index]
        assert cache.length == steps
        assert torch.equal(held(cache), copied)


def test_caches_that_go_on_from_one_do_not_disturb_each_other():
    with torch.inference_mode():
        first = Cache.empty(3, torch.empty(0, WIDTH)).append(entries(3))
        before = held(first)
        left, right = entries(3), entries(3)
        one, other = first.append(left), first.append(right)
        for _ in range(60):  # more than there is room for
            other = other.append(entries(3))
        assert torch.equal(held(first), before)
        assert torch.equal(held(one), torch.cat([before, left.unsqueeze(1)], dim=1))
        assert torch.equal(held(other)[:, :2], torch.cat([before, right.unsqueeze(1)], dim=1))


def test_what_no_hypothesis_holds_is_let_go():
    with torch.inference_mode():
        cache = Cache.empty(4, torch.empty(0, WIDTH))
        for _ in range(300):  # all go on from the first, so that 300 of 1,200 words are held
            cache = cache.append(entries(4)).select(torch.zeros(4, dtype=torch.long))
        assert len(cache.store.entries) < 2 * 300 + 100


def test_a_recorded_cache_hands_gradients_back():
    cache, given_in = Cache.empty(2, torch.empty(0, WIDTH)), []
    for _ in range(3):
        given_in.append(entries(2).requires_grad_())
        cache = cache.append(given_in[-1]).select(torch.tensor([1, 1]))
    held(cache).sum().backward()
    # Row 1 goes on twice: in the two steps before the last selection it is the same row that both hold.
    for x in given_in:
        assert x.grad is not None
        assert torch.equal(x.grad, torch.tensor([[0.0], [2.0]]).expand(2, WIDTH))


def test_a_cache_of_inference_mode_goes_on_outside_of_it():
    with torch.inference_mode():
        cache = Cache.empty(2, torch.empty(0, WIDTH)).append(entries(2))
    with torch.no_grad():
        assert held(cache.append(entries(2))).shape == (2, 2, WIDTH)
