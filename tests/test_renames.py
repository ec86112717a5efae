"""Old names of options, values, flags and commands: one message with the new name."""

import itertools

import pytest
from typer.testing import CliRunner

from regard.cli.main import app
from regard.config import config_classes, from_dict
from regard.errors import CheckpointError, ConfigError
from regard.renames import FLAGS, KEYS, VALUES, new_flag, new_key, new_value
from regard.run_config import RunConfig, load_config

PAIR = {"source": "a", "target": "b"}
DATA = {"train": [PAIR], "valid": PAIR}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"folder": "x"}, "unknown key 'folder': it is now called output_dir"),
        ({"search": {}}, "unknown key 'search': it is now called generation"),
        (
            {"training": {"optimizer": {"rate": 1.0}}},
            "unknown key 'training.optimizer.rate': it is now called training.optimizer.learning_rate",
        ),
        (
            {"training": {"batch": {"size": 3}}},
            "'training.batch': it is now called training.batch_size, batch_unit and bucket_batches",
        ),
        (
            {"guided_alignment": {"weight": 0.5}},
            "unknown key 'guided_alignment': it is now called training.losses "
            '(a list: [[training.losses]] with kind = "guided_alignment")',
        ),
        (
            {"sequence_loss": {"kind": "mrt"}},
            'training.losses (a list: [[training.losses]] with kind = "sequence")',
        ),
        (
            {"fine_tuning": {"freeze_steps": 3}},
            "unknown key 'fine_tuning': it is now called training.fine_tuning",
        ),
        (
            {"training": {"losses": [{"kind": "sequence", "count": 3}]}},
            "unknown key 'training.losses.0.count': it is now called training.losses.0.num_candidates",
        ),
        (
            {"training": {"losses": [{"kind": "sequence", "method": "risk"}]}},
            "method = 'mrt' is the new name of this value",
        ),
        ({"model": {"kind": "lstm"}}, "kind = 'rnn' is the new name of this value"),
        (
            {"model": {"attention": {"score_function": "general"}}},
            "score_function = 'bilinear' is the new name of this value",
        ),
    ],
)
def test_old_option_is_an_error_with_the_new_name(options, expected) -> None:
    with pytest.raises(ConfigError) as caught:
        from_dict(RunConfig, {"data": DATA, **options})
    assert expected in str(caught.value)


def test_unknown_option_that_was_never_known_has_no_new_name() -> None:
    assert new_key(["training", "optimizer", "rates"], ["learning_rate"]) is None
    assert new_key(["training", "optimizer", "rate"], ["momentum"]) is None
    assert new_value("kind", "oak") is None and new_value("kind", 3) is None
    assert new_flag("translate", "--oak") is None


def test_every_new_key_is_an_option() -> None:
    import dataclasses
    import typing

    from regard.alignment.word_aligner import AlignerConfig
    from regard.extensions.serve.config import ServeConfig
    from regard.pretrain import PretrainConfig

    tables: dict[str, set[str]] = {}
    roots = (RunConfig, PretrainConfig, ServeConfig, *config_classes(AlignerConfig))
    todo: list[tuple[str, type]] = [("", cls) for cls in roots]
    seen = set()
    while todo:
        name, cls = todo.pop()
        tables.setdefault(name, set()).update(field.name for field in dataclasses.fields(cls))
        if (name, cls) not in seen:
            seen.add((name, cls))
            hints = typing.get_type_hints(cls, include_extras=True)
            todo += [(key, inner) for key, hint in hints.items() for inner in config_classes(hint)]
    # The two sides of a model share one table of renames.
    tables["encoder"] = tables["decoder"] = tables["encoder"] | tables["decoder"]
    unknown = [
        (table, new)
        for table, keys in KEYS.items()
        for new in keys.values()
        for inner, name in itertools.pairwise([table, *new.split()[0].rstrip(",").split(".")])
        if name not in tables[inner]
    ]
    assert unknown == []
    assert all(key in {name for names in tables.values() for name in names} for key in VALUES)


def test_every_new_flag_is_an_option_of_its_command() -> None:
    runner = CliRunner(env={"COLUMNS": "300"})
    for command, flags in FLAGS.items():
        shown = runner.invoke(app, [command, "--help"]).output
        assert [flag for flag in flags.values() if f"{flag} " not in shown] == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["translate", "x", "--beam", "3"], "--beam. It is now called --beam-size."),
        (["translate", "x", "--threads=3"], "--threads. It is now called --num-threads."),
        (["train", "x", "--out", "y"], "--out. It is now called --output-dir."),
        (["analyse", "x"], "It is now regard analyze errors, attention or length."),
    ],
)
def test_old_flag_or_command_is_a_usage_error_with_the_new_name(arguments, expected) -> None:
    result = CliRunner(env={"COLUMNS": "300"}).invoke(app, arguments)
    assert result.exit_code == 2 and expected in result.output


def test_model_of_an_old_version_must_be_trained_again(tmp_path) -> None:
    config = 'seed = 1\n[data]\nfolder = "x"\n[training.optimizer]\nrate = 0.1\n# end of config\n'
    (tmp_path / "config.toml").write_text(config)
    with pytest.raises(CheckpointError) as caught:
        load_config(tmp_path)
    assert "trained with regard 0.1 or earlier" in str(caught.value)
    assert "Train it again" in str(caught.value) and "\n" not in str(caught.value)
    (tmp_path / "config.toml").write_text(f"# Written by regard 0.1.9\n{config}")
    with pytest.raises(CheckpointError, match=r"trained with regard 0\.1\.9, "):
        load_config(tmp_path)


def test_hub_name_as_a_directory_is_answered_with_the_download_command(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="`regard download Helsinki-NLP/opus-mt-de-en`"):
        load_config("Helsinki-NLP/opus-mt-de-en")
    (tmp_path / "runs").mkdir()
    with pytest.raises(CheckpointError) as caught:
        load_config("runs/first")
    assert str(caught.value) == "runs/first: no such model directory"


def test_ctranslate2_model_of_another_program_is_rejected_with_the_reason(tmp_path) -> None:
    for name, text in (("model.bin", "x"), ("config.json", "{}"), ("shared_vocabulary.json", "[]")):
        (tmp_path / name).write_text(text)
    for engine in ([], ["--engine", "ctranslate2"]):
        result = CliRunner().invoke(app, ["translate", str(tmp_path), *engine], input="")
        assert "not written by `regard export ctranslate2`" in str(result.exception)
