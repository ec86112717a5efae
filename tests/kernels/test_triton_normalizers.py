"""Tests of the Triton kernels against the reference, on the GPU or else in the Triton interpreter."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

ON_DEVICE = torch.cuda.is_available()
if not ON_DEVICE:
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton")

from problems import (  # noqa: E402
    LARGEST,
    assert_distributions,
    bounded_problems,
    extreme_problems,
    free_problems,
)
from regard.functional import (  # noqa: E402
    constrained_softmax,
    constrained_softmax_scan,
    constrained_sparsemax,
    constrained_sparsemax_scan,
    entmax15,
    sparsemax,
)
from regard.kernels._triton.thresholds import INTERPRETED  # noqa: E402
from regard.kernels.backend import use_backend  # noqa: E402

FREE = [sparsemax, entmax15]
BOUNDED = [constrained_softmax, constrained_sparsemax]
SCANS = [constrained_softmax_scan, constrained_sparsemax_scan]
few = settings(max_examples=25)

devices = pytest.mark.parametrize(
    "device",
    [
        pytest.param(
            "cpu",
            marks=pytest.mark.skipif(not INTERPRETED, reason="Triton was imported without its interpreter"),
        ),
        pytest.param(
            "cuda",
            marks=[pytest.mark.gpu, pytest.mark.skipif(not ON_DEVICE, reason="requires a CUDA device")],
        ),
    ],
)


# A GPU computes 0 / 0 and log 0 silently. NumPy, which the interpreter uses, warns.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(autouse=True, scope="module")
def _language_patched_once() -> Iterator[None]:
    """Patch Triton's language only at the first call of a device function.

    The interpreter does so at each call, which takes half of the time. A launch patches the language of its
    kernel and restores it. The other patches, of the first call of a device function, are never restored.
    """
    from triton.runtime.interpreter import InterpretedFunction

    original, called = InterpretedFunction.__call__, set()

    def call(self: InterpretedFunction, *args: Any, **kwargs: Any) -> Any:
        if self in called:
            return self.rewrite()(*args, **kwargs)
        called.add(self)
        return original(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InterpretedFunction, "__call__", call)
        yield


def answers(version: str, device: str, map: Callable[..., torch.Tensor], operands: tuple, options: dict):
    """Return the weights and the gradients of all operands, on the CPU."""
    made = [one.detach().to(device).requires_grad_() for one in operands]
    options = {key: one.to(device) if isinstance(one, torch.Tensor) else one for key, one in options.items()}
    with use_backend(version):  # pyright: ignore[reportArgumentType]
        weights = map(*made, **options)
        upstream = torch.randn(weights.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
        found = torch.autograd.grad(weights, made, upstream.to(weights))
    return [each.detach().cpu() for each in (weights, *found)]


def check(device: str, map: Callable[..., torch.Tensor], *operands: torch.Tensor, **options: object) -> None:
    """Assert that the kernels on the device agree with the reference on the CPU."""
    expected = answers("reference", "cpu", map, operands, options)
    tolerance = 5e-9 if operands[0].dtype == torch.float64 else 5e-6
    for actual, reference in zip(answers("triton", device, map, operands, options), expected, strict=True):
        torch.testing.assert_close(actual, reference, atol=tolerance, rtol=tolerance, equal_nan=True)


def feasible(bounds: torch.Tensor, least: float = 1.02) -> torch.Tensor:
    """Return the bounds, scaled up where they sum to less than `least`."""
    return bounds * (least / bounds.sum(-1, keepdim=True)).clamp_min(1)


MAGNITUDES = torch.tensor([0.0, 1.0, -1.0, 1e5, -1e5, 1e10, -1e16, 1e20, -1e20, LARGEST, -LARGEST])


@devices
@pytest.mark.parametrize("map", [*FREE, *BOUNDED])
@given(data=st.data())
@few
def test_transformations_equal_the_reference(device: str, map, data) -> None:
    problem = data.draw(free_problems() if map in FREE else bounded_problems())
    problem = problem.to(data.draw(st.sampled_from([torch.float32, torch.float64])))
    operands = [each for each in (problem.scores, problem.upper, problem.lower) if each is not None]
    check(device, map, *operands, mask=problem.mask)


@devices
@pytest.mark.parametrize("map", [*FREE, *BOUNDED])
@given(data=st.data())
@few
def test_transformations_of_extreme_scores_equal_the_reference(device: str, map, data) -> None:
    problem = data.draw(extreme_problems(bounds=map in BOUNDED))
    operands = [each for each in (problem.scores, problem.upper, problem.lower) if each is not None]
    check(device, map, *operands, mask=problem.mask)
    with use_backend("triton"):
        weights = problem.each(lambda one: one.to(device)).apply(map).cpu()
    assert_distributions(problem, weights)


@devices
@pytest.mark.parametrize("map", [*FREE, *BOUNDED])
def test_long_rows_and_broadcast_bounds_equal_the_reference(device: str, map) -> None:
    long = torch.randn(2, 600) * 10
    check(device, map, long, *(() if map in FREE else (feasible(torch.rand(2, 600) / 200),)))
    scores = torch.randn(2, 3, 4, 7)
    mask = torch.rand(2, 1, 1, 7) > 0.4
    mask[..., 0] = True
    ample = torch.rand(2, 1, 1, 7) + 1
    check(device, map, scores, *(() if map in FREE else (ample,)), mask=mask)
    if map in BOUNDED:
        check(device, map, scores, torch.tensor(0.4), torch.rand(2, 3, 1, 7) / 7)


@devices
@pytest.mark.parametrize("map", [*FREE, *BOUNDED, *SCANS])
def test_masked_and_nonfinite_scores_equal_the_reference(device: str, map) -> None:
    """`functional/test_nonfinite_scores.py` tests the reference."""
    scores = torch.randn(7, 3, 6)
    scores[0, 1, 2], scores[1, 1, 3] = torch.nan, torch.inf
    scores[2, 1, 2], scores[3, 1] = -torch.inf, -torch.inf
    scores[4, 1, 0], scores[5, 1, 0] = torch.nan, torch.inf
    mask = torch.ones(7, 3, 6, dtype=torch.bool)
    mask[:, :, 0], mask[6, 1] = False, False
    bounds = () if map in FREE else (torch.tensor([0.5, 0.8, 0.7, torch.inf, 1.5, torch.inf]),)
    if map in SCANS:
        bounds = (bounds[0].expand(7, 6),)
    check(device, map, scores, *bounds, mask=mask)


@devices
@pytest.mark.parametrize("map", BOUNDED)
def test_infeasible_rows_are_nan_and_do_not_affect_others(device: str, map) -> None:
    scores = torch.randn(5, 4)
    upper = torch.ones(5, 4)
    lower = torch.zeros(5, 4)
    upper[1] = 0.2
    lower[2] = 0.3
    lower[3, 1], upper[3, 1] = 0.4, 0.3
    upper[4, 0] = torch.nan
    with use_backend("triton"):
        weights = map(scores.to(device), upper.to(device), lower.to(device)).cpu()
    assert weights[1:].isnan().all()
    torch.testing.assert_close(weights[0].sum(), torch.tensor(1.0))


@devices
@pytest.mark.parametrize("exhaustion", [0.0, 0.3])
@pytest.mark.parametrize("map", SCANS)
def test_scans_equal_the_reference(device: str, map, exhaustion: float) -> None:
    scores = torch.randn(2, 3, 5)
    fertility = torch.rand(2, 5) * 2
    fertility[:, 4] = torch.inf
    # Unit fertilities (Malaviya et al. (2018), Figure 1): the bounds alone determine the last step.
    check(device, map, scores[:, :, :3], torch.ones(2, 3), exhaustion=exhaustion)
    mask = torch.rand(2, 1, 5) > 0.3
    mask[..., 4] = True
    check(device, map, scores, fertility, exhaustion=exhaustion)
    check(device, map, scores * 3e3, fertility, exhaustion=exhaustion, mask=mask[:, 0])
    check(device, map, scores.double(), fertility.double(), exhaustion=exhaustion, mask=mask)
    extremes = MAGNITUDES[torch.randint(len(MAGNITUDES), (2, 3, 5))] + scores
    check(device, map, extremes.clamp(-LARGEST, LARGEST), fertility, exhaustion=exhaustion)


@devices
@pytest.mark.parametrize("map", SCANS)
def test_scan_is_nan_after_the_budget_is_exhausted(device: str, map) -> None:
    with use_backend("triton"):
        weights = map(torch.randn(1, 4, 3).to(device), torch.full((1, 3), 0.7, device=device)).cpu()
    assert weights[0].isnan().any(-1).tolist() == [False, False, True, True]


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from regard.kernels._triton import normalizers

ROWS, SCAN = dict(K=8, R=4, L=8), dict(LENGTH=1024)
BOUNDS, FREELY = dict(MASKED=True, BOUNDED=True, LEAST=True), dict(MASKED=True, BOUNDED=False, LEAST=False)
BACK = dict(BOUNDED=True, BOUND=True, LEAST=True)
for name, kind, given in [
    ("forward_rows", 0, FREELY | ROWS),
    ("forward_rows", 1, FREELY | ROWS),
    ("forward_rows", 2, BOUNDS | ROWS),
    ("forward_rows", 3, BOUNDS | ROWS),
    ("backward_rows", 2, BACK | ROWS),
    ("forward_scan", 3, dict(MASKED=True) | SCAN),
    ("backward_scan", 3, SCAN),
]:
    kernel, constants = getattr(normalizers, name), given | dict(KIND=kind)
    # A number that is specialized on multiplies the kernels that are compiled during training.
    numbers = [one for one in kernel.params if one.name in normalizers.COUNTS or one.name == "size"]
    assert [one.name for one in numbers if not one.do_not_specialize] == ["size"], name
    for number in ("fp32", "fp64"):
        types = {}
        for one in kernel.arg_names:
            counts = one in ("rows", "size", "steps")
            pointer = "*u8" if one in ("mask", "status") else "*" + number
            types[one] = "i32" if counts else "fp32" if one.startswith("exhaustion") else pointer
            types[one] = "constexpr" if one in constants else types[one]
        places = {(kernel.arg_names.index(one),): value for one, value in constants.items()}
        triton.compile(ASTSource(kernel, types, places), target=GPUTarget("cuda", 90, 32))
"""


@pytest.mark.slow
def test_kernels_compile_without_the_interpreter(tmp_path) -> None:
    """The compiler is stricter than the interpreter. Compilation needs no GPU."""
    pytest.importorskip("triton.backends.nvidia")
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    made = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-2000:]
