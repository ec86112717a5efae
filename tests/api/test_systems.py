"""The parts of a model directory that are trained on its text, when a report needs them."""

import pytest

from regard.api.systems import FEW_PAIRS, Companions
from regard.data.config import DataConfig
from regard.data.dataset import prepare_data
from regard.data.training_text import save_training_text
from regard.text.corpus import CorpusConfig


@pytest.mark.parametrize(("count", "noted"), [(FEW_PAIRS - 1, True), (FEW_PAIRS, False), (0, False)])
def test_marks_of_detectors_with_little_text_are_doubtful(count, noted, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(Companions, "pairs", lambda self: iter([("a", "b")] * count))
    notes = Companions(tmp_path).few_pairs_notes()
    assert [f"only {count:,} sentence pairs" in note for note in notes] == [True] * noted


def test_companions_read_the_first_pairs_of_all_texts_without_long_lines(tmp_path) -> None:
    (tmp_path / "text").write_text(f"a\n{'b ' * 200}\nc\nd\n")
    text = CorpusConfig(source=str(tmp_path / "text"), target=str(tmp_path / "text"))
    data = DataConfig(train=(text, text), valid=text, cache_dir=str(tmp_path / "prepared"))
    save_training_text(data, prepare_data(data), tmp_path)
    assert [len(list(Companions(tmp_path, max_pairs=count).pairs())) for count in (2, 4, 7)] == [2, 4, 6]
    (tmp_path / "training_pairs.source.gz").write_bytes(b"a")
    assert Companions(tmp_path).few_pairs_notes() == Companions(tmp_path / "nowhere").few_pairs_notes() == []
