"""Compressed text: every format is read wherever text is read, and written under its suffix."""

import bz2
import gzip
import io
import lzma
import tracemalloc

import pytest

from regard.errors import DataError
from regard.text.compression import zstd
from regard.text.corpus import decode_lines, read_lines
from regard.text.files import write_atomic
from regard.text.reading import read_json

FORMATS = {".gz": gzip, ".bz2": bz2, ".xz": lzma, ".zst": zstd}
LINES = [f"line {i} ä" for i in range(50)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
suffixes = pytest.mark.parametrize("suffix", FORMATS)


@suffixes
def test_name_of_an_output_sets_its_compression(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    write_atomic(path, TEXT)
    assert path.read_bytes() != TEXT and FORMATS[suffix].decompress(path.read_bytes()) == TEXT
    write_atomic(tmp_path / f"again{suffix}", TEXT)
    assert (tmp_path / f"again{suffix}").read_bytes() == path.read_bytes()


@suffixes
@pytest.mark.parametrize("name", ["text{}", "text", "text.gz"])
def test_first_bytes_of_an_input_set_its_compression(tmp_path, suffix, name):
    path = tmp_path / name.format(suffix)
    path.write_bytes(FORMATS[suffix].compress(TEXT))
    assert list(read_lines(path)) == LINES
    with open(path, "rb") as file:
        assert list(decode_lines(file, "standard input")) == LINES
    assert list(decode_lines(io.BytesIO(path.read_bytes()), "standard input")) == LINES


@suffixes
def test_joined_compressed_files_are_their_joined_texts(tmp_path, suffix):
    path = tmp_path / "joined"
    path.write_bytes(2 * FORMATS[suffix].compress(TEXT))
    assert list(read_lines(path)) == 2 * LINES


@pytest.mark.parametrize("text", ["BZh9 is a word\n", "P*M\n"])
def test_text_that_resembles_a_compressed_file_is_text(tmp_path, text):
    (tmp_path / "text.gz").write_text(text)
    assert list(read_lines(tmp_path / "text.gz")) == [text[:-1]]


@suffixes
@pytest.mark.parametrize("place", [0, 2, 30, -6])
def test_altered_and_truncated_files_are_reported(tmp_path, suffix, place):
    path = tmp_path / f"bad{suffix}"
    write_atomic(path, TEXT)
    whole = bytearray(path.read_bytes())
    whole[place] ^= 0xC1
    path.write_bytes(whole)
    with pytest.raises(DataError, match=rf"bad\{suffix}: (damaged file|line .*: not UTF-8)"):
        list(read_lines(path))
    for cut in (20, -4, -9):
        path.write_bytes(FORMATS[suffix].compress(TEXT)[:cut])
        with pytest.raises(DataError, match=rf"bad\{suffix}: damaged file"):
            list(read_lines(path))


@suffixes
def test_json_is_read_from_compressed_files_of_limited_size(tmp_path, suffix):
    path = tmp_path / f"results.json{suffix}"
    write_atomic(path, b'{"name": "%s"}' % (b"x" * 1000))
    assert read_json(path, dict[str, str]) == {"name": "x" * 1000}
    with pytest.raises(DataError, match="more than 999 bytes, the maximum, after decompression"):
        read_json(path, dict[str, str], 999)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=rf"{suffix}: damaged file"):
        read_json(path, dict[str, str])


@suffixes
def test_a_small_compressed_file_cannot_exhaust_the_memory(tmp_path, suffix, caplog):
    path = tmp_path / f"bomb{suffix}"
    path.write_bytes(FORMATS[suffix].compress(b"x" * (32 << 20) + b"\nlast\n"))
    tracemalloc.start()
    assert list(read_lines(path)) == ["", "last"]
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
    assert "replaced by an empty line" in caplog.text
