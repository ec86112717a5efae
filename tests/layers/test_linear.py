"""Tests of the products of time steps against autograd, and of weight-normalized layers against PyTorch."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from regard.layers.linear import StepLinear, WeightNormLinear, concatenate_windows


def recurrence(x: Tensor, product) -> Tensor:
    total = x.new_zeros(())
    for _ in range(4):
        x = torch.tanh(product(x))
        total = total + (x * x).sum()
    return total


def both(x: Tensor, matrix: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    results = []
    # `open` collects the gradient of the matrix over all steps; the reference is plain autograd.
    for opened in (True, False):
        x_, matrix_ = x.clone().requires_grad_(), matrix.clone().requires_grad_()
        product = StepLinear.prepare(matrix_) if opened else lambda v, m=matrix_: v @ m
        value = recurrence(x_, product)
        value.backward()
        results.append((value.detach(), x_.grad, matrix_.grad))
    return results


@pytest.mark.parametrize("shapes", [((3, 5), (5, 5)), ((2, 3, 5), (2, 5, 5)), ((2, 3, 5), (5, 5))])
def test_value_and_gradients_match_autograd(shapes) -> None:
    x, matrix = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    ours, plain = both(x, matrix)
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_gradients_of_repeated_and_direct_use_are_summed() -> None:
    matrix = torch.randn(4, 4, dtype=torch.float64)
    x = torch.randn(2, 4, dtype=torch.float64)
    grads = []
    for opened in (True, False):
        leaf = matrix.clone().requires_grad_()
        product = StepLinear.prepare(leaf) if opened else StepLinear(leaf)
        (product(product(x)).sum() + (product.weight**2).sum()).backward()
        grads.append(leaf.grad)
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-12, atol=1e-12)


def test_second_backward_pass_gives_the_same_gradient() -> None:
    leaf = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    product = StepLinear.prepare(leaf)
    value = product(torch.tanh(product(torch.randn(2, 4, dtype=torch.float64)))).sum()
    value.backward(retain_graph=True)
    first = leaf.grad.clone()
    value.backward()
    torch.testing.assert_close(leaf.grad, 2 * first)


def test_select_indexes_per_row_matrices_and_keeps_a_shared_one() -> None:
    own, shared = torch.randn(3, 4, 5), torch.randn(4, 5)
    index = torch.tensor([2, 0, 0])
    assert torch.equal(StepLinear.prepare(own).select(index).weight, own[index])
    assert StepLinear.prepare(shared).select(index).weight is shared


def test_autocast_sets_the_dtype_of_the_product() -> None:
    weight = torch.randn(8, 8, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        product = StepLinear.prepare(weight)
        result = product(torch.randn(2, 8))
    assert result.dtype == torch.bfloat16
    result.float().sum().backward()
    assert weight.grad is not None and weight.grad.dtype == torch.float32


def test_normalized_linear_equals_pytorch_weight_norm() -> None:
    ours = WeightNormLinear(5, 4, gain=2.0).double()
    theirs = weight_norm(nn.Linear(5, 4).double())
    with torch.no_grad():
        ours.bias.normal_()
        ours.weight_g.add_(torch.randn(4))
        theirs.parametrizations.weight.original0.copy_(ours.weight_g.unsqueeze(1))
        theirs.parametrizations.weight.original1.copy_(ours.weight_v.t())
        theirs.bias.copy_(ours.bias)
    x = torch.randn(2, 3, 5).double()
    torch.testing.assert_close(ours(x), theirs(x))
    ours(x).square().sum().backward()
    theirs(x).square().sum().backward()
    torch.testing.assert_close(ours.weight_g.grad, theirs.parametrizations.weight.original0.grad.squeeze(1))
    torch.testing.assert_close(ours.weight_v.grad, theirs.parametrizations.weight.original1.grad.t())


def test_initial_weight_is_the_sampled_direction() -> None:
    layer = WeightNormLinear(300, 200, gain=4.0)
    torch.testing.assert_close(layer.weight, layer.weight_v)
    assert float(layer.weight.detach().std()) == pytest.approx(math.sqrt(4 / 300), rel=0.02)


def test_windows_times_matrix_equal_pytorch_convolution() -> None:
    x, weight = torch.randn(2, 6, 4).double(), torch.randn(5, 4, 3).double()  # (out, in, kernel)
    matrix = weight.permute(2, 1, 0).flatten(0, 1)
    expected = F.conv1d(x.transpose(1, 2), weight, padding=1).transpose(1, 2)
    torch.testing.assert_close(concatenate_windows(x, 1, 1) @ matrix, expected)
    causal = F.conv1d(F.pad(x.transpose(1, 2), (2, 0)), weight).transpose(1, 2)
    torch.testing.assert_close(concatenate_windows(x, 2, 0) @ matrix, causal)
