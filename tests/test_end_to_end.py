"""An end-to-end test of the command line on a small built-in corpus: its commands agree with each other."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONFIG = """
[data]
cache_dir = "prepared"
train = [{ source = "text/train.de", target = "text/train.en" }]
valid = { source = "text/valid.de", target = "text/valid.en" }
source_tokenizer = { kind = "words" }
target_tokenizer = { kind = "words" }

[model]
kind = "rnn"
embedding_size = 24
encoder = { num_layers = 1, hidden_size = 24 }
decoder = { num_layers = 1, hidden_size = 24 }
dropout = 0.0

[training]
batch_size = 32
batch_unit = "sentences"
optimizer = { kind = "adam", learning_rate = 1e-2, max_grad_norm = 1.0 }
max_epochs = 2

[generation]
beam_size = 3
"""


def regard(directory: Path, line: str, text: str | None = None) -> subprocess.CompletedProcess:
    """Run a command line in a directory, with one OpenMP thread."""
    return subprocess.run(
        [sys.executable, "-m", "regard", *line.split()],
        cwd=directory,
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def succeed(directory: Path, line: str, text: str | None = None) -> subprocess.CompletedProcess:
    """Run a command line and require exit status 0."""
    done = regard(directory, line, text)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory) -> Path:
    """Return a directory with a corpus, a config file and a briefly trained model."""
    directory = tmp_path_factory.mktemp("end-to-end")
    succeed(directory, "phrasebook text --num-train 600 --num-valid 40 --num-test 30")
    (directory / "run.toml").write_text(CONFIG)
    trained = succeed(directory, "train run.toml --output-dir model --json trained.json")
    assert "perplexity" in trained.stderr and trained.stdout == ""
    return directory


def test_model_directory_is_complete_and_contains_no_pickle(run_dir) -> None:
    names = {path.name for path in (run_dir / "model").iterdir()}
    assert {"config.toml", "model.safetensors", "record.jsonl", "text.json", "training"} <= names
    for line in (run_dir / "model" / "record.jsonl").read_text().splitlines():
        json.loads(line)
    kinds = {path.suffix for path in (run_dir / "model").rglob("*") if path.is_file() and path.name != "lock"}
    assert not kinds & {".pt", ".pkl", ".bin"}


def test_translate_writes_one_line_per_sentence_and_all_requested_files(run_dir) -> None:
    source = (run_dir / "text" / "test.de").read_text()
    files = "--links-output links.txt --attention-output weights.jsonl --svg maps.svg"
    lines = succeed(run_dir, f"translate model {files}", source).stdout.splitlines()
    sources = source.splitlines()
    assert len(lines) == len(sources) == 30
    links = (run_dir / "links.txt").read_text().splitlines()
    weights = [json.loads(line) for line in (run_dir / "weights.jsonl").read_text().splitlines()]
    for line, words, record, pairs in zip(lines, sources, weights, links, strict=True):
        assert record["source_tokens"] == words.split() and record["tokens"] == line.split()
        steps = record["posterior_attention"][-1]
        assert len(steps) in (len(record["tokens"]), len(record["tokens"]) + 1)
        for heads in steps:
            assert len(heads[0]) == len(record["source_tokens"]) and abs(sum(heads[0]) - 1) < 1e-3
        for pair in pairs.split():
            i, j = map(int, pair.split("-"))
            assert i < len(record["source_tokens"]) and j < len(record["tokens"])
    pictures = sorted(run_dir.glob("maps*.svg"))
    assert pictures and all(ElementTree.parse(path).getroot().tag.endswith("svg") for path in pictures)


def test_score_and_training_agree_on_perplexity(run_dir) -> None:
    texts = "text/valid.de text/valid.en"
    done = succeed(run_dir, f"score model {texts} --json score.json")
    scores = [float(line.split()[0]) for line in done.stdout.splitlines()]
    assert len(scores) == 40 and max(scores) < 0
    perplexity = json.loads((run_dir / "score.json").read_text())["perplexity"]
    assert f"perplexity {perplexity:.4f}" in done.stderr
    trained = json.loads((run_dir / "trained.json").read_text())
    assert trained["best"] == pytest.approx(perplexity, rel=1e-4)
