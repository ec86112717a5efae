"""Tests of dropout: the random numbers of the kernel, its statistics, gradients and special values."""

import pytest
import torch

from regard.kernels.backend import use_backend
from regard.kernels.dropout import DROPOUT_RESOLUTION, dropout, supports_dropout

PRECISIONS = [torch.float32, torch.bfloat16]


def splitmix64(seed: int, count: int) -> list[int]:
    """Return `count` numbers of the SplitMix64 generator of Steele et al. (2014), in Python integers."""
    found, mask = [], (1 << 64) - 1
    for i in range(1, count + 1):
        z = (seed + 0x9E3779B97F4A7C15 * i) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        found.append(z ^ (z >> 31))
    return found


def expected(x: torch.Tensor, probability: float) -> torch.Tensor:
    """Compute the kernel's output number by number, with a seed sampled in the same way."""
    seed = int(torch.empty((), dtype=torch.int64).random_(-(2**63), None))
    words = splitmix64(seed, (x.numel() + 3) // 4)
    level = round(probability * DROPOUT_RESOLUTION)
    kept = [(words[i // 4] >> (16 * (i % 4))) % DROPOUT_RESOLUTION >= level for i in range(x.numel())]
    return x.float() * torch.tensor(kept).view(x.shape) * (DROPOUT_RESOLUTION / (DROPOUT_RESOLUTION - level))


def test_splitmix64_matches_published_values() -> None:
    # The first numbers for the seed 1234567 as listed by Rosetta Code, task "Splitmix64".
    assert splitmix64(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 1024), (5, 7, 61), (40, 1025)])
def test_kernel_matches_the_generator(shape, dtype) -> None:
    x = torch.randn(shape).to(dtype)
    assert supports_dropout(x)
    torch.manual_seed(5)
    found = dropout(x, 0.3, training=True)
    torch.manual_seed(5)
    assert torch.equal(found, expected(x, 0.3).to(dtype))


def test_noise_does_not_depend_on_threads() -> None:
    x, found, threads = torch.randn(200, 301), [], torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            torch.manual_seed(1)
            found.append(dropout(x, 0.4, training=True))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_evaluation_and_probability_zero_return_the_input() -> None:
    x = torch.randn(3)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x
    assert torch.equal(dropout(x, 0.5, training=False, relu=True), x.relu())
    assert torch.equal(dropout(x, 0.0, training=True, residual=x), x + x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_gradient_is_the_noise(dtype) -> None:
    x = torch.randn(50, 7, dtype=dtype, requires_grad=True)
    found = dropout(x, 0.5, training=True)
    found.sum().backward()
    assert x.grad is not None and x.grad.dtype == dtype
    torch.testing.assert_close(x.grad * x.detach(), found.detach())


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_relu_dropout_equals_relu_then_dropout(dtype) -> None:
    x = torch.randn(50, 31).to(dtype).requires_grad_()
    gradient = torch.randn(31, 50).to(dtype).t()
    torch.manual_seed(2)
    found = dropout(x, 0.3, training=True, relu=True)
    by_one = torch.autograd.grad(found, x, gradient)[0]
    torch.manual_seed(2)
    in_turn = dropout(x.relu(), 0.3, training=True)
    by_two = torch.autograd.grad(in_turn, x, gradient)[0]
    assert torch.equal(found, in_turn)
    assert torch.equal(by_one, by_two)


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_add_dropout_adds_to_the_residual(dtype) -> None:
    x, residual = torch.randn(50, 31).to(dtype).requires_grad_(), torch.randn(31, 50).t().requires_grad_()
    gradient = torch.randn(50, 31)
    torch.manual_seed(2)
    found = dropout(x, 0.3, training=True, residual=residual)
    by_x, by_residual = torch.autograd.grad(found, (x, residual), gradient)
    torch.manual_seed(2)
    noise = dropout(torch.ones(50, 31), 0.3, training=True)
    assert found.dtype == by_residual.dtype == torch.float32 and by_x.dtype == dtype
    torch.testing.assert_close(found, residual + x.float() * noise, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(by_x, (gradient * noise).to(dtype))
    assert torch.equal(by_residual, gradient)


def test_add_dropout_broadcasts() -> None:
    found = dropout(torch.ones(3, 5, 4), 0.5, training=True, residual=torch.ones(3, 1, 4))
    assert found.shape == (3, 5, 4)
    assert set(found.flatten().tolist()) <= {1.0, 3.0}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3.3e38])
def test_nan_and_inf_are_propagated(value) -> None:
    x = torch.full((64,), value, dtype=torch.bfloat16)
    found = dropout(x, 0.25, training=True)
    kept = found[found != 0].float()
    assert kept.isnan().all() if value != value else kept.isinf().all()


def test_probability_near_one_drops_nearly_everything() -> None:
    x = torch.ones(1 << 18, requires_grad=True)
    found = dropout(x, 1 - 2**-20, training=True)
    found.sum().backward()
    # The kernel limits the probability to 1 - 2^-16, so that about 4 +- 2 values are kept.
    assert found.unique().tolist() == [0, 1 << 16]
    assert (found > 0).sum() < 20
    assert x.grad is not None and torch.equal(x.grad, found.detach())


def test_kernel_is_not_used_on_other_devices() -> None:
    with use_backend("numba"):
        assert dropout(torch.empty(5000, device="meta"), 0.5, training=True).device.type == "meta"
        assert not supports_dropout(torch.empty(5, device="meta"), torch.empty(5))


def test_kernel_is_not_used_under_torch_compile(monkeypatch) -> None:
    x = torch.ones(100)
    assert supports_dropout(x)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not supports_dropout(x)
    assert set(dropout(x, 0.5, training=True).tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_relu_gradient_of_nan_is_that_of_pytorch(dtype) -> None:
    x = torch.full((4096,), torch.nan).to(dtype).requires_grad_()
    (by_x,) = torch.autograd.grad(dropout(x, 0.5, training=True, relu=True), x, torch.ones_like(x))
    assert set(by_x.tolist()) == {0.0, 2.0}
