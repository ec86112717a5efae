"""Tests of the training configuration: defaults, errors, and round trips."""

import pytest

from regard.config import dump_toml, from_dict, read_config, to_dict
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


def test_settings_of_malaviya_et_al_2018_round_trip_through_toml(tmp_path) -> None:
    config = from_dict(
        TrainingConfig,
        {"optimizer": {"kind": "sgd"}, "lr_scheduler": {"kind": "exponential"}, "max_epochs": 13},
    )
    (tmp_path / "x.toml").write_text(dump_toml(config))
    again = read_config(TrainingConfig, tmp_path / "x.toml")
    assert again == config
    settings = to_dict(again)
    assert settings["optimizer"] == {
        "kind": "sgd",
        "learning_rate": 1.0,
        "max_grad_norm": 5.0,
        "loss_normalization": "sentences",
    }
    schedule = settings["lr_scheduler"]
    assert (settings["batch_size"], schedule["start_epoch"], schedule["factor"]) == (64, 8, 0.5)
