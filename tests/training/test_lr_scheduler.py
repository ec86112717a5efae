"""Tests of the learning rate schedules."""

import pytest

from regard.training.lr_scheduler import (
    ConstantConfig,
    ExponentialConfig,
    InverseSqrtConfig,
    PlateauConfig,
    build_lr_scheduler,
)


def _rates(perplexities: list[float]) -> list[float]:
    """Return the learning rate factor of each epoch, given the perplexity at its end."""
    schedule = build_lr_scheduler(ExponentialConfig())
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
    schedule = build_lr_scheduler(InverseSqrtConfig(warmup_steps=100))
    assert [schedule.factor(step) for step in (1, 50, 100, 400)] == [0.01, 0.5, 1.0, 0.5]


def test_constant_has_linear_warmup() -> None:
    schedule = build_lr_scheduler(ConstantConfig(warmup_steps=4))
    assert [schedule.factor(step) for step in (1, 2, 4, 99)] == [0.25, 0.5, 1.0, 1.0]


def test_plateau_decreases_after_its_patience_down_to_its_minimum() -> None:
    schedule = build_lr_scheduler(PlateauConfig(patience=2, min_factor=0.3))
    factors = []
    for improved in (True, False, True, False, False, False, False, False, False):
        schedule.on_validation(improved)
        factors.append(schedule.factor(1))
    assert factors == [1, 1, 1, 1, 0.5, 0.5, 0.3, 0.3, 0.3]


@pytest.mark.parametrize(
    "config", [ExponentialConfig(start_epoch=2), PlateauConfig(patience=2), ConstantConfig()]
)
def test_restored_state_resumes_exactly(config) -> None:
    uninterrupted, resumed = build_lr_scheduler(config), build_lr_scheduler(config)
    for epoch, (improved, perplexity) in enumerate([(True, 9.0), (False, 9.5), (False, 9.4)], 1):
        for schedule in (uninterrupted, resumed):
            schedule.on_validation(improved)
            schedule.on_epoch_end(epoch, perplexity)
        state = resumed.state_dict()
        resumed = build_lr_scheduler(config)
        resumed.load_state_dict(state)
        assert resumed.factor(7) == uninterrupted.factor(7)


def test_exponential_decay_supports_warmup() -> None:
    schedule = build_lr_scheduler(ExponentialConfig(start_epoch=1, warmup_steps=4))
    assert [schedule.factor(step) for step in (1, 2, 4, 5)] == [0.25, 0.5, 1, 1]
    schedule.on_epoch_end(1, None)
    assert schedule.factor(5) == 0.5
