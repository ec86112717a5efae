"""An end-to-end test of the command line on a small built-in corpus: every command that a user runs."""

import json
import os
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from warm_python import warm_python

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
checkpoint = { keep_last_epochs = 2 }

[generation]
beam_size = 3
"""


def regard(directory: Path, command: str, text: str | None = None) -> subprocess.CompletedProcess:
    """Run the command line in a directory, with one OpenMP thread."""
    return subprocess.run(
        [warm_python(), "-m", "regard", *command.split()],
        cwd=directory,
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def succeed(directory: Path, command: str, text: str | None = None) -> subprocess.CompletedProcess:
    """Run the command line and require exit status 0."""
    done = regard(directory, command, text)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory) -> Path:
    """Return a directory with a corpus, a config file and a briefly trained model."""
    directory = tmp_path_factory.mktemp("end-to-end")
    succeed(directory, "phrasebook text --num-train 600 --num-valid 40 --num-test 30")
    (directory / "run.toml").write_text(CONFIG)
    succeed(directory, "phrasebook other --num-train 300 --num-valid 20 --num-test 5 --seed 2")
    (directory / "other.toml").write_text(
        CONFIG.replace("text/", "other/").replace('"prepared"', '"prepared-2"')
    )
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


def test_training_again_leaves_the_weights_unchanged(run_dir) -> None:
    before = (run_dir / "model" / "model.safetensors").read_bytes()
    again = succeed(run_dir, "train run.toml --output-dir model")
    assert "Stopped after" in again.stderr
    assert (run_dir / "model" / "model.safetensors").read_bytes() == before


def test_translate_writes_one_line_per_sentence_and_all_requested_files(run_dir) -> None:
    source = (run_dir / "text" / "test.de").read_text()
    arguments = "--links-output links.txt --attention-output weights.jsonl --svg maps.svg"
    done = succeed(run_dir, f"translate model {arguments}", source)
    lines, sources = done.stdout.splitlines(), source.splitlines()
    assert len(lines) == len(sources) == 30
    links = (run_dir / "links.txt").read_text().splitlines()
    weights = [json.loads(line) for line in (run_dir / "weights.jsonl").read_text().splitlines()]
    assert len(links) == len(weights) == 30
    for line, shown, record, pairs in zip(lines, sources, weights, links, strict=True):
        assert record["source_tokens"] == shown.split() and record["tokens"] == line.split()
        steps = record["posterior_attention"][-1]
        assert len(steps) in (len(record["tokens"]), len(record["tokens"]) + 1)
        for heads in steps:
            assert len(heads[0]) == len(record["source_tokens"]) and abs(sum(heads[0]) - 1) < 1e-3
        for pair in pairs.split():
            i, j = map(int, pair.split("-"))
            assert i < len(record["source_tokens"]) and j < len(record["tokens"])
    pictures = sorted(run_dir.glob("maps*.svg"))
    assert pictures and all(ElementTree.parse(path).getroot().tag.endswith("svg") for path in pictures)


def test_evaluate_accepts_output_of_translate(run_dir) -> None:
    succeed(run_dir, "translate model --input text/test.de --output out.en")
    succeed(run_dir, "evaluate out.en text/test.en --tokenize none --metrics bleu,chrf --json scores.json")
    bleu, _ = json.loads((run_dir / "scores.json").read_text())["metrics"]
    assert 0 <= bleu["score"] <= 100 and "tok:none" in bleu["signature"]


def test_score_prints_one_log_probability_per_line_and_averaged_model_translates(run_dir) -> None:
    scored = succeed(run_dir, "score model text/test.de text/test.en")
    assert all(float(line.split()[0]) < 0 for line in scored.stdout.splitlines())
    assert len(scored.stdout.splitlines()) == 30
    succeed(run_dir, "average averaged model --last-epochs 2")
    done = succeed(run_dir, "translate averaged model --show-attention", "Der Hund schläft .\n\n")
    assert "blank 0" in done.stdout  # from the legend of the attention map


def test_evaluate_score_and_training_agree_on_perplexity(run_dir) -> None:
    arguments = "text/valid.de text/valid.en --token-scores --output tokens.txt --json score.json"
    log = succeed(run_dir, f"score model {arguments}").stderr
    scored = json.loads((run_dir / "score.json").read_text())["perplexity"]
    assert f"perplexity {scored:.4f}" in log
    trained = json.loads((run_dir / "trained.json").read_text())
    assert trained["best"] == pytest.approx(scored, rel=1e-4)


def test_initializing_from_model_with_other_vocabulary_is_rejected(run_dir) -> None:
    refused = regard(run_dir, "train other.toml training.init_from=model --output-dir second")
    assert refused.returncode == 2 and "vocabulary" in refused.stderr
    assert not (run_dir / "second" / "config.toml").exists()


def test_modified_data_array_is_named_before_training(run_dir) -> None:
    path = run_dir / "prepared-2" / "train.target.tokens"
    succeed(run_dir, "prepare other.toml")
    content = bytearray(path.read_bytes())
    content[8] ^= 1
    path.write_bytes(bytes(content))
    refused = regard(run_dir, "train other.toml --output-dir third")
    assert refused.returncode == 1 and "train.target.tokens" in refused.stderr


def test_changed_config_in_same_directory_is_rejected_by_key(run_dir) -> None:
    refused = regard(run_dir, "train run.toml model.embedding_size=16 --output-dir model")
    assert refused.returncode == 2 and "model.embedding_size" in refused.stderr
