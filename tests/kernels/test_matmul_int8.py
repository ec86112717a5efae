"""Tests of matrix multiplication with weights quantized to int8."""

import copy
import gc
import weakref

import numpy as np
import pytest
import torch

from regard.errors import DeviceError
from regard.kernels.backend import use_backend
from regard.kernels.matmul import Int8Weight, check_int8, linear, matmul

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
    weight = Int8Weight(matrix)
    # float32 may round an operand halfway between two integers either way, which affects some entries.
    expected = _by_definition(x, matrix)
    step = (x.abs().amax(1, keepdim=True) / 127 * matrix.abs().amax(0)).numpy()
    found = matmul(x, weight).double().numpy()
    assert (np.abs(found - expected) <= 2 * step + 1e-6).all()
    assert np.isclose(found, expected, rtol=1e-5, atol=1e-5).mean() > 0.9
    assert torch.equal(matmul(x, weight)[:, 0], torch.zeros(rows))
    torch.testing.assert_close(matmul(x, weight, bias), matmul(x, weight) + bias)


def test_error_is_at_most_half_a_quantization_step_per_operand(version) -> None:
    x, matrix = torch.randn(20, 64, dtype=torch.float64), torch.randn(64, 48, dtype=torch.float64)
    weight = Int8Weight(matrix.float())
    half_x, half = x.abs().amax(1, keepdim=True) / 254, matrix.abs().amax(0, keepdim=True) / 254
    bound = half_x * matrix.abs().sum(0) + half * x.abs().sum(1, keepdim=True) + 64 * half_x * half
    error = (matmul(x.float(), weight).double() - x @ matrix).abs()
    assert (error <= bound + 1e-4).all() and error.max() > 0


def test_product_is_batch_invariant(version) -> None:
    x, matrix = torch.randn(9, 5, 64), Int8Weight(torch.randn(64, 70))
    together = matmul(x, matrix)
    assert together.shape == (9, 5, 70)
    for i in range(9):
        assert torch.equal(matmul(x[i, 2], matrix), together[i, 2])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_nan_and_inf_stay_in_their_row(bad, version) -> None:
    x, matrix, bias = torch.randn(3, 32), Int8Weight(torch.randn(32, 16)), torch.randn(16)
    x[1, 7], x[2] = bad, 0
    found = matmul(x, matrix, bias)
    assert found[1].isnan().all() and found[0].isfinite().all() and torch.equal(found[2], bias)


def test_views_of_an_int8_weight_are_multiplied_in_int8() -> None:
    weight = Int8Weight(torch.randn(40, 30))
    x, y = torch.randn(4, 40), torch.randn(4, 30)
    views = (
        (x, weight),
        (y, weight.t()),
        (x[:, 10:], weight[10:]),
        (x, weight[:, 3:9]),
        (y, weight.t()[:, 4:]),
    )
    with torch.inference_mode():
        for left, view in views:
            exact = view.detach()
            assert type(view) is Int8Weight and not torch.equal(matmul(left, view), left @ exact)
            assert np.isclose(matmul(left, view), _by_definition(left, exact), atol=1e-4).mean() > 0.9
            assert torch.equal(matmul(left, view), linear(left, view))


def test_other_operations_use_the_float32_values() -> None:
    matrix = torch.randn(12, 20)
    weight = Int8Weight(matrix)
    tokens, x = torch.tensor([[3, 0], [11, 3]]), torch.randn(4, 12)
    results = {
        "embedding": (torch.nn.functional.embedding(tokens, weight), matrix[tokens]),
        "matmul": (x @ weight, x @ matrix),
        "row": (weight[2], matrix[2]),
        "product": (weight * 2, matrix * 2),
    }
    for found, expected in results.values():
        assert type(found) is torch.Tensor and torch.equal(found, expected)
    assert torch.equal(matmul(x.double(), weight.double()), x.double() @ matrix.double())


def test_int8_weight_is_a_parameter_of_its_module() -> None:
    layer = torch.nn.Linear(16, 18)
    layer.weight = Int8Weight(layer.weight)
    assert type(layer.weight) is Int8Weight and not layer.weight.requires_grad
    assert type(dict(layer.named_parameters())["weight"]) is Int8Weight
    copied = copy.deepcopy(layer).weight
    x = torch.randn(3, 16)
    assert type(copied) is Int8Weight and torch.equal(matmul(x, copied.t()), matmul(x, layer.weight.t()))


def test_modified_matrix_is_quantized_again() -> None:
    matrix, x = torch.randn(20, 20), torch.randn(2, 20)
    weight = Int8Weight(matrix)
    before = matmul(x, weight)
    matrix.mul_(2)
    torch.testing.assert_close(matmul(x, weight), 2 * before)


def test_each_view_is_quantized_once() -> None:
    weight, x = Int8Weight(torch.randn(20, 30)), torch.randn(2, 30)
    assert weight.t().quantize() is weight.t().quantize()
    assert weight.quantize() is not weight.t().quantize()
    assert torch.equal(matmul(x, weight.t()), matmul(x, weight.t()))


def test_deleted_weight_is_freed() -> None:
    weight = Int8Weight(torch.randn(20, 20))
    matmul(torch.randn(2, 20), weight)
    matmul(torch.randn(2, 20), weight.t())
    values, storage = weakref.ref(weight.quantize().values), weakref.ref(weight)
    del weight
    gc.collect()
    assert values() is None and storage() is None


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
