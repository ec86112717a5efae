"""Tests of the compiled kernels against the reference, and with threads, forks and imports."""

import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from problems import BOUNDED, COMPILED, FREE, Problem, bounded_problems, free_problems
from regard.functional import constrained_sparsemax, sparsemax
from regard.kernels._numba.rows import run_rows
from regard.kernels.backend import use_backend

NORMALIZERS = {**FREE, **BOUNDED}
SHAPES = [(), (5,), (3, 1), (2, 1, 1, 5), (2, 4, 1, 5), (2, 4, 3, 1), (2, 4, 3, 5)]
every = pytest.mark.parametrize("name", COMPILED)
bounded = pytest.mark.parametrize("name", BOUNDED)


def answers(name: str, problem: Problem, version: str) -> list[torch.Tensor]:
    """Return the weights and the gradients of scores and bounds for a fixed upstream gradient."""
    problem = problem.each(lambda one: one if one.dtype == torch.bool else one.detach().requires_grad_())
    inputs = [one for one in (problem.scores, problem.upper, problem.lower) if one is not None]
    with use_backend(version):
        weights = problem.apply(NORMALIZERS[name])
        generator = torch.Generator().manual_seed(7)
        upstream = torch.randn(weights.shape, generator=generator, dtype=torch.float64).to(weights.dtype)
        return [weights.detach(), *torch.autograd.grad(weights, inputs, upstream)]


def assert_equal_to_the_reference(name: str, problem: Problem, atol: float = 1e-6) -> None:
    found, expected = answers(name, problem, "numba"), answers(name, problem, "reference")
    torch.testing.assert_close(found[0], expected[0], atol=atol, rtol=0, equal_nan=True)
    for one, other in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(one, other, atol=5 * atol, rtol=atol, equal_nan=True)


