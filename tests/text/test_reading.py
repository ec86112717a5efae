"""Tests of checksums and file safety: only intact regular files of the directory itself are read."""

import io
import json
import os
import tracemalloc
import zipfile

import pytest

from regard.data.text import TextProcessor, TextSide
from regard.errors import CheckpointError, DataError
from regard.extensions.hf.files import pack_tokenizer, read_hf_config, unpack_tokenizer
from regard.runs.description import load_description
from regard.text.reading import (
    InvalidJsonError,
    compute_checksums,
    file_digest,
    open_regular_file,
    parse_json,
    read_bytes,
    read_limited,
    verify_checksums,
)
from regard.text.tokenizers.words import WordsConfig, WordsTokenizer
from regard.text.vocabulary import SPECIAL_TOKENS, Vocabulary


@pytest.fixture
def text(tmp_path):
    """Return the directory of a word-level text pair, with a secret file in its parent directory."""
    side = TextSide(WordsTokenizer(WordsConfig()), Vocabulary((*SPECIAL_TOKENS, "a", "b")))
    directory = tmp_path / "model"
    directory.mkdir()
    TextProcessor(side, side).save(directory)
    (tmp_path / "secret").write_text("root:x:0:0\n")
    return directory


def change(directory, **content):
    path = directory / "text.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | content))


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "..", ".", "", "a/b", "a\\b", "nul\0", "./source.vocabulary"]
)
def test_file_names_with_path_parts_are_rejected(text, name):
    digest = file_digest(text.parent / "secret")
    change(text, sha256={**json.loads((text / "text.json").read_text())["sha256"], name: digest})
    with pytest.raises(DataError, match="expected the plain name of a file in the"):
        TextProcessor.load(text)


def test_symbolic_links_are_followed_only_within_the_directory(text):
    path = text / "source.vocabulary"
    path.rename(text / "kept")
    path.symlink_to("kept")
    assert TextProcessor.load(text).source.vocabulary.tokens[-1] == "b"
    path.unlink()
    (text / "kept").rename(text.parent / "kept")
    path.symlink_to(text.parent / "kept")
    with pytest.raises(DataError, match=r"source\.vocabulary: a symbolic link to a file outside"):
        TextProcessor.load(text)
    path.unlink()
    path.symlink_to(path.name)
    with pytest.raises(DataError, match=r"source\.vocabulary"):
        TextProcessor.load(text)


def test_named_pipes_and_devices_are_rejected(text, tmp_path):
    path = text / "source.vocabulary"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DataError, match=r"source\.vocabulary: not a regular file"):
        TextProcessor.load(text)
    for read in (read_bytes, file_digest, open_regular_file):
        for special in (path, "/dev/zero"):
            with pytest.raises(DataError, match="not a regular file"):
                read(special)
        with pytest.raises(DataError, match="Is a directory"):
            read(tmp_path)
        with pytest.raises(DataError, match="not a valid file name"):
            read("a\0b")


def test_file_without_a_checksum_is_not_read(text):
    checksums = json.loads((text / "text.json").read_text())["sha256"]
    checksums.pop("target.vocabulary")
    change(text, sha256=checksums)
    with pytest.raises(DataError, match=r"has no checksum for target\.vocabulary"):
        TextProcessor.load(text)


def test_every_changed_byte_is_detected(tmp_path):
    (tmp_path / "one").write_bytes(bytes(range(40)))
    checksums = compute_checksums(tmp_path, ["one"])
    verify_checksums(tmp_path, checksums, ["one"], "about.json")
    for position in range(40):
        content = bytearray(range(40))
        content[position] ^= 1
        (tmp_path / "one").write_bytes(bytes(content))
        with pytest.raises(DataError, match="one: truncated or altered"):
            verify_checksums(tmp_path, checksums, ["one"], "about.json")
    (tmp_path / "one").unlink()
    with pytest.raises(DataError, match="one: No such file"):
        verify_checksums(tmp_path, checksums, ["one"], "about.json")


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


def test_oversized_files_are_rejected_before_reading(tmp_path):
    path = tmp_path / "sparse"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DataError, match="the maximum is 1,024"):
        read_limited(path, 1024)
    with pytest.raises(DataError, match="sparse: the file has 1,099,511,627,776 bytes"):
        read_bytes(path)
    path.write_bytes(b"short")
    tracemalloc.start()
    assert read_bytes(path) == b"short"
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    "value",
    ["[" * 5000 + "]" * 5000, '{"a":' * 5000 + "1" + "}" * 5000, "9" * 5000, "", "{", "[1, 2", '"\\ud800"'],
)
def test_invalid_json_raises_one_error_type(value):
    with pytest.raises(InvalidJsonError):
        parse_json(value, dict[str, int])
    with pytest.raises(InvalidJsonError):
        parse_json(f'{{"a": {value}}}', dict[str, int])


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
    ("setting", "value"),
    [("encoder_layers", 10**8), ("num_hidden_layers", 5000), ("vocab_size", 10**9), ("d_model", -(10**9))],
)
def test_unreasonable_model_sizes_are_rejected(tmp_path, setting, value):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bart", setting: value}))
    with pytest.raises(CheckpointError, match=f"{setting} = {value}"):
        read_hf_config(tmp_path)


def test_remote_code_in_a_config_is_rejected(tmp_path):
    content = {"model_type": "bart", "attn_implementation": "someone/kernels"}
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="refers to remote code"):
        read_hf_config(tmp_path)


def test_minimum_length_above_the_maximum_in_a_directory_is_rejected(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bart"}')
    settings = tmp_path / "generation_config.json"
    settings.write_text(json.dumps({"min_length": 50, "max_length": 20}))
    with pytest.raises(CheckpointError, match=r"generation_config\.json: .*min_length = 50 exceeds 20"):
        load_description(tmp_path)
    settings.write_text(json.dumps({"min_length": 20, "max_length": 20}))
    assert load_description(tmp_path).generation.min_length == 20


@pytest.mark.parametrize(
    ("setting", "value"),
    [("num_beams", 10**9), ("min_length", 10**12), ("no_repeat_ngram_size", -5), ("length_penalty", 1e300)],
)
def test_unreasonable_search_settings_are_rejected(tmp_path, setting, value):
    (tmp_path / "config.json").write_text('{"model_type": "bart"}')
    (tmp_path / "generation_config.json").write_text(json.dumps({setting: value}))
    with pytest.raises(CheckpointError, match=r"generation_config\.json: "):
        load_description(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"max_length": 10**12, "num_beams": 3}))
    search = load_description(tmp_path).generation
    assert (search.beam_size, search.max_length_offset) == (3, 100_000)
