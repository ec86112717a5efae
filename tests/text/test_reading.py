"""Tests of checksums and file safety: only intact regular files of the directory itself are read."""

import json
import os
import tracemalloc

import pytest

from regard.data.text import TextProcessor
from regard.errors import DataError
from regard.text.reading import (
    InvalidJsonError,
    compute_checksums,
    file_digest,
    open_regular_file,
    parse_json,
    read_bytes,
    verify_checksums,
)
from saved_models import words_side


@pytest.fixture
def text(tmp_path):
    """Return the directory of a word-level text pair, with a secret file in its parent directory."""
    side = words_side("a b")
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


def test_oversized_files_are_rejected_before_reading(tmp_path):
    path = tmp_path / "sparse"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DataError, match="the maximum is 1,024"):
        read_bytes(path, 1024)
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
