"""Tests of the key-value cache against tensors that are copied at every reordering, and of localness."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.self_attention import KVCache, Localness

WIDTH = 12


def entries(rows):
    return torch.randn(rows, WIDTH)


def contents(cache):
    """Return the cached keys and values, [B, T, 2 D]."""
    return cache.store.entries[cache.slots]


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 40), record=st.booleans())
def test_cache_equals_copied_tensors_after_appends_and_reorderings(seed, steps, record):
    generator = torch.Generator().manual_seed(seed)
    with torch.set_grad_enabled(record):
        cache = KVCache.empty(2, torch.empty(0, WIDTH))
        copied = torch.empty(2, 0, WIDTH)
        for _ in range(steps):
            new = torch.randn(len(copied), WIDTH, generator=generator)
            cache, copied = cache.append(new), torch.cat([copied, new.unsqueeze(1)], dim=1)
            rows = int(torch.randint(1, 7, (1,), generator=generator))
            index = torch.randint(0, len(copied), (rows,), generator=generator)
            cache, copied = cache.select(index), copied[index]
        assert cache.slots.shape[1] == steps
        assert torch.equal(contents(cache), copied)


def test_caches_extended_from_a_common_prefix_are_independent():
    with torch.inference_mode():
        first = KVCache.empty(3, torch.empty(0, WIDTH)).append(entries(3))
        before = contents(first)
        left, right = entries(3), entries(3)
        one, other = first.append(left), first.append(right)
        for _ in range(60):  # exceeds the initial capacity
            other = other.append(entries(3))
        assert torch.equal(contents(first), before)
        assert torch.equal(contents(one), torch.cat([before, left.unsqueeze(1)], dim=1))
        assert torch.equal(contents(other)[:, :2], torch.cat([before, right.unsqueeze(1)], dim=1))


def test_unreachable_entries_are_freed():
    with torch.inference_mode():
        cache = KVCache.empty(4, torch.empty(0, WIDTH))
        for _ in range(300):  # all rows continue row 0, so only 300 of 1,200 entries are reachable
            cache = cache.append(entries(4)).select(torch.zeros(4, dtype=torch.long))
        assert len(cache.store.entries) < 2 * 300 + 100


def test_gradients_flow_through_the_cache():
    cache, inputs = KVCache.empty(2, torch.empty(0, WIDTH)), []
    for _ in range(3):
        inputs.append(entries(2).requires_grad_())
        cache = cache.append(inputs[-1]).select(torch.tensor([1, 1]))
    contents(cache).sum().backward()
    # Row 1 is selected twice in each step, so before the last selection both rows share the same entry.
    for x in inputs:
        assert x.grad is not None
        assert torch.equal(x.grad, torch.tensor([[0.0], [2.0]]).expand(2, WIDTH))


def test_cache_from_inference_mode_can_be_extended_under_no_grad():
    with torch.inference_mode():
        cache = KVCache.empty(2, torch.empty(0, WIDTH)).append(entries(2))
    with torch.no_grad():
        assert contents(cache.append(entries(2))).shape == (2, 2, WIDTH)


def test_localness_matches_the_printed_gaussian() -> None:
    torch.manual_seed(3)
    localness = Localness(4, 2).double()
    queries, lengths = torch.randn(1, 3, 4).double(), torch.tensor([[5.0]]).double()
    found = localness(queries, lengths, 5)
    hidden = torch.tanh(queries[0] @ localness.hidden_proj.weight)
    for head in range(2):
        center = 5 * torch.sigmoid(hidden @ localness.center_window_proj.weight[:, head])
        window = 5 * torch.sigmoid(hidden @ localness.center_window_proj.weight[:, 2 + head])
        for i in range(3):
            for j in range(5):
                expected = -((j - center[i]) ** 2) / (2 * (window[i] / 2) ** 2)
                torch.testing.assert_close(found[0, head, i, j], expected)
