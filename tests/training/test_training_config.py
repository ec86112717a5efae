"""Tests of the training configuration: defaults, errors, and round trips."""

import pytest

from regard.config import from_dict, to_dict
from regard.errors import ConfigError
from regard.training.config import TrainingConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_epochs": 0}, "would never end"),
        (
            {"validation": {"metric": "blue"}},
            r"^config: validation.metric: expected 'perplexity' or 'bleu' or .*'$",
        ),
        ({"validation": {"metric": "drop"}}, "'drop' needs word links"),
        ({"lr_scheduler": {"kind": "exponential"}, "validation": {"every_steps": 5}}, "remove validation"),
    ],
)
def test_impossible_options_are_rejected(options, message) -> None:
    with pytest.raises(ConfigError, match=message):
        from_dict(TrainingConfig, options)


def test_defaults_of_sgd_are_the_settings_of_malaviya_et_al_2018() -> None:
    config = from_dict(
        TrainingConfig,
        {"optimizer": {"kind": "sgd"}, "lr_scheduler": {"kind": "exponential"}, "max_epochs": 13},
    )
    settings = to_dict(config)
    assert settings["optimizer"] == {
        "kind": "sgd",
        "learning_rate": 1.0,
        "max_grad_norm": 5.0,
        "loss_normalization": "sentences",
    }
    schedule = settings["lr_scheduler"]
    assert (settings["batch_size"], schedule["start_epoch"], schedule["factor"]) == (64, 8, 0.5)
