"""Tests of the detection of validation text with swapped sides, for every tokenizer."""

import logging
from pathlib import Path

import pytest

from regard.config import from_dict
from regard.data.config import DataConfig
from regard.data.dataset import PreparedData, prepare_data
from regard.data.swapped_sides import is_swapped, warn_if_swapped
from regard.extensions.phrasebook.corpus import write_splits
from regard.training.run import run_training as train
from regard.training.run_config import RunConfig


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("corpus")
    write_splits(directory, {"train": 400, "valid": 30, "test": 30}, seed=1)
    return directory


def _prepared(corpus: Path, into: Path, **settings: object) -> PreparedData:
    """Return prepared data with swapped validation text and correct test text."""
    sides = {"train": "de en", "valid": "en de", "test": "de en"}
    pairs = {
        split: dict(
            zip(("source", "target"), (str(corpus / f"{split}.{one}") for one in ends.split()), strict=True)
        )
        for split, ends in sides.items()
    }
    content = {"cache_dir": str(into), **pairs, "train": [pairs["train"]], **settings}
    return prepare_data(from_dict(DataConfig, content))


BPE = {"kind": "bpe", "num_merges": 300}
SENTENCEPIECE = {"kind": "sentencepiece", "vocab_size": 500}


@pytest.mark.parametrize("shared_vocab", [False, True])
@pytest.mark.parametrize("tokenizer", [{"kind": "words"}, BPE, SENTENCEPIECE], ids=lambda one: one["kind"])
def test_swapped_text_is_logged_and_correct_text_is_not(
    corpus: Path, tmp_path: Path, caplog, tokenizer: dict, shared_vocab: bool
) -> None:
    kinds = {"source_tokenizer": tokenizer, "target_tokenizer": tokenizer}
    prepared = _prepared(corpus, tmp_path / "prepared", **kinds, shared_vocab=shared_vocab)
    assert is_swapped(prepared, "valid") and not is_swapped(prepared, "test")
    with caplog.at_level(logging.WARNING):
        warn_if_swapped(prepared)
    messages = [record.getMessage() for record in caplog.records]
    warnings = [message for message in messages if "seem to be swapped" in message]
    assert len(warnings) == 1 and "valid.en and" in warnings[0] and "data.valid" in warnings[0]


def test_frequent_unknown_tokens_do_not_hide_swapped_text(corpus: Path, tmp_path: Path) -> None:
    # Many training words are unknown; this must not make unknown words in other text more probable.
    prepared = _prepared(corpus, tmp_path / "prepared", min_frequency=10)
    assert is_swapped(prepared, "valid") and not is_swapped(prepared, "test")


def test_identical_sides_are_not_reported_as_swapped(tmp_path: Path) -> None:
    lines = [f"w{i % 7} w{i % 5} w{i % 3}" for i in range(60)]
    for name, chosen in (("train", lines), ("valid", lines[3:30])):
        (tmp_path / f"{name}.a").write_text("".join(f"{line}\n" for line in chosen))
        (tmp_path / f"{name}.b").write_text("".join(f"{line[::-1]}\n" for line in chosen))
    pair = {
        name: {"source": f"{tmp_path}/{name}.a", "target": f"{tmp_path}/{name}.a"}
        for name in ("train", "valid")
    }
    content = {"cache_dir": str(tmp_path / "prepared"), "train": [pair["train"]], "valid": pair["valid"]}
    assert not is_swapped(prepare_data(from_dict(DataConfig, content)), "valid")


def test_training_logs_swapped_validation_files_and_tiny_corpora(tmp_path: Path, caplog) -> None:
    (tmp_path / "train.de").write_text("das ist ein kleines haus\n")
    (tmp_path / "train.en").write_text("this is a small house\n")
    german, english = str(tmp_path / "train.de"), str(tmp_path / "train.en")
    side = {"num_layers": 1, "hidden_size": 8}
    content = {
        "device": "cpu",
        "data": {
            "cache_dir": str(tmp_path / "prepared"),
            "train": [{"source": german, "target": english}],
            "valid": {"source": english, "target": german},
        },
        "model": {"embedding_size": 8, "encoder": side, "decoder": side},
        "training": {"max_epochs": 1},
    }
    for number in range(2):  # the second run reuses the prepared data
        caplog.clear()
        train(from_dict(RunConfig, content), tmp_path / f"model{number}")
        assert "train.en and " in caplog.text and "source and target seem to be swapped" in caplog.text
