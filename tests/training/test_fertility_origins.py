"""The chosen aligner counts the links that fertilities are made of."""

from pathlib import Path

import pytest

from regard.config import from_dict
from regard.data.config import DataConfig
from regard.data.dataset import prepare_data
from regard.errors import ConfigError
from regard.training.fertility import add_fertilities

PAIRS = {
    "train": [("a b", "x y z"), ("b", "z"), ("a", "x y"), ("a b", "x y z"), ("c c c c c", "w")] * 4,
    "valid": [("a", "x y"), ("b a", "z x y")],
}


def fertilities(directory: Path, aligner: str) -> dict[str, float]:
    """Return the guided fertilities of the words; the pairs of five words are dropped for their length."""
    files = {}
    for split, pairs in PAIRS.items():
        files[split] = {side: str(directory / f"{split}.{side}") for side in ("source", "target")}
        for side, path in enumerate(files[split].values()):
            Path(path).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    config = from_dict(DataConfig, {
        "train": [files["train"]], "valid": files["valid"], "cache_dir": str(directory / "prepared"),
        "max_length": 4, "fertility": {"kind": "guided", "aligner": aligner},
    })  # fmt: skip
    prepared = prepare_data(config)
    text = add_fertilities(prepared, config.fertility, prepared.fingerprint).text
    assert text.budget is not None and text.budget.table is not None
    return dict(zip(text.source.vocabulary.tokens, text.budget.table.tolist(), strict=True))


@pytest.mark.parametrize("aligner", ["ibm2", "hmm"])
def test_chosen_aligner_counts_the_links(aligner: str, tmp_path: Path) -> None:
    table = fertilities(tmp_path, aligner)
    assert table["a"] == 2 and table["b"] == 1
    assert len(list((tmp_path / "prepared").glob(f"{aligner}-*.train.fertilities"))) == 1


def test_unknown_aligner_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="aligner"):
        fertilities(tmp_path, "giza")
