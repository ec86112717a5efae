"""Tests of the distribution of rows over threads."""

import threading

import pytest
import torch

from regard.functional import constrained_softmax
from regard.kernels._numba import rows
from regard.kernels.backend import use_backend


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def results() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2000, 30, generator=generator, requires_grad=True)
    upper = (0.1 + torch.rand(2000, 30, generator=generator)).requires_grad_()
    with use_backend("numba"):
        weights = constrained_softmax(scores, upper)
        gradients = torch.autograd.grad(weights.square().sum(), (scores, upper))
    return [weights.detach(), *gradients]


def test_rows_are_processed_once_and_at_the_same_time(two_threads) -> None:
    ranges, barrier = [], threading.Barrier(2, timeout=60)

    def record(begin: int, end: int, argument: str) -> bool:
        barrier.wait()  # fails unless both threads run at the same time
        ranges.append((begin, end, argument))
        return True

    assert rows.run_rows(record, 7, 1 << 20, "argument")
    assert sorted(ranges) == [(0, 3, "argument"), (3, 7, "argument")]


@pytest.mark.parametrize("failing", [0, 1])
def test_result_is_false_if_it_is_for_any_range(two_threads, failing) -> None:
    assert not rows.run_rows(lambda begin, end: (begin > 0) != bool(failing), 8, 1 << 20)


def test_results_do_not_depend_on_the_number_of_threads(two_threads) -> None:
    found = results()
    torch.set_num_threads(1)
    for actual, expected in zip(found, results(), strict=True):
        assert torch.equal(actual, expected)
