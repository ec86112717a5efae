"""Tests of matrix multiplication: precision, dispatch by processor, gradients and environment variables."""

import os

import pytest
import torch

from regard.kernels import matmul as matmul_module
from regard.kernels.matmul import linear, matmul

SHAPES = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((9, 3, 4), (9, 4, 5)),
    ((0, 4), (4, 5)),
]


@pytest.mark.parametrize("shapes", SHAPES)
def test_float32_product_matches_float64(shapes) -> None:
    x, matrix = (torch.randn(shape) for shape in shapes)
    bias = torch.randn(shapes[1][-1])
    exact = x.double() @ matrix.double() + bias.double()
    torch.testing.assert_close(matmul(x, matrix, bias), exact.float(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(matmul(x, matrix), (exact - bias).float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("slow", [True, False])
@pytest.mark.parametrize("shapes", SHAPES)
def test_bfloat16_product_is_the_rounded_exact_product(shapes, slow, monkeypatch) -> None:
    # Processors with slow bfloat16 arithmetic compute in float32 and round the result.
    monkeypatch.setattr(matmul_module, "_SLOW_BFLOAT16", slow)
    x, matrix, bias = (torch.randn(shape).bfloat16() for shape in (*shapes, shapes[1][-1:]))
    exact = x.double() @ matrix.double() + bias.double()
    found = matmul(x, matrix, bias)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), exact, rtol=2**-7, atol=2**-6)


FLAGS = "vendor_id : {}\nflags\t\t: fpu avx512f {}\nvendor_id : {}\n"


@pytest.mark.parametrize(
    ("processor", "slow"),
    [
        (FLAGS.format("GenuineIntel", "avx512_bf16", "GenuineIntel"), True),
        (FLAGS.format("GenuineIntel", "avx512_bf16 amx_bf16", "GenuineIntel"), False),
        (FLAGS.format("AuthenticAMD", "avx512_bf16", "AuthenticAMD"), False),
        (FLAGS.format("AuthenticAMD", "avx2", "AuthenticAMD"), True),
        ("Features\t: fp asimd bf16", False),
        ("arm", False),
    ],
)
def test_slow_bfloat16_is_detected_from_processor_flags(processor, slow) -> None:
    assert matmul_module._has_slow_bfloat16(processor) == slow


def test_product_without_onednn_is_the_same(monkeypatch) -> None:
    monkeypatch.setattr(matmul_module, "_LINEAR", matmul_module._onednn_linear())
    x, matrix, bias = torch.randn(6, 4), torch.randn(4, 5), torch.randn(5)
    with_it = matmul(x, matrix, bias)
    monkeypatch.setattr(matmul_module, "_LINEAR", None)
    torch.testing.assert_close(matmul(x, matrix, bias), with_it, rtol=1e-5, atol=1e-5)


def test_gradcheck_of_linear() -> None:
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((2, 3, 4), (4, 5), (5,))]
    assert torch.autograd.gradcheck(linear, inputs)
    assert torch.autograd.gradcheck(lambda x, m: linear(x, m), inputs[:2])


@pytest.mark.parametrize("name", ["ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"])
def test_environment_variable_overrides_the_default_cache_size(name, monkeypatch) -> None:
    for environment, size in (({name: "7"}, "7"), ({}, "16")):
        monkeypatch.setattr(os, "environ", environment)
        matmul_module.limit_kernel_caches()
        assert os.environ[name] == size
