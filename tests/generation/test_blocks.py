"""Tests of decoding several batches in parallel threads."""

import threading
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from regard.generation.beam import eval_mode
from regard.generation.blocks import map_batches


@pytest.fixture(params=[1, 3, 4])
def threads(request) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_results_are_in_batch_order(threads) -> None:
    assert map_batches(nn.Linear(1, 1), list(range(20)), lambda x: 2 * x) == [2 * x for x in range(20)]
    assert map_batches(nn.Linear(1, 1), [], lambda x: x) == []


def test_threads_are_divided_and_restored(threads) -> None:
    seen: dict[str, int] = {}
    barrier = threading.Barrier(2, timeout=30)

    def record_threads(batch: int) -> None:
        if threads > 1:
            barrier.wait()  # so that neither thread takes both batches
        seen[threading.current_thread().name] = torch.get_num_threads()

    map_batches(nn.Linear(1, 1), [0, 1], record_threads)
    # Two batches run in at most two threads, which share the intra-op threads of PyTorch.
    assert sorted(seen.values()) == {1: [1], 2: [1, 1], 3: [1, 1], 4: [2, 2]}[threads]
    assert torch.get_num_threads() == threads
    later: list[int] = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [threads]


def test_model_is_in_eval_mode_during_search(threads) -> None:
    model = nn.Linear(1, 1).train()

    def search(batch: int) -> bool:
        with eval_mode(model):
            pass
        return model.training  # the mode while the other batch may still be decoded

    found = map_batches(model, [0, 1, 2], search)
    assert found == [threads == 1] * 3 and model.training


@pytest.mark.parametrize("enabled", [True, False])
def test_threads_inherit_the_callers_autocast(threads, enabled) -> None:
    x = torch.ones(2, 2)
    with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
        found = map_batches(nn.Linear(1, 1), [x, x, x], lambda x: (x @ x).dtype)
    assert found == [torch.bfloat16 if enabled else torch.float32] * 3
