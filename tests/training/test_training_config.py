"""Tests of the training configuration: defaults, errors, and round trips."""

import pytest

from regard.config import dump_toml, from_dict, read_config, to_dict
from regard.errors import ConfigError
from regard.training.config import TrainingConfig


def test_run_without_a_stopping_criterion_is_rejected() -> None:
    with pytest.raises(ConfigError, match="would never end"):
        from_dict(TrainingConfig, {"max_epochs": 0})


def test_unknown_metric_is_one_message_with_all_names() -> None:
    message = r"^config: validation.metric: expected 'perplexity' or 'bleu' or .*'$"
    with pytest.raises(ConfigError, match=message):
        from_dict(TrainingConfig, {"validation": {"metric": "blue"}})
    with pytest.raises(ConfigError, match="'drop' needs word links"):
        from_dict(TrainingConfig, {"validation": {"metric": "drop"}})


def test_exponential_decay_requires_validation_per_epoch() -> None:
    with pytest.raises(ConfigError, match="remove validation"):
        from_dict(TrainingConfig, {"lr_scheduler": {"kind": "exponential"}, "validation": {"every_steps": 5}})


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
