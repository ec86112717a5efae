"""The chosen aligner counts the links that fertilities are made of."""

from pathlib import Path

import pytest

from regard.config import from_dict
from regard.data.config import DataConfig
from regard.data.dataset import PreparedData, prepare_data
from regard.errors import ConfigError
from regard.training.fertility import add_fertilities

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


@pytest.mark.parametrize("aligner", ["ibm2", "hmm"])
def test_chosen_aligner_counts_the_links(aligner: str, tmp_path: Path) -> None:
    found = table(with_fertilities(tmp_path, kind="guided", aligner=aligner))
    assert found["a"] == 2 and found["b"] == 1
    assert len(list((tmp_path / "prepared").glob(f"{aligner}-*.train.fertilities"))) == 1


def test_unknown_aligner_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="aligner"):
        with_fertilities(tmp_path, kind="guided", aligner="giza")
