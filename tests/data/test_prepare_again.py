"""Tests of reusing prepared data: it is prepared again only if the text or the settings changed."""

from pathlib import Path

import pytest
from made_corpora import configure, stamp

from regard.data.dataset import PreparedData, prepare_data
from regard.errors import DataError


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
