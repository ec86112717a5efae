"""Tests of the origin of fertilities: the chosen aligner, or a file with one line per pair of the corpora."""

from pathlib import Path

import numpy as np
import pytest

from regard.config import from_dict
from regard.data.config import DataConfig
from regard.data.dataset import PreparedData, prepare_data
from regard.errors import ConfigError, DataError
from regard.training.fertility import add_fertilities, read_fertilities

PAIRS = {
    "train": [("a b", "x y z"), ("b", "z"), ("a", "x y"), ("a b", "x y z"), ("c c c c c", "w")] * 4,
    "valid": [("a", "x y"), ("b a", "z x y")],
}


def prepared(directory: Path, **options) -> PreparedData:
    """Prepare the text; the pairs of five words are dropped for their length."""
    files = {}
    for split, pairs in PAIRS.items():
        files[split] = {side: str(directory / f"{split}.{side}") for side in ("source", "target")}
        for side, path in enumerate(files[split].values()):
            Path(path).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    data = {
        "train": [files["train"]], "valid": files["valid"], "cache_dir": str(directory / "prepared"),
        "max_length": 4, **options,
    }  # fmt: skip
    return prepare_data(from_dict(DataConfig, data))


def with_fertilities(directory: Path, **fertility) -> PreparedData:
    found = prepared(directory)
    config = from_dict(DataConfig, {
        "train": [{"source": "a", "target": "b"}], "valid": {"source": "a", "target": "b"},
        "fertility": fertility,
    }).fertility  # fmt: skip
    return add_fertilities(found, config, found.fingerprint)


def table(data: PreparedData) -> dict[str, float]:
    budget = data.text.budget
    assert budget is not None and budget.table is not None
    return dict(zip(data.text.source.vocabulary.tokens, budget.table.tolist(), strict=True))


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("aligner", ["ibm2", "hmm"])
def test_chosen_aligner_counts_the_links(aligner: str, tmp_path: Path) -> None:
    found = table(with_fertilities(tmp_path, kind="guided", aligner=aligner))
    assert found["a"] == 2 and found["b"] == 1
    assert len(list((tmp_path / "prepared").glob(f"guided-{aligner}-*.fertilities"))) == 1


def test_numbers_of_a_file_replace_the_aligner(tmp_path: Path) -> None:
    file = write(tmp_path / "numbers", ["3 0", "1", "2", "1 4", "9 9 9 9 9"] * 4)
    found = table(with_fertilities(tmp_path, kind="guided", file=file))
    # The largest number of each token, at least 1; the dropped pairs do not count.
    assert (found["a"], found["b"]) == (3, 4) and "c" not in found
    first = sorted((tmp_path / "prepared").glob("guided-file-*"))
    write(tmp_path / "numbers", ["1 0", "1", "2", "1 1", "9 9 9 9 9"] * 4)
    assert table(with_fertilities(tmp_path, kind="guided", file=file))["a"] == 2
    assert len(sorted((tmp_path / "prepared").glob("guided-file-*"))) == len(first) + 1


def test_predictor_learns_the_numbers_of_both_files(tmp_path: Path) -> None:
    files = {
        "file": write(tmp_path / "train.numbers", ["3 0", "1", "2", "1 4", "9 9 9 9 9"] * 4),
        "valid_file": write(tmp_path / "valid.numbers", ["2", "1 2"]),
    }
    found = with_fertilities(tmp_path, kind="predicted", hidden_size=8, max_epochs=1, **files)
    batch = found.split("train").batch([0])
    assert batch.upper_bounds is not None
    # The larger of the number and 1, plus a slack of 1, and the sink.
    assert batch.upper_bounds[0].tolist() == [4, 2, np.inf]


def test_number_of_a_word_applies_to_each_of_its_tokens(tmp_path: Path) -> None:
    tokenizer = {"kind": "bpe", "tokenized": True, "num_merges": 0}
    pairs = {"train": [("ab a", "x")] * 3, "valid": [("a", "x")]}
    before = dict(PAIRS)
    PAIRS.update(pairs)
    try:
        data = prepared(tmp_path, source_tokenizer=tokenizer, target_tokenizer=tokenizer)
    finally:
        PAIRS.update(before)
    assert data.split("train").source_lengths.tolist() == [3, 3, 3]
    file = write(tmp_path / "numbers", ["2 1", "2 0 1", "0 3"])
    found = read_fertilities(Path(file), data.split("train"))
    assert found.tolist() == [2, 2, 1, 2, 0, 1, 0, 0, 3]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1 1"], "1 lines, expected 20: one per pair"),
        (["1 1 1"] * 20, r"line 1 .*3 fertilities, but the sentence has 2 tokens"),
        (["1 1.5"] * 20, "line 1 .*expected integers"),
        (["1 1:2"] * 20, "line 1 .*expected integers"),
        (["1 x"] * 20, "line 1 "),
    ],
)
def test_file_that_does_not_fit_the_text_is_refused(lines, message, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        with_fertilities(tmp_path, kind="guided", file=write(tmp_path / "numbers", lines))


def test_both_splits_need_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="file and valid_file need each other"):
        with_fertilities(tmp_path, kind="predicted", file="numbers")
    with pytest.raises(ConfigError, match="aligner"):
        with_fertilities(tmp_path, kind="guided", aligner="giza")
