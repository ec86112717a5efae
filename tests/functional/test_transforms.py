"""Tests of the transformations under torch.compile, torch.export and torch.func."""

import subprocess
from pathlib import Path

import pytest
import torch
from torch.func import grad, hessian, jacfwd, jacrev, vmap

from problems import BOUNDED, FREE
from regard.functional import (
    constrained_softmax_scan,
    constrained_sparsemax_scan,
    entmax,
    entmax15_loss,
    entmax_loss,
    normmax_loss,
    sparsemax_loss,
)
from warm_python import warm_python

# PyTorch itself uses `torch.jit.script` in forward mode.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")

NORMALIZERS = {**FREE, **BOUNDED}
SCANS = {"softmax": constrained_softmax_scan, "sparsemax": constrained_sparsemax_scan}
DOUBLE = torch.float64
SHARED = ["softmax", "fusedmax", "oscarmax", "normmax", "entmax", *(f"{name} number" for name in BOUNDED)]
KERNELS = ["sparsemax", "entmax15", *(f"{name}{kind}" for name in BOUNDED for kind in ("", " lower"))]
KERNELS += ["constrained_softmax_scan", "constrained_sparsemax_scan", "sparsemax_loss", "entmax15_loss"]


@pytest.mark.slow
def test_compiled_and_exported_functions_equal_eager_execution() -> None:
    command = [warm_python(), "-m", "compiling"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split("\n")[:-1] == SHARED + KERNELS


def arguments(name: str) -> list[torch.Tensor]:
    scores = torch.randn(5, 6, dtype=DOUBLE)
    return [scores] if name in FREE else [scores, 0.2 + torch.rand(5, 6, dtype=DOUBLE)]


@pytest.mark.parametrize("name", NORMALIZERS)
def test_vmap_equals_the_loop(name) -> None:
    inputs = arguments(name)
    expected = NORMALIZERS[name](*inputs)
    torch.testing.assert_close(vmap(NORMALIZERS[name])(*inputs), expected)
    torch.testing.assert_close(
        vmap(NORMALIZERS[name], in_dims=1, out_dims=1)(*(one.T for one in inputs)), expected.T
    )


@pytest.mark.parametrize("name", NORMALIZERS)
def test_per_row_gradients_and_jacobians_equal_autograd(name) -> None:
    inputs = arguments(name)
    weight = torch.randn(6, dtype=DOUBLE)
    for i in range(len(inputs)):
        leaves = [one.clone().requires_grad_() for one in inputs]
        (expected,) = torch.autograd.grad((NORMALIZERS[name](*leaves) * weight).sum(), leaves[i])
        found = vmap(grad(lambda *row: (NORMALIZERS[name](*row) * weight).sum(), argnums=i))(*inputs)
        torch.testing.assert_close(found, expected)
        rows = [one[0] for one in inputs]
        for jacobian in (jacfwd, jacrev):
            found = jacobian(NORMALIZERS[name], argnums=i)(*rows)
            torch.testing.assert_close(weight @ found, expected[0])


@pytest.mark.parametrize("name", NORMALIZERS)
def test_hessians_equal_those_of_two_backward_passes(name) -> None:
    first, *bounds = (one[0] for one in arguments(name))

    def objective(scores: torch.Tensor) -> torch.Tensor:
        return (NORMALIZERS[name](scores, *bounds) * torch.arange(6)).sum()

    expected = torch.autograd.functional.hessian(objective, first)
    torch.testing.assert_close(hessian(objective)(first), expected)


@pytest.mark.parametrize("loss", [sparsemax_loss, entmax15_loss, entmax_loss, normmax_loss])
def test_forward_mode_of_losses_equals_reverse_mode(loss) -> None:
    scores, targets = torch.randn(4, 6, dtype=DOUBLE), torch.tensor([0, 3, -100, 5])

    def losses(z: torch.Tensor) -> torch.Tensor:
        return loss(z, targets, reduction="none")

    torch.testing.assert_close(jacfwd(losses)(scores), jacrev(losses)(scores))
    total = torch.autograd.functional.hessian(lambda z: losses(z).sum(), scores)
    torch.testing.assert_close(hessian(lambda z: losses(z).sum())(scores), total)


@pytest.mark.parametrize("alpha", [1.3, 2.5])
def test_forward_mode_of_alpha_equals_reverse_mode(alpha) -> None:
    inputs = torch.randn(4, 6, dtype=DOUBLE), torch.tensor(alpha, dtype=DOUBLE)
    for forward, reverse in zip(*(each(entmax, (0, 1))(*inputs) for each in (jacfwd, jacrev)), strict=True):
        torch.testing.assert_close(forward, reverse)


@pytest.mark.parametrize("name", SCANS)
def test_vmap_of_scans_equals_the_batch(name) -> None:
    scores, fertility = torch.randn(3, 2, 4, 5, dtype=DOUBLE), torch.full((3, 2, 5), 0.9, dtype=DOUBLE)
    torch.testing.assert_close(vmap(SCANS[name])(scores, fertility), SCANS[name](scores, fertility))
