"""Training from Python: `regard.train` with a file, a dictionary, a `RunConfig`, pairs and callbacks."""

import json
from pathlib import Path

import pytest

import regard
from regard.config import from_dict
from regard.errors import ConfigError, DataError, UsageError
from regard.training.run_config import RunConfig
from saved_models import small_rnn

PAIRS = [(f"w{i % 7} w{i % 5}", f"w{i % 5} w{i % 7}") for i in range(60)]
RUN = {
    "device": "cpu",
    "data": {"train": [{"source": "a", "target": "b"}], "valid": {"source": "a", "target": "b"}},
    "model": small_rnn(8),
    "training": {"max_steps": 3},
}


class Recorder(regard.Callback):
    """A callback that keeps the steps."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def on_step(self, statistics) -> None:
        self.steps.append(statistics.step)


def test_dictionary_with_pairs_equals_files_of_the_same_text(tmp_path: Path) -> None:
    recorder = Recorder()
    pairs = {"train": iter(PAIRS), "valid": PAIRS[:10]}
    settings = {**RUN, "data": {}}
    result = regard.train(settings, tmp_path / "pairs", pairs=pairs, callbacks=[recorder])
    assert result.progress.step == 3 and recorder.steps == [1, 2, 3]
    for side, name in ((0, "source"), (1, "target")):
        for split, lines in (("train", PAIRS), ("valid", PAIRS[:10])):
            (tmp_path / f"{split}.{name}").write_text("".join(f"{pair[side]}\n" for pair in lines))
    files = {s: {n: str(tmp_path / f"{s}.{n}") for n in ("source", "target")} for s in ("train", "valid")}
    settings = {**RUN, "data": {"train": [files["train"]], "valid": files["valid"]}}
    regard.train(from_dict(RunConfig, settings), tmp_path / "files")
    models = [(tmp_path / name / "model.safetensors") for name in ("pairs", "files")]
    one, other = (regard.load(path.parent) for path in models)
    assert one.translate(PAIRS[0][0]).score == other.translate(PAIRS[0][0]).score


def test_result_is_plain_data_with_the_validations_as_rows(tmp_path: Path) -> None:
    pairs = {"train": PAIRS, "valid": PAIRS[:10]}
    training = {"max_steps": 4, "validation": {"every_steps": 2}}
    result = regard.train({**RUN, "data": {}, "training": training}, tmp_path / "run", pairs=pairs)
    data = json.loads(result.to_json())
    assert data == result.to_dict()
    assert (data["schema"], data["step"], data["signal"]) == ("training", 4, None)
    assert (data["metric"], data["best_step"]) == ("perplexity", result.progress.best_step)
    assert [row["step"] for row in result.rows()] == [2, 4]
    assert min(row["perplexity"] for row in result.rows()) == result.progress.best_score
    assert repr(result).startswith("TrainingResult(stopped after 4 steps, step 4, best perplexity ")
    assert "<th>perplexity</th>" in result._repr_html_()


def test_file_with_overrides_is_trained_in_its_own_directory(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, side in (("a", 0), ("b", 1)):
        Path(name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS))
    Path("run.toml").write_text(
        'data.train = [{ source = "a", target = "b" }]\ndata.valid = { source = "a", target = "b" }\n'
        "model.embedding_size = 8\nmodel.encoder = { num_layers = 1, hidden_size = 8 }\n"
        "model.decoder = { num_layers = 1, hidden_size = 8 }\n"
    )
    assert regard.train("run.toml", overrides=["training.max_steps=2"]).progress.step == 2
    assert regard.load("runs/run").translate(PAIRS[0][0]).error is None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"config": {**RUN, "modle": {}}}, ConfigError, "modle"),
        ({"output_dir": None}, UsageError, "needs a model directory"),
        ({"overrides": ["seed=2"]}, UsageError, "only for a TOML file"),
        ({"config": "run.toml", "pairs": {}}, UsageError, "a TOML file names its own texts"),
        ({"pairs": {"train": PAIRS}}, UsageError, "expected the keys 'train' and 'valid'"),
        ({"pairs": {"train": ["ab"], "valid": []}}, DataError, r"item 1: expected \(source, target\)"),
        ({"pairs": {"train": [("a\nb", "c")], "valid": []}}, DataError, "item 1: .*line break"),
    ],
)
def test_wrong_arguments_are_one_message(tmp_path: Path, arguments, error, message) -> None:
    with pytest.raises(error, match=message):
        regard.train(**{"config": RUN, "output_dir": tmp_path / "model", **arguments})
