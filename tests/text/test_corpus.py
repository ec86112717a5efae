"""Tests of reading parallel text: line ends, encodings, damaged files, and the settings of a corpus."""

import gzip
import logging

import pytest

from regard.config import from_dict
from regard.data.config import DataConfig
from regard.errors import ConfigError, DataError
from regard.text.corpus import MAX_LINE_BYTES, CorpusConfig, read_lines, read_pairs


def write(path, content):
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    "content",
    [
        b"eins\nzwei \xc3\xa4\n",
        b"eins\r\nzwei \xc3\xa4\r\n",
        b"\xef\xbb\xbfeins\nzwei \xc3\xa4",
        b"\xef\xbb\xbfeins\r\nzwei \xc3\xa4",
    ],
)
def test_line_ends_and_bom_do_not_change_the_text(tmp_path, content):
    assert list(read_lines(write(tmp_path / "text", content))) == ["eins", "zwei ä"]


def test_only_line_feeds_end_a_line(tmp_path):
    # As for `wc -l`; other Unicode separators do not end a line.
    path = write(tmp_path / "text", "a\u2028b\x85c\x0bd\re\nf\n".encode())
    assert list(read_lines(path)) == ["a\u2028b c d e", "f"]


def test_control_characters_become_spaces_and_are_counted(tmp_path, caplog):
    path = write(tmp_path / "text", b"a\x00b\tc\x7f\n\x1b[0m\xc2\x9f\n")
    with caplog.at_level(logging.WARNING):
        assert list(read_lines(path)) == ["a b\tc ", " [0m "]
    assert "4 control characters" in caplog.text
    assert path in caplog.text


def test_invalid_utf8_is_reported_with_file_line_and_byte(tmp_path):
    path = write(tmp_path / "latin", b"gut\nsch\xf6n\n")
    with pytest.raises(DataError, match=r"latin: line 2, byte 4: not UTF-8 \(0xf6\)"):
        list(read_lines(path))
    path = write(tmp_path / "utf16", "ab".encode("utf-16"))
    with pytest.raises(DataError, match="line 1, byte 1"):
        list(read_lines(path))
    path = write(tmp_path / "marked", b"\xef\xbb\xbfab\xff\n")
    with pytest.raises(DataError, match="line 1, byte 6"):
        list(read_lines(path))


@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0)])
def test_empty_files_are_reported(tmp_path, content):
    with pytest.raises(DataError, match=r"nothing.*empty"):
        list(read_lines(write(tmp_path / "nothing", content)))


def test_pairs_are_read_from_two_files_or_one_tsv_file(tmp_path):
    source, target = write(tmp_path / "s", b"a\nb\n"), write(tmp_path / "t", b"x\ny\n")
    both = write(tmp_path / "both.tsv", b"a\tx\nb\ty\tmore\n")
    expected = [("a", "x"), ("b", "y")]
    assert list(read_pairs(CorpusConfig(source=source, target=target))) == expected
    assert list(read_pairs(CorpusConfig(file=both))) == expected
    # The columns of inflection data: lemma, features, form.
    nouns = write(tmp_path / "nouns.tsv", "Kloß\tplural\tKlöße\n".encode())
    assert list(read_pairs(CorpusConfig(file=nouns, columns=(1, 2, 3)))) == [("Kloß\tplural", "Klöße")]
    assert list(read_pairs(CorpusConfig(file=nouns, columns=(3, 1)))) == [("Klöße", "Kloß")]


@pytest.mark.parametrize(
    ("left", "right"), [(b"a\nb\nc\n", b"x\n"), (b"a\n", b"x\ny\nz"), (b"a\n", b"x\n\n")]
)
def test_different_line_counts_are_reported_with_both_files(tmp_path, left, right):
    source, target = write(tmp_path / "s", left), write(tmp_path / "t", right)
    counts = [len(content.splitlines()) for content in (left, right)]
    with pytest.raises(DataError) as caught:
        list(read_pairs(CorpusConfig(source=source, target=target)))
    assert f"{source} has {counts[0]} lines but {target} has {counts[1]}" in str(caught.value)


FILES = {"source": "s", "target": "t"}


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ({}, "either"),
        ({"source": "s"}, "either"),
        ({**FILES, "file": "b"}, "either"),
        ({**FILES, "source_prefix": "two words"}, "one word"),
        ({**FILES, "sampling_weight": 0}, "greater than 0"),
        ({**FILES, "wieght": 2}, "weight"),
        ({"file": "b", "columns": [0, 1]}, "from 1"),
        ({"file": "b", "columns": [1, 1, 3]}, "twice"),
    ],
)
def test_invalid_corpus_settings_are_rejected(corpus, message):
    with pytest.raises(ConfigError, match=message):
        from_dict(DataConfig, {"train": [corpus], "valid": FILES})


def test_inconsistent_settings_are_rejected():
    data = {"train": [FILES], "valid": FILES}
    for name in ("valid", "test"):
        with pytest.raises(ConfigError, match=rf"{name}\.sampling_weight: the whole text is used"):
            from_dict(DataConfig, {**data, name: {**FILES, "sampling_weight": 0.5}})
    prefixed = {"kind": "pretrained", "path": "t5", "prefix": "translate: "}
    from_dict(DataConfig, {**data, "source_tokenizer": prefixed})
    with pytest.raises(ConfigError, match=r"target_tokenizer\.prefix: .* source lines only: remove this key"):
        from_dict(DataConfig, {**data, "target_tokenizer": prefixed})
    with pytest.raises(ConfigError, match="joint"):
        from_dict(DataConfig, {**data, "source_tokenizer": {"kind": "bpe"}})
    with pytest.raises(
        ConfigError, match="requires the same value for source_vocab_size and target_vocab_size"
    ):
        from_dict(DataConfig, {**data, "shared_vocab": True, "source_vocab_size": 5})
    with pytest.raises(ConfigError, match="language"):
        from_dict(DataConfig, {**data, "source_tokenizer": {"kind": "moses", "language": "German"}})
    both = {side: {"kind": "bpe", "language": code} for side, code in (("source", "de"), ("target", "en"))}
    tokenizers = {f"{side}_tokenizer": table for side, table in both.items()}
    assert from_dict(DataConfig, {**data, **tokenizers}).target_tokenizer.language == "en"


@pytest.mark.parametrize("zipped", [False, True])
def test_overlong_lines_become_empty_and_are_reported(tmp_path, caplog, zipped):
    path = tmp_path / "long"
    longest_line = b"x" * (MAX_LINE_BYTES - 1)
    content = (
        b"one\n" + b"y" * MAX_LINE_BYTES + b"\n" + longest_line + b"\nfour\n" + b"z" * (3 * MAX_LINE_BYTES)
    )
    path.write_bytes(gzip.compress(content, 1) if zipped else content)
    assert list(read_lines(path)) == ["one", "", longest_line.decode(), "four", ""]
    assert (
        f"long: line 2 has {MAX_LINE_BYTES + 1} bytes, more than the maximum of {MAX_LINE_BYTES}"
        in caplog.text
    )
    assert f"long: line 5 has {3 * MAX_LINE_BYTES} bytes" in caplog.text
    path.write_bytes(b"y" * 2 * MAX_LINE_BYTES + b"\na\xff\n")
    with pytest.raises(DataError, match=r"line 2, byte 2: not UTF-8 \(0xff\)"):
        list(read_lines(path))
