"""Directories of Hugging Face models are not trusted: links, archives, sizes and settings are checked."""

import io
import json
import zipfile

import pytest

from regard.errors import CheckpointError, DataError
from regard.extensions.hf.files import pack_tokenizer, read_hf_config, unpack_tokenizer
from regard.runs.description import load_description


def test_download_cache_links_are_followed_only_to_the_blobs(tmp_path):
    directory = tmp_path / "models--a--b" / "snapshots" / "1234"
    blobs = tmp_path / "models--a--b" / "blobs"
    directory.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "abcd").write_text('{"model_type": "bart"}')
    (directory / "config.json").symlink_to("../../blobs/abcd")
    assert read_hf_config(directory)["model_type"] == "bart"
    (directory / "config.json").unlink()
    (tmp_path / "other").write_text('{"model_type": "bart"}')
    (directory / "config.json").symlink_to(tmp_path / "other")
    with pytest.raises(CheckpointError, match="a symbolic link to a file outside"):
        read_hf_config(directory)


def test_archives_are_limited_in_size(tmp_path):
    (tmp_path / "in").mkdir()
    with open(tmp_path / "in" / "tokenizer.json", "wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(DataError, match=r"have 1,073,741,824 bytes"):
        pack_tokenizer(tmp_path / "in")
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(80):
            archive.writestr(f"{number}.txt", bytes(1 << 20))
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match=r"have 83,886,080 bytes"):
        unpack_tokenizer(bomb.getvalue(), tmp_path / "out", "source.pretrained")
    assert not list((tmp_path / "out").iterdir())
    for name in ("../a", "/a", ".."):
        bad = io.BytesIO()
        with zipfile.ZipFile(bad, "w") as archive:
            archive.writestr(name, b"x")
        with pytest.raises(DataError):
            unpack_tokenizer(bad.getvalue(), tmp_path / "out", "source.pretrained")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("encoder_layers", 10**8, "encoder_layers = 100000000"),
        ("num_hidden_layers", 5000, "num_hidden_layers = 5000"),
        ("vocab_size", 10**9, "vocab_size = 1000000000"),
        ("d_model", -(10**9), "d_model = -1000000000"),
        ("attn_implementation", "someone/kernels", "refers to remote code"),
    ],
)
def test_unreasonable_model_sizes_and_remote_code_are_rejected(tmp_path, setting, value, message):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bart", setting: value}))
    with pytest.raises(CheckpointError, match=message):
        read_hf_config(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_beams": 10**9}, ""),
        ({"min_length": 10**12}, ""),
        ({"no_repeat_ngram_size": -5}, ""),
        ({"length_penalty": 1e300}, ""),
        ({"min_length": 50, "max_length": 20}, ".*min_length = 50 exceeds 20"),
    ],
)
def test_unreasonable_search_settings_are_rejected(tmp_path, settings, message):
    (tmp_path / "config.json").write_text('{"model_type": "bart"}')
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps(settings))
    with pytest.raises(CheckpointError, match=rf"generation_config\.json: {message}"):
        load_description(tmp_path)
    path.write_text(json.dumps({"max_length": 10**12, "num_beams": 3, "min_length": 20}))
    search = load_description(tmp_path).generation
    assert (search.beam_size, search.max_length_offset, search.min_length) == (3, 100_000, 20)
