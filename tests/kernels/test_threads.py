"""Tests of the thread pool that runs the kernels, and of its fallback to the calling thread."""

import ctypes
import sys
import threading
from types import SimpleNamespace

import pytest
import torch

from regard.functional import constrained_softmax
from regard.kernels import threads
from regard.kernels.backend import use_backend
from regard.kernels.logits import topk

has_openmp = pytest.mark.skipif(
    sys.platform != "linux" or not torch.backends.openmp.is_available(),
    reason="PyTorch does not use an OpenMP library that exports GOMP_parallel",
)


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
    with torch.inference_mode():
        return [weights.detach(), *gradients, *topk(scores, 5)]


@has_openmp
def test_function_runs_on_each_thread_of_the_pool(two_threads) -> None:
    parallel = threads._gomp_parallel()
    assert parallel is not None
    seen = set()
    barrier = threading.Barrier(2, timeout=60)

    @ctypes.CFUNCTYPE(None, ctypes.c_int64)
    def record(argument: int) -> None:
        barrier.wait()  # fails unless both threads run at the same time
        seen.add((threading.get_native_id(), argument))

    parallel(ctypes.cast(record, ctypes.c_void_p).value, 7, 2, 0)
    assert len(seen) == 2 and {argument for _, argument in seen} == {7}


@has_openmp
def test_large_kernels_run_on_the_pool(two_threads, monkeypatch) -> None:
    parallel, calls = threads._gomp_parallel(), []

    def run(function: int, argument: int, num_threads: int, flags: int) -> None:
        calls.append(num_threads)
        parallel(function, argument, num_threads, flags)

    monkeypatch.setattr(threads, "_gomp_parallel", lambda: run)
    results()
    assert calls == [2] * 3


def test_kernels_run_on_the_calling_thread_without_a_pool(two_threads, monkeypatch) -> None:
    expected = results()
    monkeypatch.setattr(threads, "_gomp_parallel", lambda: None)
    for found, one in zip(results(), expected, strict=True):
        assert torch.equal(found, one)


@pytest.mark.parametrize("missing", ["library", "function"])
def test_missing_pool_is_reported_as_none(missing, monkeypatch) -> None:
    def load(path: str) -> object:
        if missing == "library":
            raise OSError(f"{path}: cannot open shared object file")
        return SimpleNamespace()

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert threads._gomp_parallel.__wrapped__() is None
