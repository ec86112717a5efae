"""The notebook about sparse attention in a BERT-type model."""

# pyright: basic

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")
nbformat = pytest.importorskip("nbformat", reason="needs nbformat")
matplotlib = pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'regard[plot]'")

ROOT = Path(__file__).parents[3]


def load_tool():
    spec = importlib.util.spec_from_file_location("make_notebook", ROOT / "tools" / "make_notebook.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_notebook_is_up_to_date_and_has_no_outputs() -> None:
    tool = load_tool()
    written = nbformat.read(tool.PATH, as_version=4)
    nbformat.validate(written)
    assert [cell.source for cell in written.cells] == tool.CELLS
    assert not any(cell.get("outputs") for cell in written.cells)


def test_cells_run_and_attention_becomes_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matplotlib.rcParams, "backend", "agg", raising=False)
    matplotlib.use("Agg")
    names = load_tool().run(steps=6)
    assert 0 < names["before"][1] < 1
    assert (names["heads"].sum(-1) - 1).abs().max() < 1e-5 and (names["heads"] == 0).any()
    assert names["received"][1.2] <= 1.2 + 1e-3 and len(names["figure"].axes) >= 4
