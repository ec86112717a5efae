"""Tests of the transformations under torch.compile, torch.export and torch.func."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.func import grad, jacrev, vmap

from problems import BOUNDED, FREE, SCANS

NORMALIZERS = {**FREE, **BOUNDED}
DOUBLE = torch.float64


@pytest.mark.slow
def test_compiled_and_exported_functions_equal_eager_execution() -> None:
    command = [sys.executable, "-m", "compiling"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def arguments(name: str) -> list[torch.Tensor]:
    scores = torch.randn(5, 6, dtype=DOUBLE)
    return [scores] if name in FREE else [scores, 0.2 + torch.rand(5, 6, dtype=DOUBLE)]


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
        torch.testing.assert_close(weight @ jacrev(NORMALIZERS[name], argnums=i)(*rows), expected[0])


@pytest.mark.parametrize("name", SCANS)
def test_vmap_of_scans_equals_the_batch(name) -> None:
    scores, fertility = torch.randn(3, 2, 4, 5, dtype=DOUBLE), torch.full((3, 2, 5), 0.9, dtype=DOUBLE)
    torch.testing.assert_close(vmap(SCANS[name])(scores, fertility), SCANS[name](scores, fertility))
