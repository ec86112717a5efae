"""Tests of `regard report`: its page agrees with `translate`, `evaluate` and `analyze`."""

import json
import re
import shutil
from dataclasses import replace
from itertools import islice

import pytest
from command_runs import SOURCE, run

import regard
from quick_coverage import train_quickly
from regard.data.dataset import prepare_data
from regard.data.training_text import save_training_text
from regard.errors import DataError, UsageError
from regard.extensions.phrasebook.corpus import generate
from regard.training.run_config import load_config


def report(models, files, *arguments):
    """Return the data of the report page."""
    page = files / "report.html"
    options = ("--test", files / "in.txt", files / "ref.txt", "--num-threads", 1, "-o", page)
    result = run("report", *models, *options, *arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout == "" and "report.html" in result.stderr
    return read(page)


def read(page):
    found = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return json.loads(found[1])


def test_numbers_equal_those_of_the_other_commands(models, aligner, files):
    data = report(
        models, files, "--aligner", aligner, "--gold-links", files / "gold.talp", "--tokenize", "none"
    )
    table = {metric["key"]: metric["systems"] for metric in data["metrics"]}
    out, scores = files / "out.txt", files / "scores.json"
    texts = (files / "in.txt", files / "ref.txt")
    for index, model in enumerate(models):
        run("translate", model, "--input", texts[0], "--output", out)
        outputs = [" ".join(sentence["systems"][index]["target_words"]) for sentence in data["sentences"]]
        assert outputs == out.read_text().splitlines()
        run("evaluate", out, texts[1], "--metrics", "bleu,chrf,rep", "--tokenize", "none", "--json", scores)
        for row in json.loads(scores.read_text())["metrics"]:
            one = table[row["metric"]][index]
            assert one["value"] == pytest.approx(row["score"], abs=1e-4)
            if index == 0:
                assert one["interval"] == pytest.approx([row["low"], row["high"]], abs=1e-4)
        options = ("--source", texts[0], "--reference", texts[1], "--json", scores, "--num-threads", 1)
        run("analyze", "errors", model, "--aligner", aligner, *options)
        expected = json.loads(scores.read_text())
        assert table["drop"][index]["value"] == pytest.approx(expected["drop"], abs=1e-4)
        for sentence in expected["sentences"]:
            own = data["sentences"][sentence["line"] - 1]["systems"][index]
            assert own["dropped"] == sentence["dropped"]
            assert own.get("repeated", []) == sentence["repeated"]
            assert own.get("received_attention") == (
                None if sentence["attention"] is None else pytest.approx(sentence["attention"], abs=1e-3)
            )
        run("analyze", "attention", model, "--gold-links", files / "gold.talp", *options)
        (expected,) = json.loads(scores.read_text())["models"].values()
        assert table["aer"][index]["value"] == pytest.approx(100 * expected["aer"], abs=1e-3)
        assert data["systems"][index]["perplexity"] == pytest.approx(expected["perplexity"], abs=1e-3)
        for key in ("entropy", "coverage", "accuracy", "support"):
            assert data["attention"][index][key] == pytest.approx(expected[key], abs=1e-4)
        assert data["attention"][index]["entropies"] == expected["entropies"]


def test_translation_files_are_compared_with_models(models, files):
    given = files / "given.txt"
    given.write_text("A\n" * len(SOURCE))
    data = report([given, models[0]], files, "--names", "theirs,ours")
    assert [system["name"] for system in data["systems"]] == ["theirs", "ours"]
    assert [system["attends"] for system in data["systems"]] == [False, True]
    assert [sentence["systems"][0]["target_words"] for sentence in data["sentences"]] == [["A"]] * len(SOURCE)


def test_translations_are_checked_by_a_detector(models, files):
    (files / "given.txt").write_text("A B C\nD E D E D E\n\nF G A\nC\nB\n")
    data = report([files / "given.txt", models[0]], files, "--detector", "repetition")
    expected = regard.check(files / "in.txt", files / "given.txt", "repetition").to_dict()["sentences"]
    assert [sentence["systems"][0]["check"] for sentence in data["sentences"]] == expected
    assert (data["check"]["detector"], data["check"]["threshold"]) == ("repetition", 0.5)
    figures = {figure["key"]: figure["values"] for figure in data["figures"]}
    assert figures["check"] == figures["repetition"] and max(figures["check"][0]) == figures["check"][0][1]
    assert len(figures["check"][1]) == len(SOURCE)


@pytest.mark.slow
def test_aligner_and_detector_are_trained_on_the_text_of_the_model(models, files, monkeypatch, tmp_path):
    monkeypatch.chdir(files)
    train_quickly(monkeypatch)
    model = shutil.copytree(models[0], tmp_path / "model")
    for name, side in (("s", "source"), ("t", "target")):
        lines = (" ".join(getattr(pair, side)) for pair in islice(generate(1), 150))
        (files / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    data = replace(load_config(model).data, cache_dir="prepared")
    save_training_text(data, prepare_data(data), model)
    plain = report([model], files, "--no-train-missing")
    assert "check" not in plain["sentences"][0]["systems"][0] and not (model / "aligner").exists()
    data = report([model], files)
    assert data["check"]["detector"] == "combined"
    kept = {
        path: path.stat().st_mtime_ns for part in ("aligner", "checker") for path in (model / part).iterdir()
    }
    assert len(kept) >= 4 and "dropped" in data["sentences"][0]["systems"][0]
    assert report([model], files)["sentences"] == data["sentences"]
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())


def test_configured_test_set_is_read_only_on_request(models, files, monkeypatch):
    monkeypatch.chdir(files)
    # These are the files that the configuration of the model refers to.
    for name in ("s", "t"):
        (files / name).write_text("a b\nc\n")
    with pytest.raises(UsageError, match="--config-test"):
        run("report", models[0], "--num-threads", 1)
    assert not (files / "report.html").exists()
    with pytest.raises(UsageError, match="either"):
        run("report", models[0], "--config-test", "--test", "in.txt", "ref.txt", "--num-threads", 1)
    result = run("report", models[0], "--config-test", "--num-threads", 1)
    assert result.exit_code == 0 and len(read(files / "report.html")["sentences"]) == 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--tokenize", "blanks"], UsageError, "blanks"),
        (["--names", "one,two"], UsageError, "2 names but there are 1 models"),
        (["--aligner", "no-aligner"], DataError, "no-aligner"),
        (["--gold-links", "no.talp"], DataError, r"no\.talp"),
        (["--output", "nowhere/page.html"], DataError, "nowhere/page.html"),
        (["--detector", "combined"], UsageError, "the detector 'combined' needs"),
        (["--checker", "no-checker"], DataError, "no-checker"),
        (["--train", "in.txt", "ref.txt"], DataError, "5 sentence pairs"),
    ],
)
def test_invalid_arguments_write_nothing(models, files, monkeypatch, arguments, error, message):
    monkeypatch.chdir(files)
    before = sorted(files.iterdir())
    with pytest.raises(error, match=message):
        run("report", models[0], "--test", "in.txt", "ref.txt", "--num-threads", 1, *arguments)
    assert sorted(files.iterdir()) == before


