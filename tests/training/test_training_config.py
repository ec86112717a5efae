import pytest

from regard.config import dump_toml, from_dict, load, to_dict
from regard.errors import ConfigError
from regard.training.config import TrainingConfig
from regard.training.optimizer import AdamConfig, SgdConfig


def test_kind_may_be_left_out_for_the_default() -> None:
    assert from_dict(TrainingConfig, {"optimizer": {"rate": 0.5}}).optimizer == AdamConfig(rate=0.5)
    assert from_dict(TrainingConfig, {"optimizer": {"kind": "sgd"}}).optimizer == SgdConfig()


def test_an_unknown_kind_or_key_is_refused_by_its_path() -> None:
    with pytest.raises(ConfigError, match=r"optimizer.*'adam'.*'adagrad'"):
        from_dict(TrainingConfig, {"optimizer": {"kind": "adagrad"}})
    with pytest.raises(ConfigError, match=r"unknown key 'optimizer\.momentun'.*'optimizer\.momentum'"):
        from_dict(TrainingConfig, {"optimizer": {"kind": "sgd", "momentun": 0.9}})


def test_a_run_without_an_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="would never end"):
        from_dict(TrainingConfig, {"stop": {"epochs": 0}})


def test_halving_goes_by_epochs() -> None:
    with pytest.raises(ConfigError, match="remove validation"):
        from_dict(TrainingConfig, {"schedule": {"kind": "halving"}, "validation": {"every": 5}})


def test_the_settings_of_malaviya_et_al_2018_come_back_from_toml(tmp_path) -> None:
    config = from_dict(
        TrainingConfig,
        {"optimizer": {"kind": "sgd"}, "schedule": {"kind": "halving"}, "stop": {"epochs": 13}},
    )
    (tmp_path / "x.toml").write_text(dump_toml(config))
    again = load(TrainingConfig, tmp_path / "x.toml")
    assert again == config
    plain = to_dict(again)
    assert plain["optimizer"] == {
        "kind": "sgd",
        "rate": 1.0,
        "momentum": 0.0,
        "weight_decay": 0.0,
        "clip": 5.0,
        "normalize": "sentences",
    }
    assert (plain["batch"]["size"], plain["schedule"]["start"], plain["schedule"]["factor"]) == (64, 8, 0.5)
