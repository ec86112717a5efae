import pytest

from regard.training.schedule import (
    ConstantConfig,
    HalvingConfig,
    InverseSqrtConfig,
    PlateauConfig,
    build_schedule,
)


def _rates(perplexities: list[float]) -> list[float]:
    """The rate of each epoch, given the perplexity at its end."""
    schedule = build_schedule(HalvingConfig())
    rates = []
    for epoch, perplexity in enumerate(perplexities, 1):
        rates.append(schedule.factor(epoch * 100))
        schedule.epoch_ended(epoch, perplexity)
    return rates


def test_halving_starts_after_epoch_8_as_in_malaviya_et_al_2018() -> None:
    falling = [100.0 - epoch for epoch in range(13)]
    assert _rates(falling) == [1.0] * 8 + [0.5, 0.25, 0.125, 0.0625, 0.03125]


def test_halving_starts_with_the_first_rise_and_goes_on() -> None:
    assert _rates([9.0, 8.0, 8.5, 7.0, 6.0]) == [1.0, 1.0, 1.0, 0.5, 0.25]


def test_inverse_square_root_peaks_at_the_end_of_the_warm_up() -> None:
    schedule = build_schedule(InverseSqrtConfig(warmup=100))
    assert [schedule.factor(update) for update in (1, 50, 100, 400)] == [0.01, 0.5, 1.0, 0.5]


def test_constant_warms_up_in_a_line() -> None:
    schedule = build_schedule(ConstantConfig(warmup=4))
    assert [schedule.factor(update) for update in (1, 2, 4, 99)] == [0.25, 0.5, 1.0, 1.0]


def test_plateau_falls_after_its_patience_and_not_below_its_least() -> None:
    schedule = build_schedule(PlateauConfig(patience=2, least=0.3))
    seen = []
    for improved in (True, False, True, False, False, False, False, False, False):
        schedule.validated(improved)
        seen.append(schedule.factor(1))
    assert seen == [1, 1, 1, 1, 0.5, 0.5, 0.3, 0.3, 0.3]


@pytest.mark.parametrize("config", [HalvingConfig(start=2), PlateauConfig(patience=2), ConstantConfig()])
def test_state_put_back_goes_on_alike(config) -> None:
    whole, cut = build_schedule(config), build_schedule(config)
    for epoch, (improved, perplexity) in enumerate([(True, 9.0), (False, 9.5), (False, 9.4)], 1):
        for schedule in (whole, cut):
            schedule.validated(improved)
            schedule.epoch_ended(epoch, perplexity)
        state = cut.state()
        cut = build_schedule(config)
        cut.load(state)
        assert cut.factor(7) == whole.factor(7)


def test_halving_may_warm_up() -> None:
    schedule = build_schedule(HalvingConfig(start=1, warmup=4))
    assert [schedule.factor(update) for update in (1, 2, 4, 5)] == [0.25, 0.5, 1, 1]
    schedule.epoch_ended(1, None)
    assert schedule.factor(5) == 0.5