def test_mismatched_links_and_translations_are_reported(models, files):
    (files / "short.txt").write_text("A\n")
    (files / "beyond.talp").write_text("0-9\n" + "\n" * 5)
    with pytest.raises(DataError, match=r"short\.txt has 1 lines but .*in\.txt has 6"):
        report([models[0], files / "short.txt"], files)
    with pytest.raises(DataError, match=r"beyond\.talp:1: link 0-9 points beyond the reference"):
        report([models[0]], files, "--gold-links", files / "beyond.talp")
    with pytest.raises(UsageError, match="--test SOURCE"):
        run("report", files / "short.txt", "--config-test")


def test_a_check_is_written_as_a_page(files):
    (files / "given.txt").write_text("A B C\nD E D E D E\n\nF G A\nC\nB\n")
    options = ("--detector", "repetition", "--report", files / "check.html", "--threshold", 0.25)
    result = run("check", files / "in.txt", files / "given.txt", *options)
    assert result.exit_code == 0 and "check.html" in result.stderr
    data = read(files / "check.html")
    assert (data["title"], data["threshold"]) == ("Check of given.txt", 0.25)
    # The second line repeats `D E` twice; lines with equal probabilities keep their order.
    assert [len(sentence["findings"]) for sentence in data["sentences"]] == [0, 1, 0, 0, 0, 0]
    assert data["by_risk"] == [1, 0, 2, 3, 4, 5]
    with pytest.raises(DataError, match="no sentences"):
        regard.check_report(regard.check([], [], "length"), files / "none.html")
    with pytest.raises(UsageError, match="threshold=2"):
        regard.check_report(regard.check(["a"], ["b"], "length"), files / "none.html", threshold=2.0)
    assert not (files / "none.html").exists()


def test_python_does_not_replace_its_inputs(models, files) -> None:
    before = (files / "ref.txt").read_bytes()
    with pytest.raises(UsageError, match="would overwrite the input"):
        texts = files / "in.txt", files / "ref.txt"
        regard.report(models[0], test=texts, output=files / "." / "ref.txt")
    assert (files / "ref.txt").read_bytes() == before
