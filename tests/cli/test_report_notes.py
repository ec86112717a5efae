"""Notes for the reader of a report page: few training pairs, and models that differ in several options."""

# pyright: basic

from pathlib import Path

import pytest
from test_translate import save_model

from regard.analysis.inputs import ParallelText
from regard.api.companions import FEW_PAIRS, Companions
from regard.api.report_notes import differing_options, few_pairs_notes, page_notes
from regard.data.config import DataConfig
from regard.data.dataset import prepare_data
from regard.data.training_text import save_training_text
from regard.reporting.model_card import ModelCard
from regard.reporting.systems import SystemResults
from regard.text.corpus import CorpusConfig

TEXT = ParallelText(("a b",), ("A B",))


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models that differ in nothing but their files."""
    directory = tmp_path_factory.mktemp("models")
    return save_model(directory / "first"), save_model(directory / "second", fertility=0.75)


def changed(directory: Path, into: Path, old: str, new: str) -> Path:
    """Return a directory with a copy of the configuration in which a setting is replaced."""
    into.mkdir()
    content = (directory / "config.toml").read_text()
    assert old in content
    (into / "config.toml").write_text(content.replace(old, new))
    return into


def notes(*models: Path) -> list[str]:
    systems = [SystemResults(one.name, str(one), (), card=ModelCard("rnn", (str(one),))) for one in models]
    return [one for one in page_notes(systems, TEXT, "none") if "configurations" in one]


def test_models_that_differ_in_one_option_have_no_note(directories, tmp_path: Path) -> None:
    first, second = directories
    assert list(differing_options(directories)) == ["attention"] and notes(first, second) == []
    other = changed(first, tmp_path / "seed", "seed = 1", "seed = 2")
    assert differing_options([first, other]) == {"seed": ["1", "2"]} and notes(first, other) == []
    assert notes(first) == []


def test_long_values_are_compared_whole_and_shown_short(directories, tmp_path: Path) -> None:
    first = changed(directories[0], tmp_path / "first", "seed = 1", "seed = 2")
    start = "d" * 60
    one, two = (
        changed(origin, tmp_path / end, "[training]", f'[training]\ninit_from = "{start}{end}"')
        for origin, end in ((directories[0], "1"), (first, "2"))
    )
    assert differing_options([one, two])["training.init_from"] == [f"{start}1", f"{start}2"]
    (note,) = notes(one, two)
    assert f"({'d' * 40}, {'d' * 40})" in note


def test_directories_of_runs_are_not_compared(directories, tmp_path: Path) -> None:
    other = changed(directories[0], tmp_path / "other", "seed = 1", 'seed = 1\noutput_dir = "elsewhere"')
    assert differing_options([directories[0], other]) == {}


def test_further_differences_than_attention_are_named(directories, tmp_path: Path) -> None:
    first, second = directories
    other = changed(second, tmp_path / "other", "seed = 1", "seed = 2")
    (note,) = notes(first, other)
    assert note.startswith("The configurations differ in seed (1, 2) and attention (")


@pytest.mark.parametrize(("count", "noted"), [(FEW_PAIRS - 1, True), (FEW_PAIRS, False), (0, False)])
def test_marks_of_detectors_with_little_text_are_doubtful(count, noted, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(Companions, "num_pairs", lambda self: count)
    found = few_pairs_notes(Companions(tmp_path))
    assert [f"only {count:,} sentence pairs" in one for one in found] == [True] * noted
    assert few_pairs_notes(None) == []


def test_companions_read_the_first_pairs_of_all_texts_without_long_lines(tmp_path) -> None:
    (tmp_path / "text").write_text(f"a\n{'b ' * 200}\nc\nd\n")
    text = CorpusConfig(source=str(tmp_path / "text"), target=str(tmp_path / "text"))
    data = DataConfig(train=(text, text), valid=text, cache_dir=str(tmp_path / "prepared"))
    save_training_text(data, prepare_data(data), tmp_path)
    assert [Companions(tmp_path, max_pairs=count).num_pairs() for count in (2, 4, 7)] == [2, 4, 6]
    (tmp_path / "training_pairs.source.gz").write_bytes(b"a")
    assert Companions(tmp_path).num_pairs() == Companions(tmp_path / "nowhere").num_pairs() == 0
