"""Tests of weight-normalized linear layers and convolution windows against PyTorch."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from regard.layers.convolution import WeightNormLinear, concatenate_windows


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


def test_output_does_not_depend_on_the_norm_of_the_direction() -> None:
    layer, x = WeightNormLinear(5, 4).double(), torch.randn(3, 5).double()
    before = layer(x)
    with torch.no_grad():
        layer.weight_v *= 7
    torch.testing.assert_close(layer(x), before)


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
