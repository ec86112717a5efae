"""Tests of prepared data that exists: it is reused if nothing changed, and kept after an error."""

import resource
import signal
from pathlib import Path

import pytest
from made_corpora import configure, corpus, sentences, stamp

from regard.data.dataset import PreparedData, prepare_data
from regard.errors import DataError

BAD = {
    "counts": (b"a\nb\n", b"x\n", "has 2 lines but .* has 1"),
    "latin": (b"a\nsch\xf6n\n", b"x\ny\n", "source: line 2, byte 4: not UTF-8"),
    "blank": (b"\n\n", b"x\ny\n", "no train pair is left"),
}


def test_unchanged_or_moved_text_is_reused(data, tmp_path):
    first = stamp(prepare_data(configure(data)))
    path = Path(data["train"][0]["source"])
    path.write_bytes(path.read_bytes())
    assert stamp(prepare_data(configure(data))) == first
    moved = tmp_path / "moved"
    Path(data["valid"]["target"]).rename(moved)
    data["valid"]["target"] = str(moved)
    data["train"][0]["sampling_weight"] = 3.0
    again = prepare_data(configure(data))
    assert stamp(again) == first
    assert len(again.split("train").epoch_rows(0, 0)) == 180


@pytest.mark.parametrize(
    "change", ["text", "setting", "train.source.tokens", "manifest.json", "source.vocabulary"]
)
def test_every_change_triggers_preprocessing(data, change):
    first = prepare_data(configure(data))
    unchanged, more = stamp(first), {"min_frequency": 3} if change == "setting" else {}
    path = Path(data["train"][0]["target"]) if change == "text" else first.directory / change
    if change == "text":
        path.write_text(path.read_text().replace("dog", "cat"))
    elif change == "train.source.tokens":
        path.unlink()
    elif change == "source.vocabulary":
        path.write_text(path.read_text().replace("Hund", "Bund"))  # of the same size
    elif change != "setting":
        path.write_bytes(path.read_bytes()[:-8])
    again = prepare_data(configure(data, **more))
    assert stamp(again) != unchanged
    if change == "text":
        assert "dog." not in again.text.target.vocabulary
    else:
        assert len(again.split("train")) == 60


@pytest.mark.parametrize("name", ["train.source.tokens", "manifest.json", "target.vocabulary", "text.json"])
def test_opening_reports_the_damaged_file(data, name):
    directory = prepare_data(configure(data)).directory
    path = directory / name
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DataError) as caught:
        PreparedData.open(directory)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", BAD)
def test_invalid_input_is_reported_and_leaves_no_files(tmp_path, data, name):
    source, target, message = BAD[name]
    (tmp_path / "bad.source").write_bytes(source)
    (tmp_path / "bad.target").write_bytes(target)
    bad = {side: str(tmp_path / f"bad.{side}") for side in ("source", "target")}
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match=message):
        prepare_data(configure(data, train=[bad]))
    assert sorted(tmp_path.iterdir()) == before


def test_full_disk_is_reported_and_keeps_the_earlier_data(tmp_path, data):
    first = prepare_data(configure(data))
    unchanged = stamp(first)
    data["train"] = [corpus(tmp_path, "more", *sentences(3000, 4))]
    config = configure(data)
    before = sorted(tmp_path.iterdir())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        message = r"prepared: cannot write preprocessed.*File too large; no files were kept"
        with pytest.raises(DataError, match=message):
            prepare_data(config)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert sorted(tmp_path.iterdir()) == before
    assert stamp(PreparedData.open(first.directory)) == unchanged


def test_directories_with_other_files_are_not_changed(tmp_path, data):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("words")
    with pytest.raises(DataError, match="does not contain prepared data"):
        prepare_data(configure(data, cache_dir=str(tmp_path / "thesis")))
    with pytest.raises(DataError, match="File exists"):
        prepare_data(configure(data, cache_dir=str(tmp_path / "thesis" / "chapter" / "prepared")))
    assert (tmp_path / "thesis" / "chapter").read_text() == "words"


def test_replaced_data_is_not_mixed_with_opened_data(data):
    opened = prepare_data(configure(data))
    train, valid = opened.split("train"), opened.split("valid")
    before = train.example(3)[0].tolist()
    Path(data["valid"]["source"]).write_text(Path(data["valid"]["source"]).read_text().upper())
    prepare_data(configure(data))
    for read in (lambda: opened.split("train"), valid.raw_lines):
        with pytest.raises(DataError, match="other data was written to this directory"):
            read()
    assert train.example(3)[0].tolist() == before
