"""Tests of `--json`: every command writes exactly what `to_dict` of its result returns."""

import json

import pytest
from command_runs import all_commands, run, write_lines

import regard
from quick_coverage import train_quickly
from regard.config import dump_toml, from_dict
from regard.config.results import Result
from regard.extensions.tour import report as tour_report
from regard.training.run_config import RunConfig
from saved_models import save_model, small_rnn

TEXT = ["a b c", "d e", "f g a b e", "c c c c"]
RUN = {"device": "cpu", "model": small_rnn(8), "training": {"max_steps": 2}}
ANALYSIS = "--source in.txt --reference ref.txt --num-threads 1"
COMMANDS = {
    "evaluation": "evaluate ref.txt ref.txt --gold-links links --predicted-links links --baseline ref.txt",
    "training": "train run.toml --output-dir trained",
    "alignment_statistics": "align in.txt ref.txt --model ibm1 -o out",
    "fertilities": "fertility in.txt ref.txt -o out",
    "language_model": "lm in.txt --order 2 --perplexity ref.txt",
    "error_analysis": f"analyze errors model {ANALYSIS}",
    "attention_analysis": f"analyze attention model {ANALYSIS}",
    "faithfulness_analysis": f"analyze faithfulness model {ANALYSIS}",
    "length_analysis": f"analyze length model {ANALYSIS}",
    "penalty_tuning": f"tune model {ANALYSIS}",
    "quickstart": "quickstart --output-dir quick",
    "coverage_check": "check in.txt ref.txt --detector length --labels labels",
    "init": "init long.de long.en -o made.toml",
}
OTHERS = {"score", "tour", "reproduce"}
"""Commands that are tested below, and in `tests/extensions`."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("json")
    texts = {
        "in.txt": TEXT,
        "ref.txt": [line.upper() for line in TEXT],
        "links": ["0-0"] * 4,
        "labels": ['{"line": 1, "omission": true}', '{"line": 2, "omission": false}'],
        "long.de": [f"wort {i}" for i in range(80)],
        "long.en": [f"word {i}" for i in range(80)],
    }
    for name, lines in texts.items():
        write_lines(folder / name, lines)
    save_model(folder / "model")
    corpus = {"source": str(folder / "in.txt"), "target": str(folder / "ref.txt")}
    data = {"train": [corpus], "valid": corpus, "cache_dir": str(folder / "prepared")}
    (folder / "run.toml").write_text(dump_toml(from_dict(RunConfig, {**RUN, "data": data})))
    return folder


def written_by(line, path):
    """Return the JSON that a command writes."""
    assert run(*line.split(), "--json", path).exit_code == 0
    return json.loads(path.read_text(encoding="utf-8"))


def test_every_command_with_json_is_tested():
    lines = set(COMMANDS.values())
    for name, command in all_commands().items():
        if any("--json" in parameter.opts for parameter in command.params):
            assert name in OTHERS or any(line.startswith(name) for line in lines), name


@pytest.mark.parametrize(
    "schema",
    [pytest.param(name, marks=pytest.mark.slow if name == "quickstart" else ()) for name in COMMANDS],
)
def test_json_of_a_command_is_that_of_its_result(directory, schema, monkeypatch, tmp_path):
    made = []
    own = Result.to_dict
    monkeypatch.setattr(Result, "to_dict", lambda self: made.append(own(self)) or made[-1])
    monkeypatch.setattr(tour_report, "QUICKSTART_SIZES", {"train": 100, "valid": 8, "test": 8})
    train_quickly(monkeypatch, 100)
    monkeypatch.chdir(directory)
    written = written_by(COMMANDS[schema], tmp_path / "out.json")
    assert (written["schema"], written["schema_version"]) == (schema, 1)
    assert written == json.loads(json.dumps(made[-1], allow_nan=False))


def test_json_of_score_has_the_keys_of_scores(directory, monkeypatch, tmp_path):
    monkeypatch.chdir(directory)
    written = written_by("score model in.txt ref.txt --device cpu", tmp_path / "out.json")
    expected = regard.load("model", device="cpu").score(TEXT, [line.upper() for line in TEXT]).to_dict()
    assert list(written) == list(expected)
    assert [list(one) for one in written["sentences"]] == [list(one) for one in expected["sentences"]]