@every
@given(data=st.data())
@settings(max_examples=40)
def test_value_and_gradients_equal_the_reference(name, data) -> None:
    problem = data.draw(free_problems() if name in FREE else bounded_problems())
    assert_equal_to_the_reference(name, problem.to(torch.float32))
    assert_equal_to_the_reference(name, problem, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_weight_of_zero_is_exactly_zero_at_ties(dtype) -> None:
    # Binary fractions, so that thresholds often equal a score exactly.
    generator = torch.Generator().manual_seed(1)
    scores = torch.randint(-20, 21, (2_000, 5), generator=generator).to(dtype) / 8
    for upper in (None, torch.tensor([[0.5], [0.375], [0.25]], dtype=dtype).repeat(1, 5)):
        for bound in [None] if upper is None else upper:
            supports = []
            for version in ("numba", "reference"):
                with use_backend(version):
                    weights = sparsemax(scores) if bound is None else constrained_sparsemax(scores, bound)
                    supports.append(weights > 1e-9)
                    assert torch.equal(weights > 0, weights > 1e-9), version
            assert torch.equal(*supports)


def test_weights_sum_to_one_if_many_scores_are_near_the_threshold() -> None:
    scores = torch.randn(50, 1_000) * 1e-6
    scores[:, 0] = 1 - 1e-5 * torch.rand(50)
    weights = constrained_sparsemax(scores, torch.ones_like(scores))
    torch.testing.assert_close(weights.sum(-1), torch.ones(50), atol=1e-5, rtol=0)


@every
def test_noncontiguous_tensors_give_the_same_result(name) -> None:
    def strided(one: torch.Tensor) -> torch.Tensor:
        wide = torch.zeros(7, 12, 3).to(one.dtype)
        wide.transpose(0, 1)[::2, :5] = one
        return wide.transpose(0, 1)[::2, :5]

    problem = Problem(torch.randn(6, 5, 3), mask=torch.ones(6, 5, 3, dtype=torch.bool))
    if name in BOUNDED:
        problem = Problem(problem.scores, torch.rand(6, 5, 3) + 0.3, None, problem.mask)
    noncontiguous = problem.each(strided)
    assert not noncontiguous.scores.is_contiguous()
    for one, other in zip(
        answers(name, noncontiguous, "numba"), answers(name, problem, "numba"), strict=True
    ):
        assert torch.equal(one, other)
    scores = problem.scores.clone().requires_grad_()
    weights = Problem(scores, problem.upper).apply(NORMALIZERS[name])
    (gradient,) = torch.autograd.grad(weights[..., 1].sum(), scores)  # an expanded upstream gradient
    weights = Problem(scores, problem.upper).apply(NORMALIZERS[name])
    (expected,) = torch.autograd.grad(weights, scores, torch.eye(3)[1].expand(6, 5, 3).contiguous())
    assert torch.equal(gradient, expected)


@bounded
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(name, dtype) -> None:
    scores, upper = torch.randn(9, 6).to(dtype), (0.3 + 0.2 * torch.rand(9, 6)).to(dtype)
    found = answers(name, Problem(scores, upper), "numba")
    exact = Problem(scores.float(), upper.float())
    assert [each.dtype for each in found] == [dtype] * 3
    assert torch.equal(found[0], answers(name, exact, "numba")[0].to(dtype))
    mixed = BOUNDED[name](scores, upper.float())
    assert torch.equal(mixed, found[0])
    with use_backend("reference"):
        torch.testing.assert_close(BOUNDED[name](scores, upper), found[0], atol=4e-3, rtol=0)


@every
@pytest.mark.parametrize("size", [1, 15, 17, 300])
def test_any_number_and_length_of_rows(name, size) -> None:
    for rows in (1, 3, 300):
        scores = torch.randn(rows, size) * 3
        upper = None if name in FREE else torch.rand(rows, size) * 4 / size + 1 / size
        assert_equal_to_the_reference(name, Problem(scores, upper))


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_rows_are_processed_once_and_at_the_same_time(two_threads) -> None:
    ranges, barrier = [], threading.Barrier(2, timeout=60)

    def record(begin: int, end: int, argument: str) -> bool:
        barrier.wait()  # fails unless both threads run at the same time
        ranges.append((begin, end, argument))
        return True

    assert run_rows(record, 7, 1 << 20, "argument")
    assert sorted(ranges) == [(0, 3, "argument"), (3, 7, "argument")]


@pytest.mark.parametrize("failing", [0, 1])
def test_result_is_false_if_it_is_for_any_range(two_threads, failing) -> None:
    assert not run_rows(lambda begin, end: (begin > 0) != bool(failing), 8, 1 << 20)


@bounded
def test_results_do_not_depend_on_the_number_of_threads(two_threads, name) -> None:
    problem = Problem(torch.randn(2000, 30), 0.1 + torch.rand(2000, 30))
    found = answers(name, problem, "numba")
    torch.set_num_threads(1)
    for actual, expected in zip(found, answers(name, problem, "numba"), strict=True):
        assert torch.equal(actual, expected)


@every
def test_concurrent_calls_from_threads_are_correct(two_threads, name) -> None:
    def problem(seed: int) -> Problem:
        generator = torch.Generator().manual_seed(seed)
        scores = torch.randn(300, 40, generator=generator)
        return Problem(scores, None if name in FREE else 0.1 + torch.rand(300, 40, generator=generator))

    expected = [answers(name, problem(seed), "numba") for seed in range(8)]
    with use_backend("numba"), ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda seed: answers(name, problem(seed % 8), "numba"), range(64)))
    for i, each in enumerate(found):
        for one, other in zip(each, expected[i % 8], strict=True):
            assert torch.equal(one, other)


def _in_child(name: str, problem: Problem, queue) -> None:
    queue.put([one.numpy() for one in answers(name, problem, "numba")])


@every
@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not available")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_kernels_work_in_a_forked_process(name) -> None:
    scores = torch.randn(300, 40)
    problem = Problem(scores, None if name in FREE else 0.1 + torch.rand(300, 40))
    expected = answers(name, problem, "numba")
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(name, problem, queue))
    child.start()
    found = queue.get()
    child.join(30)
    assert child.exitcode == 0
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(torch.from_numpy(one), other)


INFERENCE = """
import regard.layers.recurrent
x = torch.zeros(7, 4)
with torch.inference_mode():
    regard.functional.linear_log_likelihood(x, x, torch.zeros(7), torch.zeros(7, dtype=torch.int64))
    regard.layers.recurrent.lstm_cell(torch.zeros(7, 16), torch.zeros(7, 16), (x, x))
"""
HEAVY = {"numba", "llvmlite", "triton", "pydantic", "sentencepiece", "sacrebleu", "torch._dynamo"}
REST = {"regard.models", "regard.data", "regard.config"}


def test_import_and_inference_load_no_heavy_packages() -> None:
    code = f"""
import sys, torch, regard.functional, regard.nn
print({HEAVY | REST} & set(sys.modules))
{INFERENCE}
print({{"numba"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["set()", "set()"]
