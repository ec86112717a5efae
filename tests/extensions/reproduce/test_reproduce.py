"""Tests of `regard reproduce`: training, scoring, resuming, and the resulting table."""

import json
import re
import shutil
import signal
from pathlib import Path

import pytest
from command_runs import run

from regard.errors import TrainingInterruptedError, UsageError
from regard.extensions.phrasebook.corpus import write_splits
from regard.extensions.reproduce.experiment_text import ExperimentText
from regard.extensions.reproduce.job import JobsFailedError
from regard.extensions.reproduce.plan import TableJob
from regard.training.trainer import TrainingResult

SMALL = [
    "training.max_epochs=1",
    "model.embedding_size=8",
    "model.encoder.hidden_size=8",
    "model.decoder.hidden_size=8",
    'data.source_tokenizer={kind="words"}',
    'data.target_tokenizer={kind="words"}',
    "generation.beam_size=2",
    "generation.max_length_offset=1",
    "generation.max_length_ratio=1",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("data") / "toy"
    write_splits(directory, {"train": 150, "valid": 10, "test": 10}, seed=1)
    return directory


def _reproduce(table: str, data: Path, out: Path, rows: str, *more, settings=SMALL):
    """Return the rows of a table by their recipes, and the output of the command."""
    figures = out.with_name("figures.json")
    overrides = [part for name in settings for part in ("--set", name)]
    arguments = ("--data-dir", data, "--output-dir", out, "--rows", rows, *overrides, *more)
    done = run("reproduce", table, *arguments, "--json", figures)
    assert done.exit_code == 0, done.output
    return {row["recipe"]: row for row in json.loads(figures.read_text())["rows"]}, done.output


@pytest.mark.slow
def test_table_is_trained_once_and_reused_after_a_move(data: Path, tmp_path: Path, monkeypatch) -> None:
    def no_java() -> str:
        raise UsageError("no Java")

    # METEOR needs Java, which may not be installed.
    monkeypatch.setattr("regard.extensions.reproduce.scores.find_java", no_java)
    out, table = tmp_path / "out", ("malaviya2018-table1", data)
    rows, output = _reproduce(*table, out, "softmax,softmax-covpenalty")
    assert "meteor is omitted" in output
    assert set(rows) == {"softmax", "softmax-covpenalty"}
    assert set(rows["softmax"]["metrics"]) == {"bleu", "rep", "drop"}
    assert rows["softmax"]["metrics"]["bleu"]["paper"] == 29.51
    assert len(list((out / "runs").glob("*-seed1"))) == 1
    assert (out / "text" / "aligner" / "aligner.json").exists()
    out = out.rename(tmp_path / "moved")
    _, output = _reproduce(*table, out, "softmax,softmax-covpenalty")
    assert "started" not in output and "| softmax + COVPENALTY |" in output
    (model,) = (out / "runs").glob("*-seed1/model.safetensors")
    trained = model.stat().st_mtime_ns
    for path in (out / "rows").glob("softmax-covpenalty-*"):
        path.unlink()
    again, _ = _reproduce(*table, out, "softmax,softmax-covpenalty")
    assert _without_durations(again.values()) == _without_durations(rows.values())
    assert model.stat().st_mtime_ns == trained


@pytest.mark.slow
def test_ensemble_is_scored_after_its_members_are_trained(data: Path, tmp_path: Path) -> None:
    settings = [setting for setting in SMALL if "generation" not in setting]
    settings += ["generation.beam_size=1", "generation.max_length_ratio=1"]
    rows, output = _reproduce("sutskever2014", data, tmp_path / "out", "ensemble2-beam12", settings=settings)
    (row,) = rows.values()
    assert row["row"] == "ensemble of 2 reversed LSTMs, beam 12"
    assert row["metrics"]["bleu"]["seeds"].keys() == {"1"}
    # The ensemble starts only after both members have finished.
    started = output.index("reversed seed 1, ensemble of 2: started")
    assert all(output.index(f"reversed seed {seed}: done") < started for seed in (1, 2))


@pytest.mark.slow
def test_tables_share_results_of_common_rows(data: Path, tmp_path: Path) -> None:
    """Table 1 and Figure 2 of Indurthi et al. (2019) share the rows of soft and hard attention."""
    sizes = ["model.d_model=8", "model.num_heads=1", "model.feed_forward.ffn_size=8"]
    settings = [*sizes, *(setting for setting in SMALL if "size=8" not in setting)]

    def reproduce(table: str, *more):
        rows, _ = _reproduce(table, data, tmp_path / "out", "soft,hard-soft", *more, settings=settings)
        return {recipe: row["metrics"] for recipe, row in rows.items()}

    table1 = reproduce("indurthi2019-table1")
    assert set(table1) == {"soft", "hard-soft"} and all("sacrebleu" in own for own in table1.values())
    lengths = reproduce("indurthi2019-figure2")
    assert set(lengths["soft"]) == set(lengths["hard-soft"]) > {"sacrebleu:1-10"}
    assert sum(own["sentences"] for own in lengths["soft"].values()) == 10
    assert reproduce("indurthi2019-table1", "--no-train") == table1
    assert reproduce("indurthi2019-figure2", "--no-train") == lengths


@pytest.mark.slow
def test_links_are_scored_as_aer_and_one_minus_aer(data: Path, tmp_path: Path) -> None:
    directory = tmp_path / "gold"
    shutil.copytree(data, directory)
    for path in data.glob("test.*"):
        shutil.copy(path, directory / f"gold-{path.name}")
    text = (directory, tmp_path / "out", "soft,prior")
    for row in _reproduce("shankar2019-table3", *text)[0].values():
        (scores,) = (own["scores"] for own in row["runs"])
        for name in ("aer", "one-minus-aer"):
            assert scores[name] == pytest.approx(row["metrics"][name]["score"])
        assert scores["aer"] + scores["one-minus-aer"] == pytest.approx(100.0)
    # The translation table shares these models and scores their translations at two beam sizes.
    for row in _reproduce("shankar2019-table1", *text)[0].values():
        (scores,) = (own["scores"] for own in row["runs"])
        assert set(scores) == {"perplexity", "bleu-4", "bleu-10"}
        assert scores == pytest.approx({name: own["score"] for name, own in row["metrics"].items()})
    assert len(list((tmp_path / "out" / "runs").glob("*-seed1"))) == 2


def _without_durations(rows):
    """Return the rows without durations, which differ from run to run."""
    assert all(own["training_seconds"] > 0 for row in rows for own in row["runs"])
    return [
        row | {"runs": [{k: v for k, v in own.items() if not k.endswith("_seconds")} for own in row["runs"]]}
        for row in rows
    ]


def test_signal_stops_the_table(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = TrainingResult("a signal", signal.SIGTERM, None)
    monkeypatch.setattr("regard.extensions.reproduce.job.train", lambda *_: stopped)
    with pytest.raises(TrainingInterruptedError) as interrupted:
        _reproduce("sutskever2014", data, tmp_path / "out", "forward,reversed")
    assert interrupted.value.signal == signal.SIGTERM
    assert not list((tmp_path / "out").glob("rows/*"))


def test_failed_run_is_reported_and_the_others_are_completed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(job: TableJob, text: ExperimentText) -> None:
        if job.seed == 2:
            raise UsageError("no memory")
        completed.append(job.name)

    completed: list[str] = []
    monkeypatch.setattr("regard.extensions.reproduce.job.run", fail)
    with pytest.raises(JobsFailedError) as failed:
        _reproduce("sutskever2014", data, tmp_path / "out", "forward,ensemble2-beam12")
    assert "reversed seed 2: no memory" in str(failed.value)
    assert "ensemble of 2: not run, because a model that it needs failed" in str(failed.value)
    assert completed == ["forward seed 1", "reversed seed 1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["malaviya2018-table9"], "unknown table 'malaviya2018-table9': expected one of malaviya2018-table1"),
        (["malaviya2018-table1", "--seeds", "one"], "--seeds 'one': expected numbers"),
    ],
)
def test_invalid_arguments_are_reported(data: Path, tmp_path: Path, arguments, message) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        run("reproduce", *arguments, "--data-dir", data, "--output-dir", tmp_path / "out")
    assert not (tmp_path / "out").exists()
