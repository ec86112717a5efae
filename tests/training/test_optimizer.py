"""Tests of optimizers and learning-rate schedules: PyTorch, exact resumption, clipping, and freezing."""

import pytest
import torch
from torch import nn

from regard.errors import CheckpointError, ConfigError
from regard.training.optimizer import (
    AdamConfig,
    ConstantConfig,
    ExponentialConfig,
    InverseSqrtConfig,
    LRScheduler,
    PlateauConfig,
    SgdConfig,
    build_optimizer,
    clip_gradients,
    freeze_parameters,
    load_optimizer_state,
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


def _rates(perplexities: list[float]) -> list[float]:
    """Return the learning rate factor of each epoch, given the perplexity at its end."""
    schedule = LRScheduler(ExponentialConfig())
    rates = []
    for epoch, perplexity in enumerate(perplexities, 1):
        rates.append(schedule.factor(epoch * 100))
        schedule.on_epoch_end(epoch, perplexity)
    return rates


def test_halving_starts_after_epoch_8_as_in_malaviya_et_al_2018() -> None:
    decreasing = [100.0 - epoch for epoch in range(13)]
    assert _rates(decreasing) == [1.0] * 8 + [0.5, 0.25, 0.125, 0.0625, 0.03125]


def test_halving_starts_with_the_first_increase_and_continues() -> None:
    assert _rates([9.0, 8.0, 8.5, 7.0, 6.0]) == [1.0, 1.0, 1.0, 0.5, 0.25]


def test_inverse_square_root_peaks_at_the_end_of_warmup() -> None:
    schedule = LRScheduler(InverseSqrtConfig(warmup_steps=100))
    assert [schedule.factor(step) for step in (1, 50, 100, 400)] == [0.01, 0.5, 1.0, 0.5]


def test_constant_and_exponential_have_linear_warmup() -> None:
    for config in (ConstantConfig(warmup_steps=4), ExponentialConfig(start_epoch=1, warmup_steps=4)):
        schedule = LRScheduler(config)
        assert [schedule.factor(step) for step in (1, 2, 4, 99)] == [0.25, 0.5, 1.0, 1.0]
    schedule.on_epoch_end(1, None)
    assert schedule.factor(5) == 0.5


def test_plateau_decreases_after_its_patience_down_to_its_minimum() -> None:
    schedule = LRScheduler(PlateauConfig(patience=2, min_factor=0.3))
    factors = []
    for improved in (True, False, True, False, False, False, False, False, False):
        schedule.on_validation(improved)
        factors.append(schedule.factor(1))
    assert factors == [1, 1, 1, 1, 0.5, 0.5, 0.3, 0.3, 0.3]
