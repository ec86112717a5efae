"""Tests of `regard actions`, and of a pointer model trained on its output."""

from functools import partial

import pytest
from command_runs import invoke

from regard.api.translator import load
from regard.config import from_dict
from regard.errors import DataError, UsageError
from regard.text.corpus import CorpusConfig, read_pairs
from regard.training.metrics_logger import read_metrics
from regard.training.run import run_training as train
from regard.training.run_config import RunConfig

STEMS = ["Bad", "Dach", "Fach", "Rad", "Amt", "Gut", "Kind", "Lied"]

run = partial(invoke, "actions")


@pytest.mark.slow
def test_pointer_model_learns_the_action_tables(tmp_path, caplog):
    # The column order of SIGMORPHON: lemma, form, features.
    rows = [(stem, form, tag) for stem in STEMS for form, tag in ((stem, "SG"), (stem + "er", "PL"))]
    table = tmp_path / "nouns.tsv"
    table.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    result = run(table, "--output-dir", tmp_path / "new", "--columns", "1,3,2", "--num-threads", 1)
    assert result.exit_code == 0, result.output
    new = tmp_path / "new" / "nouns.tsv"
    pairs = list(read_pairs(from_dict(CorpusConfig, {"file": str(new), "columns": [1, 2, 3]})))
    assert [source for source, _ in pairs] == [f"{lemma}\t{tag}" for lemma, _, tag in rows]
    assert [target.replace("→", "") for _, target in pairs] == [form for _, form, _ in rows]
    assert sum("→" in target for _, target in pairs) > len(pairs) / 2

    corpus = {"file": str(new), "columns": [1, 2, 3]}
    config = {
        "device": "cpu",
        "data": {
            "cache_dir": str(tmp_path / "prepared"),
            "train": [corpus],
            "valid": corpus,
            "source_tokenizer": {"kind": "inflection"},
            "target_tokenizer": {"kind": "actions"},
        },
        "model": {
            "embedding_size": 32,
            "encoder": {"num_layers": 1, "hidden_size": 32},
            "decoder": {"num_layers": 1, "hidden_size": 32, "query": "previous", "input_feeding": "context"},
            "attention": {"kind": "pointer"},
            "dropout": 0.0,
        },
        "training": {
            "batch_size": 4,
            "batch_unit": "sentences",
            "optimizer": {"kind": "adam", "learning_rate": 0.02},
            "lr_scheduler": {"kind": "constant"},
            "validation": {"metric": "accuracy", "every_steps": 40},
            "max_epochs": 0,
            "max_steps": 160,
        },
    }
    train(from_dict(RunConfig, config), tmp_path / "model")
    # Accuracy compares whole forms, from which the step actions are removed.
    assert max(entry.get("accuracy", 0) for entry in read_metrics(tmp_path / "model")) > 90
    # Scoring takes targets as actions, too.
    model = load(tmp_path / "model", device="cpu")
    no_steps = [target.replace("→", "") for _, target in pairs]
    right, wrong = (
        model.score([source for source, _ in pairs], lines) for lines in ([t for _, t in pairs], no_steps)
    )
    assert sum(one.log_probability for one in right) > sum(one.log_probability for one in wrong)
    assert len(caplog.messages) == 1 and "no step action (→) in 'Bad'" in caplog.text


def test_tables_are_not_overwritten(tmp_path):
    table, same_name = tmp_path / "nouns.tsv", tmp_path / "other" / "nouns.tsv"
    same_name.parent.mkdir()
    for path in (table, same_name):
        path.write_text("Bad\tSG\tBad\n")
    result = run(table, "--output-dir", tmp_path)
    assert isinstance(result.exception, UsageError) and "would overwrite" in str(result.exception)
    result = run(table, same_name, "--output-dir", tmp_path / "new")
    assert isinstance(result.exception, UsageError) and "two tables" in str(result.exception)
    assert table.read_text() == "Bad\tSG\tBad\n" and not (tmp_path / "new").exists()


@pytest.mark.parametrize("columns", ["lemma", "1", "1,1,3", "0,1,2", "1,,3"])
def test_invalid_columns_are_rejected(tmp_path, columns):
    result = run(tmp_path / "x", "--output-dir", tmp_path, "--columns", columns)
    assert isinstance(result.exception, UsageError) and "--columns" in str(result.exception)


@pytest.mark.parametrize("line", ["Bad\tSG\t", "Bad\t\tBäder", "\tSG\tBad", "Bad\tSG\tB→ad"])
def test_lines_that_cannot_be_aligned_are_reported(tmp_path, line):
    table = tmp_path / "nouns.tsv"
    table.write_text(f"Bad\tSG\tBad\n{line}\n", encoding="utf-8")
    result = run(table, "--output-dir", tmp_path / "new")
    assert isinstance(result.exception, DataError) and f"{table}: line 2" in str(result.exception)
    assert not (tmp_path / "new").exists()
