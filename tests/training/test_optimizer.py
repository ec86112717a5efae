"""Tests of the optimizers: agreement with PyTorch, exact resumption, clipping, and freezing."""

import pytest
import torch
from torch import nn

from regard.errors import CheckpointError, ConfigError
from regard.training.optimizer import (
    AdamConfig,
    SgdConfig,
    build_optimizer,
    clip_gradients,
    freeze_parameters,
    load_optimizer_state,
    optimizer_state_tensors,
)


def _parameters() -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(3, 5)), nn.Parameter(torch.randn(7))]


def _set_gradients(parameters, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize(
    ("config", "oracle"),
    [
        (AdamConfig(learning_rate=0.01), lambda p: torch.optim.Adam(p, lr=0.01, foreach=False)),
        (SgdConfig(learning_rate=0.5), lambda p: torch.optim.SGD(p, lr=0.5, foreach=False)),
    ],
)
def test_steps_equal_those_of_pytorch(config, oracle) -> None:
    ours, theirs = _parameters(), _parameters()
    optimizers = build_optimizer(config, ours), oracle(theirs)
    for step in range(5):
        for parameters, optimizer in zip((ours, theirs), optimizers, strict=True):
            _set_gradients(parameters, step)
            optimizer.step()
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("config", [AdamConfig(), SgdConfig(momentum=0.9), SgdConfig()])
def test_restored_state_resumes_exactly(config) -> None:
    names = ["a", "b"]
    uninterrupted, resumed = _parameters(), _parameters()
    optimizers = [build_optimizer(config, uninterrupted), build_optimizer(config, resumed)]
    for step in range(6):
        if step == 3:
            saved = {
                name: value.clone() for name, value in optimizer_state_tensors(optimizers[1], names).items()
            }
            optimizers[1] = build_optimizer(config, resumed)
            load_optimizer_state(optimizers[1], names, saved)
        for parameters, optimizer in zip((uninterrupted, resumed), optimizers, strict=True):
            _set_gradients(parameters, step)
            optimizer.step()
    assert all(torch.equal(x, y) for x, y in zip(uninterrupted, resumed, strict=True))


def test_state_of_an_unknown_parameter_is_rejected() -> None:
    optimizer = build_optimizer(AdamConfig(), _parameters())
    with pytest.raises(CheckpointError, match="'c'"):
        load_optimizer_state(optimizer, ["a", "b"], {"c/exp_avg": torch.zeros(1)})


@pytest.mark.parametrize("limit", [0.1, 100.0])
def test_clipping_equals_pytorch(limit: float) -> None:
    ours, theirs = _parameters(), _parameters()
    for parameters in (ours, theirs):
        _set_gradients(parameters, 0)
    norm = nn.utils.clip_grad_norm_(theirs, limit)
    clip_gradients(ours, limit, float(norm))
    torch.testing.assert_close([p.grad for p in ours], [p.grad for p in theirs], rtol=1e-5, atol=1e-7)


def test_frozen_names_support_wildcards_and_must_match() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    freeze_parameters(model, ["0.*"])
    assert [p.requires_grad for p in model.parameters()] == [False, False, True, True]
    with pytest.raises(ConfigError, match=r"'encoder\.\*' matches no parameter"):
        freeze_parameters(model, ["encoder.*"])
    with pytest.raises(ConfigError, match="every parameter is frozen"):
        freeze_parameters(model, ["*"])
