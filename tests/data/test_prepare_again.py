"""Tests of reusing prepared data: it is prepared again only if the text or the settings changed."""

from pathlib import Path

import pytest
from made_corpora import configure, stamp

from regard.data.dataset import PreparedData, prepare_data
from regard.errors import DataError


def test_unchanged_data_is_reused(data):
    first = stamp(prepare_data(configure(data)))
    assert stamp(prepare_data(configure(data))) == first
    path = Path(data["train"][0]["source"])
    path.write_bytes(path.read_bytes())
    assert stamp(prepare_data(configure(data))) == first


def test_moved_text_files_do_not_trigger_preprocessing(data, tmp_path):
    first = stamp(prepare_data(configure(data)))
    moved = tmp_path / "moved"
    Path(data["valid"]["target"]).rename(moved)
    data["valid"]["target"] = str(moved)
    assert stamp(prepare_data(configure(data))) == first


@pytest.mark.parametrize("change", ["text", "setting", "missing", "truncated", "manifest", "vocabulary"])
def test_every_change_triggers_preprocessing(data, change):
    first = prepare_data(configure(data))
    unchanged, more = stamp(first), {}
    if change == "text":
        path = Path(data["train"][0]["target"])
        path.write_text(path.read_text().replace("dog", "cat"))
    elif change == "setting":
        more = {"min_frequency": 3}
    elif change == "missing":
        (first.directory / "train.source.tokens").unlink()
    elif change == "truncated":
        path = first.directory / "train.target.offsets"
        path.write_bytes(path.read_bytes()[:-8])
    elif change == "manifest":
        path = first.directory / "manifest.json"
        path.write_text(path.read_text()[:-40])
    else:
        path = first.directory / "source.vocabulary"
        path.write_text(path.read_text().replace("Hund", "Bund"))
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
