"""Tests of matrix multiplication with weights quantized to int8."""

import gc

import numpy as np
import pytest
import torch

from regard.errors import DeviceError
from regard.kernels import int8
from regard.kernels.int8 import check_int8, is_int8_registered, quantized_matrix, register_int8
from regard.kernels.products import matmul
from regard.kernels.versions import use_backend

pytestmark = pytest.mark.usefixtures("exact_int8")


@pytest.fixture(params=["auto", "reference"])
def version(request):
    with use_backend(request.param):
        yield


def _by_definition(x: torch.Tensor, matrix: torch.Tensor) -> np.ndarray:
    """Compute the product of the rounded operands in float64, as defined in the module docstring."""
    x, matrix = x.double().numpy(), matrix.double().numpy()
    rows, columns = np.abs(x).max(1, keepdims=True) / 127, np.abs(matrix).max(0, keepdims=True) / 127
    rows, columns = (np.where(scales > 0, scales, 1) for scales in (rows, columns))
    return (np.rint(x / rows) * rows) @ (np.rint(matrix / columns) * columns)


@pytest.mark.parametrize("shape", [(1, 16, 16), (7, 33, 50), (40, 256, 1500), (3, 1500, 20)])
def test_product_equals_the_definition(shape, version) -> None:
    rows, inner, columns = shape
    x, matrix, bias = torch.randn(rows, inner), torch.randn(inner, columns), torch.randn(columns)
    # Rows and columns have scales of their own, so that a small row keeps its precision.
    x[0] *= 1e-3
    matrix[:, 0] = 0
    register_int8([matrix])
    # float32 may round an operand halfway between two integers either way, which affects some entries.
    expected = _by_definition(x, matrix)
    step = (x.abs().amax(1, keepdim=True) / 127 * matrix.abs().amax(0)).numpy()
    found = matmul(x, matrix).double().numpy()
    assert (np.abs(found - expected) <= 2 * step + 1e-6).all()
    assert np.isclose(found, expected, rtol=1e-5, atol=1e-5).mean() > 0.9
    assert torch.equal(matmul(x, matrix)[:, 0], torch.zeros(rows))
    torch.testing.assert_close(matmul(x, matrix, bias), matmul(x, matrix) + bias)


def test_error_is_at_most_half_a_quantization_step_per_operand(version) -> None:
    x, matrix = torch.randn(20, 64, dtype=torch.float64), torch.randn(64, 48, dtype=torch.float64)
    register_int8([single := matrix.float()])
    half_x, half = x.abs().amax(1, keepdim=True) / 254, matrix.abs().amax(0, keepdim=True) / 254
    bound = half_x * matrix.abs().sum(0) + half * x.abs().sum(1, keepdim=True) + 64 * half_x * half
    error = (matmul(x.float(), single).double() - x @ matrix).abs()
    assert (error <= bound + 1e-4).all() and error.max() > 0


def test_product_is_batch_invariant(version) -> None:
    x, matrix = torch.randn(9, 5, 64), torch.randn(64, 70)
    register_int8([matrix])
    together = matmul(x, matrix)
    assert together.shape == (9, 5, 70)
    for i in range(9):
        assert torch.equal(matmul(x[i, 2], matrix), together[i, 2])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_nan_and_inf_stay_in_their_row(bad, version) -> None:
    x, matrix, bias = torch.randn(3, 32), torch.randn(32, 16), torch.randn(16)
    x[1, 7], x[2] = bad, 0
    register_int8([matrix])
    found = matmul(x, matrix, bias)
    assert found[1].isnan().all() and found[0].isfinite().all() and torch.equal(found[2], bias)


def test_views_of_a_quantized_matrix_are_quantized_and_others_are_not() -> None:
    weight, other = torch.nn.Parameter(torch.randn(40, 30)), torch.randn(40, 30)
    register_int8([weight])
    x, y = torch.randn(4, 40), torch.randn(4, 30)
    with torch.inference_mode():
        for left, view in ((x, weight), (y, weight.t()), (x[:, 10:], weight[10:]), (x, weight[:, 3:9])):
            assert is_int8_registered(view) and not torch.equal(matmul(left, view), left @ view)
            assert np.isclose(matmul(left, view), _by_definition(left, view), atol=1e-4).mean() > 0.9
        assert not is_int8_registered(other) and torch.equal(matmul(x, other), x @ other)
        assert quantized_matrix(x.double(), weight) is None


def test_modified_matrix_is_quantized_again() -> None:
    matrix, x = torch.randn(20, 20), torch.randn(2, 20)
    register_int8([matrix])
    before = matmul(x, matrix)
    matrix.mul_(2)
    torch.testing.assert_close(matmul(x, matrix), 2 * before)


def test_deleted_matrix_is_freed() -> None:
    gc.collect()
    before = len(int8._registered)
    matrix = torch.randn(20, 20)
    register_int8([matrix])
    register_int8([matrix.t()])
    matmul(torch.randn(2, 20), matrix)
    assert len(int8._registered) == before + 1
    del matrix
    gc.collect()
    assert len(int8._registered) == before


def test_gpu_raises() -> None:
    with pytest.raises(DeviceError, match="int8: not supported on cuda, only on a CPU"):
        check_int8(torch.device("cuda"))


def test_processor_with_inexact_int8_products_raises(monkeypatch) -> None:
    exact = torch.ops.aten._int_mm
    # Emulate processors without VNNI, which sum pairs in 16 bits with saturation.
    monkeypatch.setattr(torch.ops.aten, "_int_mm", lambda x, y: exact(x, y).clamp(-32768, 32767))
    check_int8.cache_clear()
    with pytest.raises(DeviceError, match="does not multiply 8-bit integers exactly"):
        check_int8(torch.device("cpu"))
    check_int8.cache_clear()
