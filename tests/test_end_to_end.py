"""The whole road through the command line, on a small phrasebook: every command that a user types."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

CONFIG = """
[data]
folder = "prepared"
train = [{ source = "text/train.de", target = "text/train.en" }]
valid = { source = "text/valid.de", target = "text/valid.en" }
source_tokenizer = { kind = "words" }
target_tokenizer = { kind = "words" }

[model]
kind = "lstm"
embedding = 24
encoder = { layers = 1, width = 24 }
decoder = { layers = 1, width = 24 }
dropout = 0.0

[training]
batch = { size = 32, unit = "sentences" }
optimizer = { kind = "adam", rate = 1e-2, clip = 1.0 }
stop = { epochs = 2 }
checkpoint = { keep = 2 }

[search]
beam = 3
"""


def regard(folder: Path, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "regard", *arguments],
        cwd=folder,
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def succeed(folder: Path, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess:
    done = regard(folder, *arguments, text=text)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def road(tmp_path_factory) -> Path:
    """A folder with a corpus, a config, and a model trained for a moment."""
    folder = tmp_path_factory.mktemp("road")
    succeed(folder, "phrasebook", "text", "--train", "600", "--valid", "40", "--test", "30")
    (folder / "run.toml").write_text(CONFIG)
    succeed(folder, "phrasebook", "other", "--train", "300", "--valid", "20", "--test", "5", "--seed", "2")
    (folder / "other.toml").write_text(
        CONFIG.replace("text/", "other/").replace('"prepared"', '"prepared-2"')
    )
    trained = succeed(folder, "train", "run.toml", "--out", "model", "--json", "trained.json")
    assert "perplexity" in trained.stderr and trained.stdout == ""
    return folder


def test_a_model_folder_holds_what_it_needs_and_nothing_pickled(road) -> None:
    names = {path.name for path in (road / "model").iterdir()}
    assert {"config.toml", "model.safetensors", "record.jsonl", "text.json", "training"} <= names
    for line in (road / "model" / "record.jsonl").read_text().splitlines():
        json.loads(line)
    kinds = {path.suffix for path in (road / "model").rglob("*") if path.is_file() and path.name != "lock"}
    assert not kinds & {".pt", ".pkl", ".bin"}


def test_training_again_has_nothing_to_do_and_changes_nothing(road) -> None:
    before = (road / "model" / "model.safetensors").read_bytes()
    again = succeed(road, "train", "run.toml", "--out", "model")
    assert "Stopped after" in again.stderr
    assert (road / "model" / "model.safetensors").read_bytes() == before


def test_translations_come_one_a_line_with_all_that_was_asked_for(road) -> None:
    source = (road / "text" / "test.de").read_text()
    arguments = ["--alignment", "links.txt", "--attention", "weights.jsonl", "--svg", "maps.svg"]
    done = succeed(road, "translate", "model", *arguments, text=source)
    lines, sources = done.stdout.splitlines(), source.splitlines()
    assert len(lines) == len(sources) == 30
    links = (road / "links.txt").read_text().splitlines()
    weights = [json.loads(line) for line in (road / "weights.jsonl").read_text().splitlines()]
    assert len(links) == len(weights) == 30
    for line, shown, record, pairs in zip(lines, sources, weights, links, strict=True):
        assert record["source"] == shown.split() and record["target"] == line.split()
        steps = record["posterior"][-1]
        assert len(steps) in (len(record["target"]), len(record["target"]) + 1)
        for heads in steps:
            assert len(heads[0]) == len(record["source"]) and abs(sum(heads[0]) - 1) < 1e-3
        for pair in pairs.split():
            i, j = map(int, pair.split("-"))
            assert i < len(record["source"]) and j < len(record["target"])
    pictures = sorted(road.glob("maps*.svg"))
    assert pictures and all(ElementTree.parse(path).getroot().tag.endswith("svg") for path in pictures)


def test_evaluate_reads_what_translate_wrote(road) -> None:
    succeed(road, "translate", "model", "--input", "text/test.de", "--output", "out.en")
    arguments = ["text/test.en", "--tokenize", "none", "--metric", "bleu,chrf", "--json", "scores.json"]
    succeed(road, "evaluate", "out.en", *arguments)
    figures = json.loads((road / "scores.json").read_text())
    assert 0 <= figures["bleu"] <= 100 and "tok:none" in figures["signatures"]["bleu"]


def test_score_gives_a_log_probability_a_line_and_average_a_model_that_translates(road) -> None:
    scored = succeed(road, "score", "model", "text/test.de", "text/test.en")
    assert all(float(line.split()[0]) < 0 for line in scored.stdout.splitlines())
    assert len(scored.stdout.splitlines()) == 30
    succeed(road, "average", "averaged", "model", "--last", "2")
    done = succeed(road, "translate", "averaged", "model", "--show", text="Der Hund schläft .\n\n")
    assert "blank 0" in done.stdout  # the map and its legend


def test_perplexity_of_evaluate_is_that_of_score_and_of_training(road) -> None:
    arguments = [
        "text/valid.de",
        "text/valid.en",
        "--tokens",
        "--output",
        "tokens.txt",
        "--json",
        "score.json",
    ]
    told = succeed(road, "score", "model", *arguments).stderr
    succeed(road, "evaluate", "--log-probs", "tokens.txt", "--json", "perplexity.json")
    scored = json.loads((road / "score.json").read_text())["perplexity"]
    assert f"perplexity {scored:.4f}" in told
    evaluated = json.loads((road / "perplexity.json").read_text())["perplexity"]
    assert evaluated == pytest.approx(scored, rel=1e-4)
    trained = json.loads((road / "trained.json").read_text())
    assert trained["best"] == pytest.approx(scored, rel=1e-4)


def test_starting_from_a_model_of_other_words_is_refused(road) -> None:
    refused = regard(road, "train", "other.toml", "--from", "model", "--out", "second")
    assert refused.returncode == 2 and "vocabulary" in refused.stderr and "training.start" in refused.stderr
    assert not (road / "second" / "config.toml").exists()


def test_an_altered_array_is_named_before_it_is_trained_on(road) -> None:
    path = road / "prepared-2" / "train.target.tokens"
    succeed(road, "prepare", "other.toml")
    content = bytearray(path.read_bytes())
    content[8] ^= 1
    path.write_bytes(bytes(content))
    refused = regard(road, "train", "other.toml", "--out", "third")
    assert refused.returncode == 1 and "train.target.tokens" in refused.stderr


def test_another_config_in_the_same_folder_is_refused_by_key(road) -> None:
    refused = regard(road, "train", "run.toml", "model.embedding=16", "--out", "model")
    assert (
        refused.returncode == 2 and "model.embedding" in refused.stderr and "Traceback" not in refused.stderr
    )


def test_a_damaged_model_is_named(road) -> None:
    import shutil

    shutil.copytree(road / "model", road / "damaged")
    weights = road / "damaged" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    refused = regard(road, "translate", "damaged", text="Ja .\n")
    assert refused.returncode == 1 and str(Path("damaged", "model.safetensors")) in refused.stderr
    assert "Traceback" not in refused.stderr
