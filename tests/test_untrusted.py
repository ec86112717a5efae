"""A malicious model directory is rejected quickly, and no file outside it is read."""

import json
import os
import time

import numpy as np
import pytest
import torch

from regard.config import from_dict, to_dict
from regard.data.text import TextProcessor
from regard.errors import CheckpointError, DataError
from regard.models import build_model
from regard.runs.checksums import file_checksums, write_weights
from regard.runs.description import read_stated_config, write_config
from regard.runs.fertility_predictor import save_text_processing
from regard.runs.loading import load_model
from regard.runs.serialization import read_array, read_tensors, write_array, write_tensors
from regard.runs.weights import named_weights
from regard.training.run_config import RunConfig
from saved_models import small_rnn, words_side

SIDE = words_side("a b")
PAIR = {"source": "/etc/passwd", "target": "/etc/passwd"}
MODELS = {
    "rnn": small_rnn(4),
    "transformer": {"d_model": 8, "num_heads": 2, "feed_forward": {"ffn_size": 8}},
    "conv": small_rnn(4),
}


@pytest.fixture(params=list(MODELS))
def directory(request, tmp_path):
    """Return a model directory whose config names files outside it."""
    model = {"kind": request.param, **MODELS[request.param]}
    config = from_dict(RunConfig, {"data": {"train": [PAIR], "valid": PAIR}, "model": model})
    save_text_processing(TextProcessor(SIDE, SIDE), tmp_path)
    write_config(config, tmp_path)
    size = len(SIDE.vocabulary)
    write_weights(tmp_path, to_dict(config), named_weights(build_model(config.model, size, size)), {})
    return tmp_path


def forge(directory, old, new):
    """Change the config, and the checksum of it that is stored with the weights; return the old text."""
    path, file = directory / "config.toml", directory / "model.safetensors"
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new))
    tensors, about = read_tensors(file)
    about["file_checksums"] = file_checksums(directory, read_stated_config(directory))
    write_tensors(file, tensors, about)
    return before


def test_loading_does_not_open_paths_named_in_the_config(directory, monkeypatch):
    opened = []

    def watched(path, *rest, _open=open, **named):
        opened.append(str(path))
        return _open(path, *rest, **named)

    monkeypatch.setattr("builtins.open", watched)
    assert load_model(directory, "cpu").text.source.vocabulary.tokens[-1] == "b"
    assert str(directory / "config.toml") in opened and "/etc/passwd" not in opened


@pytest.mark.parametrize("name", ["config.toml", "text.json", "source.vocabulary", "model.safetensors"])
def test_external_links_and_pipes_are_rejected(directory, tmp_path_factory, name):
    other = tmp_path_factory.mktemp("other") / name
    (directory / name).rename(other)
    (directory / name).symlink_to(other)
    with pytest.raises(CheckpointError, match=f"{name}: a symbolic link to a file outside"):
        load_model(directory, "cpu")
    (directory / name).unlink()
    os.mkfifo(directory / name)
    with pytest.raises(CheckpointError, match=f"{name}: not a regular file"):
        load_model(directory, "cpu")


def test_forged_sizes_are_rejected_quickly(directory):
    kind = load_model(directory, "cpu").config.model.kind
    for old, new in {
        "rnn": [("embedding_size = 4", "embedding_size = 16384"), ("num_layers = 1", "num_layers = 100")],
        "transformer": [("ffn_size = 8", "ffn_size = 16384"), ("num_layers = ", "num_layers = 9")],
        "conv": [
            ("hidden_size = 4", "hidden_size = 512"),
            ("embedding_size = 4", "embedding_size = 16384"),
        ],
    }[kind]:
        before = forge(directory, old, new)
        start = time.monotonic()
        with pytest.raises(CheckpointError, match=r"model\.safetensors: "):
            load_model(directory, "cpu")
        assert time.monotonic() - start < 20
        (directory / "config.toml").write_text(before)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "bfloat16", "complex64", "bool"])
def test_weights_of_another_dtype_are_rejected(directory, dtype):
    path = directory / "model.safetensors"
    tensors, about = read_tensors(path)
    name = max(tensors)
    write_tensors(path, tensors | {name: tensors[name].to(getattr(torch, dtype))}, about)
    with pytest.raises(CheckpointError, match=rf"model\.safetensors: '{name}' has dtype torch\.{dtype}"):
        load_model(directory, "cpu")


def test_any_changed_byte_of_a_data_array_is_detected(tmp_path):
    path = tmp_path / "counted.fertilities"
    write_array(path, np.arange(5, dtype=np.int32))
    np.testing.assert_array_equal(read_array(path, "int32", 5), np.arange(5))
    with pytest.raises(DataError, match=r"shape \(5,\), expected \(6\); remove"):
        read_array(path, "int32", 6)
    with pytest.raises(DataError, match="dtype int32, expected float32"):
        read_array(path, "float32", 5)
    whole = bytearray(path.read_bytes())
    # NumPy lacks this dtype.
    write_tensors(path, {"array": torch.zeros(3, dtype=torch.bfloat16)}, {})
    with pytest.raises(DataError, match=r"counted\.fertilities: not an array of prepared text; remove"):
        read_array(path, "float32", 3)
    for place in range(0, len(whole), 3):
        path.write_bytes(bytes([*whole[:place], whole[place] ^ 1, *whole[place + 1 :]]))
        with pytest.raises(DataError, match=r"counted\.fertilities"):
            read_array(path, "int32", 5)


def test_description_with_wrong_types_is_rejected(directory):
    content = json.loads((directory / "text.json").read_text())
    for name in content:
        for wrong in (1, "x", [[]], {"a": {"b": 1}}, None if name == "source" else 2.5):
            (directory / "text.json").write_text(json.dumps(content | {name: wrong}))
            with pytest.raises(DataError, match="not the description"):
                TextProcessor.load(directory)
