"""The notebook about sparse attention in a BERT-type model."""

# pyright: basic

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")
nbformat = pytest.importorskip("nbformat", reason="needs nbformat")
matplotlib = pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'regard[plot]'")

NOTEBOOK = Path(__file__).parents[3] / "docs" / "notebooks" / "hf_sparse_attention.ipynb"


def test_cells_run_and_attention_becomes_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matplotlib.rcParams, "backend", "agg", raising=False)
    matplotlib.use("Agg")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    names = {}
    exec(code.replace("STEPS = 400", "STEPS = 6"), names)
    assert 0 < names["before"][1] < 1
    assert (names["heads"].sum(-1) - 1).abs().max() < 1e-5 and (names["heads"] == 0).any()
    assert names["received"][1.2] <= 1.2 + 1e-3 and len(names["figure"].axes) >= 4
