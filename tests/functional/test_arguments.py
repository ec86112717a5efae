"""Tests of valid and invalid arguments of the transformations, without the suite's shape checks."""

import inspect
import os
import subprocess
import sys

import pytest
import torch

import regard.functional as functional
from problems import BOUNDED, FREE, SCANS
from regard.functional import check_bounds, entmax, entmax15, fusedmax, softmax, sparsemax
from regard.kernels.backend import use_backend

PLAIN = [softmax, sparsemax, entmax15, entmax, fusedmax]

INVALID_CALLS = """
import torch
from regard.functional import *

scores, integers, three = torch.randn(2, 4), torch.arange(8).view(2, 4), torch.ones(3)
free = sparsemax, entmax15, entmax, fusedmax, softmax
scans = constrained_softmax_scan, constrained_sparsemax_scan
calls = [(check_bounds, {"upper": torch.ones(2, 4), "lower": three}, "lower has shape [3]")]
for f in (*free, *scans, constrained_softmax, constrained_sparsemax):
    name = "fertility" if f in scans else "upper"
    bounds = {} if f in free else {name: 1.0 if name == "upper" else torch.ones(4)}
    calls.append((f, {"scores": integers, **bounds}, "scores have dtype torch.int64"))
    for mask, text in ((integers[0], "mask has dtype torch.int64"), (three > 0, "mask has shape [3]")):
        calls.append((f, {"scores": scores, "mask": mask, **bounds}, text))
    if bounds:
        calls.append((f, {"scores": scores, name: three}, f"{name} has shape [3]"))
    if name in bounds and f not in scans:
        calls.append((f, {"scores": scores, "upper": 1.0, "lower": three / 9}, "lower has shape [3]"))
        calls.append((f, {"scores": scores, "upper": [1.0] * 4}, "upper is of type list"))
for function, arguments, text in calls:
    try:
        function(**arguments)
    except (TypeError, ValueError) as error:
        assert text in str(error), (function, text, error)
    else:
        raise AssertionError((function, text))
"""


def test_invalid_arguments_raise_with_their_name() -> None:
    environment = {**os.environ, "REGARD_NO_SHAPE_CHECKS": "1"}
    subprocess.run([sys.executable, "-c", INVALID_CALLS], env=environment, check=True)


@pytest.mark.parametrize("alpha", [1.0, 0.5, -1.0, 4.1, torch.nan])
@pytest.mark.parametrize("shape", [(), (3, 1)])
def test_tensor_alpha_out_of_range_raises(alpha: float, shape: tuple[int, ...]) -> None:
    alphas = torch.full(shape, 1.5)
    alphas.view(-1)[-1] = alpha
    with pytest.raises(ValueError, match=r"alpha is .*, but entmax requires alpha in \(1, 4\]"):
        entmax(torch.randn(3, 5), alphas)
    rows = torch.func.vmap(entmax, in_dims=(0, None))(torch.randn(2, 3, 5), alphas)
    assert rows[:, -1].isnan().all()  # vmap cannot raise on values


def test_scalar_alpha_keeps_double_precision() -> None:
    scores = torch.randn(20, 7, dtype=torch.float64) * 3
    exact = entmax(scores, torch.tensor(1.7, dtype=torch.float64))
    torch.testing.assert_close(entmax(scores, 1.7), exact, atol=1e-15, rtol=0)
    # Rounded to float32, alpha would be 1, and the formula divides by alpha - 1.
    for dtype, near in ((torch.float32, 1e-6), (torch.float64, 1e-8)):
        found = entmax(scores.to(dtype), 1 + 1e-9)
        torch.testing.assert_close(found, torch.softmax(scores, -1).to(dtype), atol=near, rtol=0)


@pytest.mark.parametrize("function", PLAIN)
def test_dim_is_positional_as_in_pytorch(function) -> None:
    scores = torch.randn(3, 4, 5)
    others = {entmax: (1.7,), fusedmax: (0.3,)}.get(function, ())
    mask = torch.rand(4, 1) < 0.7
    for dim in (0, 1, 2, -3):
        turned = mask.expand(3, 4, 5).movedim(dim, -1)
        moved = function(scores.movedim(dim, -1), *others, mask=turned).movedim(-1, dim)
        torch.testing.assert_close(function(scores, *others, dim, mask=mask), moved)
    assert torch.equal(functional.softmax(scores, 1), torch.softmax(scores, 1))
    for bounded in BOUNDED.values():
        assert tuple(inspect.signature(bounded).parameters)[:4] == ("scores", "upper", "lower", "dim")
        torch.testing.assert_close(
            bounded(scores, 0.5, 0.1, 1), bounded(scores.movedim(1, -1), 0.5, 0.1).movedim(-1, 1)
        )
    check_bounds(torch.full((4, 2), 0.3), 0.1, 0)


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("version", ["numba", "reference"])
def test_scalar_bound_applies_to_every_position(name, dtype, version) -> None:
    scores = torch.randn(6, 5).to(dtype)
    exact = dtype if dtype == torch.float64 else torch.float32
    with use_backend(version):
        for upper, lower in ((0.3, None), (1, 0), (0.3, 0.05), (torch.inf, 0.1)):
            bounds = [torch.full((6, 5), one, dtype=exact) for one in (upper, lower or 0.0)]
            expected = BOUNDED[name](scores, bounds[0], None if lower is None else bounds[1])
            assert torch.equal(BOUNDED[name](scores, upper, lower), expected)
            check_bounds(bounds[0], lower)


@pytest.mark.parametrize("scan", SCANS.values())
def test_scalar_fertility_applies_to_every_word(scan) -> None:
    scores = torch.randn(2, 4, 5)
    assert torch.equal(scan(scores, 2), scan(scores, torch.full((2, 5), 2.0)))
    assert torch.equal(scan(scores[0], 2.0), scan(scores, 2)[0])


@pytest.mark.parametrize("name", [*FREE, *BOUNDED])
def test_scalar_score_gets_weight_one(name) -> None:
    scores = torch.tensor(0.3, requires_grad=True)
    for version in ("numba", "reference"):
        with use_backend(version):
            weight = FREE[name](scores) if name in FREE else BOUNDED[name](scores, 1.0)
            assert (float(weight.detach()), weight.dim()) == (1.0, 0)
            assert float(torch.autograd.grad(weight, scores)[0]) == 0
            if name in FREE:
                assert float(FREE[name](scores.detach(), mask=torch.tensor(False))) == 0
    with pytest.raises(IndexError):
        FREE[name](scores, dim=1) if name in FREE else BOUNDED[name](scores, 1.0, dim=1)
